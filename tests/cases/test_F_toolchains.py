"""cases.md F: toolchains and the quirks of languages, through HTTP."""

# ruff: noqa: E501 (programs of other languages stand as they are written)

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.cases.door import LANGS, Service, at_once

PNG = b"\x89PNG\r\n\x1a\n"


def test_F2_a_plot_is_saved_without_a_word(service: Service) -> None:
    code = 'import matplotlib.pyplot as p\np.plot([1])\np.title("π")\np.savefig("a.png")\nprint(p.get_backend())\n'
    ran = service.run("py", code).expect_end(0)
    assert (ran.stderr, ran.names) == ("", ["a.png"])
    assert "font" not in ran.stdout
    assert service.read(ran.session, "a.png").startswith(PNG)
    service.run("bash", "ls -A", ran.session).expect("a.png\n")


def test_F3_shown_figures_become_files(service: Service) -> None:
    code = (
        "import matplotlib.pyplot as p\np.plot([1]); p.show()\np.figure(); p.plot([2]); p.figure(); p.plot([3]); p.show()\n"
        "p.show()\n"
    )
    ran = service.run("py", code).expect("", ["plot-1.png", "plot-2.png", "plot-3.png"])
    assert all(service.read(ran.session, name).startswith(PNG) for name in ran.names)
    again = service.run("py", "import matplotlib.pyplot as p\np.plot([4]); p.show()\n", ran.session).expect_end(0)
    assert again.stderr == ""
    assert "plot-1.png" not in again.deleted
    service.run("py", "import matplotlib.pyplot as p\np.plot([1])\n").expect("")


@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("print(1)", []),
        ("x <- 1:3; cat(mean(x))", []),
        ("x <- hist(c(1, 2), plot = FALSE)", []),
        ('png("mine.png"); plot(1); invisible(dev.off())', ["mine.png"]),
        ('pdf("mine.pdf"); plot(1); invisible(dev.off())', ["mine.pdf"]),
    ],
)
def test_F4_r_leaves_no_stray_plot(service: Service, code: str, files: list[str]) -> None:
    ran = service.run("r", code).expect_end(0)
    assert (ran.stderr, ran.names) == ("", files)


def test_F4_r_plots_are_the_intended_output_or_none(service: Service) -> None:
    ran = service.run("r", "x <- hist(c(1, 2))\nplot(1)\n").expect_end(0)
    assert ran.stderr == ""
    assert "Rplots.pdf" not in ran.names
    for name in ran.names:
        assert service.read(ran.session, name)[:4] in (PNG[:4], b"%PDF")


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ('package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hi") }\n', "hi\n"),
        (
            'package main\nimport ("encoding/json"; "fmt"; "math/rand/v2"; "regexp"; "sort"; "strings"; "sync"; "time")\n'
            "func main() { b, _ := json.Marshal([]int{1}); var w sync.WaitGroup; w.Wait(); s := []int{2, 1}; sort.Ints(s)\n"
            ' fmt.Println(string(b), s, strings.ToUpper("a"), regexp.MustCompile("a").MatchString("a"), rand.IntN(1),'
            " time.Duration(5)) }\n",
            "[1] [1 2] A true 0 5ns\n",
        ),
        ("package main\nimport \"os/user\"\nfunc main() { u, _ := user.Current(); println(u != nil) }\n", ""),
        ('package main\nimport ("fmt"; "slices"; "maps")\nfunc main() { for i := range 2 { fmt.Print(i) }\n'
         ' fmt.Println(slices.Sorted(maps.Keys(map[string]int{"b": 1, "a": 2}))) }\n', "01[a b]\n"),
    ],
)  # fmt: skip
def test_F5_go_runs_without_a_module(service: Service, code: str, stdout: str) -> None:
    ran = service.run("go", code).expect_end(0)
    assert (ran.stdout, ran.files) == (stdout, [])


