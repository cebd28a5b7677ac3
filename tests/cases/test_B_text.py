"""cases.md B: bytes and text, through HTTP."""

from __future__ import annotations

import pytest

from tests.cases.door import Service


@pytest.mark.parametrize(
    ("lang", "code", "stdout"),
    [
        ("py", 'import sys\nsys.stdout.buffer.write(b"\\xff\\xfe\\x00ok")\n', "\ufffd\ufffd\0ok"),
        ("bash", r"printf '\xff\xfe\x00ok'", "\ufffd\ufffd\0ok"),
        ("js", "process.stdout.write(Buffer.from([0xff, 0xfe, 0, 0x6f, 0x6b]))", "\ufffd\ufffd\0ok"),
        ("php", '<?php echo "\\xff\\xfe\\0ok";', "\ufffd\ufffd\0ok"),
        ("c", '#include <stdio.h>\nint main(void) { fwrite("\\xff\\xfe\\0ok", 1, 5, stdout); }\n', "\ufffd\ufffd\0ok"),
        ("bash", r"printf '\xed\xa0\x80'", "\ufffd\ufffd\ufffd"),
        ("bash", r"printf '\xc0\xaf|\xf4\x90\x80\x80|\xe2\x82'", "\ufffd\ufffd|\ufffd\ufffd\ufffd\ufffd|\ufffd"),
        ("bash", r"printf '\xef\xbb\xbfbom'", "\ufeffbom"),
        ("bash", r"printf '\xe2\x80\xa8\x1b[31m\x7f\x08\r\n\t'", "\u2028\x1b[31m\x7f\x08\r\n\t"),
    ],
)  # fmt: skip
def test_B1_any_bytes_are_answered(service: Service, lang: str, code: str, stdout: str) -> None:
    service.run(lang, code).expect(stdout)


def test_B1_every_byte_on_both_streams(service: Service) -> None:
    code = "import sys\nfor s in sys.stdout, sys.stderr:\n    s.buffer.write(bytes(range(256)))\n    s.flush()\n"
    ran = service.run("py", code).expect_end(0)
    expected = bytes(range(128)).decode() + "\ufffd" * 128
    assert ran.stdout == ran.stderr == expected


@pytest.mark.parametrize("code", ["printf 'a\\0b'", "printf 'a\\0b' > f; cat f"])
def test_B2_a_nul_is_a_character_of_the_output(service: Service, code: str) -> None:
    answer = service.post({"lang": "bash", "code": code})
    assert answer.status_code == 200
    assert b'"stdout":"a\\u0000b"' in answer.content.replace(b'": "', b'":"')
    assert answer.json()["stdout"] == "a\0b"


def test_output_is_exact_also_at_its_ends(service: Service) -> None:
    """exec.md A3: read_file takes stdout verbatim."""
    for text in ("", "\n", "\n\n x \n\n", "no end", " \t ", "\r\n"):
        session = service.upload("f", text.encode())
        service.run("bash", "cat '/mnt/data/f'", session).expect(text)


@pytest.mark.parametrize(
    ("lang", "code", "stdout"),
    [
        ("py", 'print("π 🤣")\n', "π 🤣\n"),
        ("java", 'class M { public static void main(String[] a) { System.out.println("π 🤣"); } }\n', "π 🤣\n"),
        ("r", 'cat("π 🤣\\n")\nprint("é")\ncat(nchar("é"), "\\n", sep = "")\n', 'π 🤣\n[1] "é"\n1\n'),
        ("bash", "printf 'é' | wc -m", "1\n"),
        ("bash", "printf 'é🤣' | sed 's/./x/g'; printf '\\n'; x=é; echo ${#x}", "xx\n1\n"),
        ("py", "import sys, locale\nprint(sys.stdout.encoding, sys.getfilesystemencoding())\n"
               "print(locale.getpreferredencoding())",
         "utf-8 utf-8\nutf-8\n"),
        ("py", "open('f', 'w').write('é')\nprint(open('f', 'rb').read())\n", "b'\\xc3\\xa9'\n"),
        ("php", "<?php echo mb_strlen('é🤣'), \"\\n\";", "2\n"),
        ("js", "console.log([...'é🤣'].length, Buffer.from('é').length)", "2 2\n"),
        ("ts", "const s: string = 'π 🤣';\nconsole.log(s)\n", "π 🤣\n"),
        ("go", 'package main\nimport "fmt"\nfunc main() { fmt.Println("π 🤣", len([]rune("é"))) }\n', "π 🤣 1\n"),
        ("rs", 'fn main() { println!("π 🤣 {}", "é".chars().count()); }\n', "π 🤣 1\n"),
        ("c", "#include <locale.h>\n#include <stdio.h>\n#include <wchar.h>\n"
              'int main(void) { setlocale(LC_ALL, ""); printf("%ls\\n", L"π 🤣"); }\n', "π 🤣\n"),
        ("d", 'import std.stdio, std.utf;\nvoid main() { writeln("π 🤣 ", count("é")); }\n', "π 🤣 1\n"),
        ("f90", 'print "(A)", "π 🤣"\nend\n', "π 🤣\n"),
    ],
)  # fmt: skip
def test_B9_everything_is_utf_8(service: Service, lang: str, code: str, stdout: str) -> None:
    ran = service.run(lang, code).expect_end(0)
    assert (ran.stdout, ran.stderr) == (stdout, "")


def test_B9_java_reads_and_names_files_in_utf_8(service: Service) -> None:
    code = (
        "import java.nio.file.*;\nimport java.util.*;\n"
        "class M { public static void main(String[] a) throws Exception {\n"
        '  Files.writeString(Path.of("π.txt"), "é");\n'
        '  try (var all = Files.list(Path.of("."))) { all.forEach(System.out::println); }\n'
        '  System.out.println(new Scanner(Path.of("π.txt")).next());\n'
        '  System.err.println("π"); } }\n'
    )
    ran = service.run("java", code).expect_end(0)
    assert (ran.stdout, ran.stderr, ran.names) == ("./π.txt\né\n", "π\n", ["π.txt"])


def test_the_program_is_written_byte_for_byte(service: Service) -> None:
    """No line end, mark or quote of a program is touched, nor is one added."""
    for code in ("print(len('''a\r\nb'''))", "\ufeffprint(3)", "#!/usr/bin/env python2\nprint(3)\n", "print(3)#é"):
        assert service.run("py", code).expect_end(0).stdout == "3\n"
    quoted = "cat <<'EOF'\n$x `y` \\n '''\n\"\n{src}{build}\nEOF\n"
    service.run("bash", quoted).expect("$x `y` \\n '''\n\"\n{src}{build}\n")
    service.run("bash", 'wc -c < "$0"; exit 0 #' + "é" * 1000).expect("2022\n")