def test_F5_go_does_not_go_to_a_network(service: Service) -> None:
    ran = service.run("go", 'package main\nimport _ "example.com/not/here"\nfunc main() {}\n')
    assert ran.code not in (0, None)
    assert "example.com/not/here" in ran.stderr
    assert ran.seconds < 15
    env = service.run("bash", "go env GOPROXY GOTOOLCHAIN GOFLAGS GOCACHE; go version").expect_end(0)
    assert env.stdout.startswith("off\nlocal\n-mod=mod\n/tmp/home/.cache/go-build\ngo version go1."), env


def test_F7_rust_warns_and_is_of_2021(service: Service) -> None:
    ran = service.run("rs", "fn main() { let x = 1; }").expect_end(0)
    assert "unused variable" in ran.stderr
    assert ran.stdout == ""
    code = 'async fn f() -> u8 { 7 }\nfn main() { let _ = f(); let a = [1u8]; for x in a.into_iter() { let x: u8 = x; println!("{x}"); } }\n'
    assert service.run("rs", code).expect_end(0).stdout == "1\n"


@pytest.mark.parametrize(
    ("lang", "code"),
    [
        ("js", 'const fs = require("fs");\nconsole.log(fs.existsSync("/"), __filename.length > 0);'),
        ("js", 'import fs from "fs";\nconsole.log(fs.existsSync("/"), import.meta.url.length > 0);'),
        ("js", 'const fs = await import("fs");\nconsole.log(fs.existsSync("/"), await Promise.resolve(true));'),
        ("ts", 'import fs from "fs";\nconst t: boolean = fs.existsSync("/");\nconsole.log(t, await Promise.resolve(true));'),
        ("ts", "interface A { x: boolean }\nenum E { A = 1 }\nnamespace N { export const t = true }\n"
               "class C { constructor(public x: boolean) {} }\nconst a: A = new C(E.A === 1);\nconsole.log(a.x, N.t);"),
        ("ts", 'import type { Stats } from "fs";\nimport { statSync } from "node:fs";\n'
               'const s: Stats = statSync("/");\nconsole.log(s.isDirectory(), (<T,>(x: T): T => x)(true) satisfies boolean);'),
    ],
)  # fmt: skip
def test_F9_scripts_and_modules_both_work(service: Service, lang: str, code: str) -> None:
    service.run(lang, code).expect("true true\n")


def test_F9_files_of_the_workspace_can_be_required(service: Service) -> None:
    session = service.upload("lib/own.js", b"module.exports = 'own';")
    service.upload("esm.mjs", b"export default 'esm';", session)
    service.upload("data.json", b'{"a": 1}', session)
    service.run("js", "console.log(require('./lib/own'), require('./data.json').a)", session).expect("own 1\n")
    service.run("js", "import esm from './esm.mjs';\nconsole.log(esm)", session).expect("esm\n")


def test_F9_the_error_is_node_s_own(service: Service) -> None:
    ran = service.run("js", "console.log(1)\n\nnothing.here\n").expect_end(1)
    assert ran.stdout == "1\n"
    assert "/program/main.js:3\n" in ran.stderr
    assert "ReferenceError: nothing is not defined" in ran.stderr
    ran = service.run("ts", "const a: number = 1;\n\ninterface B { x: 1 }\n(a as any).b.c;\n").expect_end(1)
    assert "main.ts:4" in ran.stderr
    assert "TypeError: Cannot read properties of undefined" in ran.stderr


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("echo 1;", "echo 1;"),
        ("<?php echo 1;", "1"),
        ("<b><?= 1 ?></b>\n", "<b>1</b>\n"),
        ("<?php echo 1; ?>\nplain\n", "1plain\n"),
        ("#!/usr/bin/php\n<?php echo 2;", "2"),
        ("<?php declare(strict_types=1);\nnamespace A;\necho __NAMESPACE__, PHP_SAPI;", "Acli"),
    ],
)
def test_F10_php_is_untouched(service: Service, code: str, stdout: str) -> None:
    service.run("php", code).expect(stdout)


def test_F10_php_says_errors_on_stderr_as_text(service: Service) -> None:
    ran = service.run("php", "<?php echo 'out'; echo $nothing; strlen();")
    assert (ran.code, ran.stdout) == (255, "out")
    assert "Undefined variable $nothing" in ran.stderr
    assert "ArgumentCountError" in ran.stderr
    assert "<b>" not in ran.stderr


def test_F11_a_compiler_that_reads_without_end_is_the_program_s_failure(service: Service) -> None:
    wanted = [(lang, path) for lang in ("c", "cpp") for path in ("/dev/random", "/dev/zero")]
    code = '#include "@"\nint main(void) {}\n'
    runs = at_once([partial(service.run, lang, code.replace("@", path), timeout=2_000) for lang, path in wanted])
    for ran in runs:
        assert ran.code != 0, ran
        assert ran.status in ("TO", "SG", "OL", None), ran
        assert ran.stderr != ""
        assert ran.files == []
        assert ran.seconds < 15


def test_F11_a_template_bomb_ends_by_time_or_memory(service: Service) -> None:
    code = "template<int N, class T> struct A { A<N - 1, A<N, T>> a; A<N - 1, A<N - 1, T>> b; };\nint main() { A<900, int> a; }\n"
    ran = service.run("cpp", code, timeout=3_000)
    assert ran.code != 0
    assert ran.stdout == ""
    assert ran.seconds < 15
    macros = "#define A0 x x\n" + "".join(f"#define A{i} A{i - 1} A{i - 1}\n" for i in range(1, 40)) + "A39\n"
    ran = service.run("c", macros, timeout=2_000)
    assert ran.code != 0
    assert ran.seconds < 15
    service.run("c", '#include <stdio.h>\nint main(void) { puts("next"); }\n').expect("next\n")


def test_F11_compiling_counts_into_the_time(service: Service) -> None:
    ran = service.run("d", "import std.stdio, std.regex, std.algorithm;\nvoid main() { writeln(1); }\n", timeout=60)
    assert (ran.status, ran.code, ran.stdout) == ("TO", None, "")
    assert ran.last_line() == "timed out after 0.06 s"


@pytest.mark.parametrize(
    ("lang", "code", "stdout"),
    [
        ("c", '#include <math.h>\n#include <stdio.h>\nint main(int n, char **v) { printf("%.3f\\n", sqrt(n + 1)); }\n',
         "1.414\n"),
        ("c", '#include <stdio.h>\nint main(void) { auto int x = 0b11; typeof(x) y = ({ x + 1; }); printf("%d %ld\\n", y,'
              " __STDC_VERSION__); }\n", "4 201710\n"),
        ("c", "#include <pthread.h>\n#include <stdio.h>\nvoid *f(void *x) { return x; }\nint main(void) { pthread_t t; void *r;\n"
              ' pthread_create(&t, 0, f, "joined"); pthread_join(t, &r); puts(r); }\n', "joined\n"),
        ("cpp", "#include <compare>\n#include <concepts>\n#include <cstdio>\n#include <span>\n"
                'int main() { std::printf("%ld %d\\n", __cplusplus, std::integral<int>); }\n', "202002 1\n"),
        ("cpp", "#include <bits/stdc++.h>\nusing namespace std;\nint main() { vector<int> v{3, 1}; sort(v.begin(), v.end());\n"
                " thread t([] {}); t.join(); cout << v[0] << endl; }\n", "1\n"),
    ],
)  # fmt: skip
def test_F13_mathematics_threads_and_the_standard_of_today(service: Service, lang: str, code: str, stdout: str) -> None:
    service.run(lang, code).expect(stdout)


def test_F13_headers_of_the_workspace_are_found(service: Service) -> None:
    session = service.upload("own.h", b"#define OWN 7\n")
    for lang in ("c", "cpp"):
        service.run(
            lang, '#include <stdio.h>\n#include "own.h"\nint main(void) { printf("%d\\n", OWN); }\n', session
        ).expect("7\n")


def test_F14_module_and_program_in_one_file(service: Service) -> None:
    code = (
        "module shapes\n implicit none\n contains\n function area(r) result(a)\n  real, intent(in) :: r\n  real :: a\n"
        "  a = 3.0 * r\n end function\nend module\nprogram main\n use shapes\n print '(F4.1)', area(2.0)\nend program\n"
    )
    ran = service.run("f90", code).expect(" 6.0\n")
    service.run("bash", "ls -A", ran.session).expect("")


@pytest.mark.parametrize("lang", ["d", "c", "java", "f90"])
def test_F14_two_compilations_at_once_do_not_meet(service: Service, lang: str) -> None:
    programs = {
        "d": 'import std.stdio;\nvoid main() { writeln("@"); }\n',
        "c": '#include <stdio.h>\nint main(void) { puts("@"); }\n',
        "java": 'class M { public static void main(String[] a) { System.out.println("@"); } }\n',
        "f90": 'module m\n character(1) :: c = "@"\nend module\nprogram p\n use m\n print "(A)", c\nend program\n',
    }
    session = service.run("bash", "true").session
    sessions = [None, None, session, session]
    runs = at_once([partial(service.run, lang, programs[lang].replace("@", str(i)), s) for i, s in enumerate(sessions)])
    for index, ran in enumerate(runs):
        ran.expect(f"{index}\n")


@pytest.mark.parametrize(
    ("lang", "code", "stdout"),
    [
        ("py", "import time, os\nprint(time.tzname, os.environ.get('SOURCE_DATE_EPOCH'))", "('UTC', 'UTC') None\n"),
        ("js", "console.log(Intl.DateTimeFormat().resolvedOptions().timeZone, new Date(0).getHours())", "UTC 0\n"),
        ("bash", "date -d @0 +%Z%H; echo ${SOURCE_DATE_EPOCH-unset}", "UTC00\nunset\n"),
        ("r", "cat(Sys.timezone(), format(as.POSIXct(0), '%H'))", "UTC 00"),
        ("php", "<?php echo date_default_timezone_get(), date('H', 0);", "UTC00"),
        ("go", 'package main\nimport ("fmt"; "time")\nfunc main() { fmt.Println(time.Unix(0, 0)) }\n',
         "1970-01-01 00:00:00 +0000 UTC\n"),
        ("java", "class M { public static void main(String[] a) { System.out.println(java.time.ZoneId.systemDefault()); } }\n",
         "UTC\n"),
        ("c", '#include <stdio.h>\n#include <time.h>\nint main(void) { tzset(); puts(tzname[0]); }\n', "UTC\n"),
        ("py", "from zoneinfo import ZoneInfo\nfrom datetime import datetime\n"
               "print(datetime(2024, 7, 1, tzinfo=ZoneInfo('Europe/Berlin')).utcoffset())\n", "2:00:00\n"),
    ],
)  # fmt: skip
def test_F16_the_time_zone_is_utc(service: Service, lang: str, code: str, stdout: str) -> None:
    service.run(lang, code).expect(stdout)


def test_F17_home_and_tmp_are_there_writable_and_new(service: Service) -> None:
    code = "cd ~ && touch x && echo $HOME $TMPDIR $USER && ls -A ~ && touch $TMPDIR/y && mktemp > /dev/null && ls /tmp | wc -l"
    first = service.run("bash", code).expect("/tmp/home /tmp user\nx\n3\n")
    service.run("bash", code, first.session).expect("/tmp/home /tmp user\nx\n3\n")
    service.run("py", "import tempfile, pathlib, getpass\nprint(tempfile.gettempdir(), pathlib.Path.home(), getpass.getuser())\n"
                      "print(pathlib.Path('~').expanduser().owner())\n").expect("/tmp /tmp/home user\nuser\n")  # fmt: skip
    service.run(
        "bash", "touch /x /usr/x /etc/x /program/x 2>/dev/null || echo read-only; ls /program; pwd; echo ~"
    ).expect("read-only\nmain.sh\n/mnt/data\n/tmp/home\n")


def test_F17_the_workspace_has_two_names(service: Service) -> None:
    service.run("bash", "echo x > /workspace/f; cat /mnt/data/f f; [ /workspace/f -ef f ] && echo same").expect(
        "x\nx\nsame\n", ["f"]
    )


def test_F19_health_lists_all_thirteen_with_versions(service: Service) -> None:
    health = service.ask("GET", "/v1/health").json()
    assert health["status"] == "ok"
    assert tuple(health["languages"]) == LANGS
    for name, row in health["languages"].items():
        assert row["present"] is True, name
        assert any(char.isdigit() for char in row["version"]), (name, row)
    for layer in ("clean", "reap", "filter", "namespaces", "memory", "wipe"):
        assert health["layers"][layer]["active"] is True, (layer, health["layers"][layer])
        assert health["layers"][layer]["required"] is True


def test_F19_the_versions_are_those_that_programs_meet(service: Service) -> None:
    languages = service.ask("GET", "/v1/exec/health").json()["languages"]
    for lang, code in (
        ("py", "import platform; print(platform.python_version())"),
        ("js", "console.log(process.versions.node)"),
        ("php", "<?php echo PHP_VERSION;"),
        ("r", "cat(paste(R.version$major, R.version$minor, sep = '.'))"),
        ("bash", "echo ${BASH_VERSION%%(*}"),
    ):
        assert service.run(lang, code).expect_end(0).stdout.strip() in languages[lang]["version"], lang


LIBRARIES = (
    "numpy", "pandas", "matplotlib.pyplot", "scipy.stats", "sklearn.linear_model", "PIL.Image", "openpyxl", "docx", "pptx",
    "reportlab.pdfgen.canvas", "requests", "sympy", "seaborn", "pypdf",
)  # fmt: skip


def test_the_fourteen_libraries_are_there(service: Service) -> None:
    code = "import importlib, json, sys, warnings\nwarnings.simplefilter('error')\nmissing = {}\nfor name in sys.argv[1:]:\n"
    code += "    try: importlib.import_module(name)\n    except Exception as e: missing[name] = repr(e)\nprint(json.dumps(missing))\n"
    ran = service.run("py", code, args=list(LIBRARIES)).expect_end(0)
    assert json.loads(ran.stdout) == {}
    assert (ran.stderr, ran.files) == ("", [])


def test_office_and_pdf_files_are_made_and_read(service: Service) -> None:
    code = (
        "import docx, pptx, openpyxl, pypdf, pandas as pd\nfrom reportlab.pdfgen.canvas import Canvas\n"
        "d = docx.Document(); d.add_paragraph('π'); d.save('a.docx')\np = pptx.Presentation(); p.save('a.pptx')\n"
        "pd.DataFrame({'a': [1]}).to_excel('a.xlsx')\nc = Canvas('a.pdf'); c.drawString(9, 9, 'text'); c.save()\n"
        "print(docx.Document('a.docx').paragraphs[0].text, openpyxl.load_workbook('a.xlsx').active['B1'].value,\n"
        "      pypdf.PdfReader('a.pdf').pages[0].extract_text().strip())\n"
    )
    service.run("py", code).expect("π a text\n", ["a.docx", "a.pdf", "a.pptx", "a.xlsx"])


@pytest.mark.parametrize(
    "code",
    [
        "public class Anything { public static void main(String[] a) { System.out.println(1); } }",
        "class A { }\nclass B { public static void main(String... a) { System.out.println(1); } }",
        "package x.y;\ninterface I { int n(); }\nrecord R(int n) implements I { }\n"
        "public class Z { public static void main(String[] a) { System.out.println(new R(1).n()); } }",
        "import java.util.*;\nclass Helper { static int one() { return 1; } }\n"
        "public class Solution { static class Inner { } public static void main(String[] a) { System.out.println(Helper.one()); } }",
        "enum E { X } \nfinal class Main2 { public static void main(final String[] a) throws Exception { System.out.println(1); } }",
    ],
)
def test_java_takes_any_class_name(service: Service, code: str) -> None:
    service.run("java", code).expect("1\n")
