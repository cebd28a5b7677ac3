"""cases.md C: file names, paths and addresses, through HTTP."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.cases.door import Service

ODD = (
    "a b.txt", "a+b.txt", "100%.txt", "%2e%2e", "%2F", "a#b?.txt", "a&b=c.txt", "-rf", "--help", "$(id)", "`id`",
    "'q'.txt", '"d".txt', "a;b|c", "{x}", "*", "~", ".env", "...", "..a", " ", " lead", "tail ", "é", "e\u0301",
    "报告.csv", "🤣.txt", "\u202egpj.exe", "dir/%2e%2e/x", "a:b", "CON", "x" * 255, "a=b", "@x", "!x", "^", "[a]",
)  # fmt: skip


def test_C1_a_name_of_another_script_is_exact_everywhere(service: Service) -> None:
    """In the upload's answer, the list, a run and the download."""
    session = service.upload("报告.csv", b"x,y\n")
    (row,) = service.rows(session)
    assert row["metadata"]["original-filename"] == "报告.csv"
    service.run("py", "import os\nprint(os.listdir())\nprint(open('报告.csv').read())\n", session).expect(
        "['报告.csv']\nx,y\n\n"
    )
    answer = service.download(session, row["id"])
    assert answer.content == b"x,y\n"
    assert answer.headers["Content-Disposition"].endswith("filename*=UTF-8''" + quote("报告.csv"))


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("form-data; name=\"file\"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.csv", "报告.csv"),
        ("form-data; name=\"file\"; filename=\"fallback.csv\"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.csv", "报告.csv"),
        ('form-data; name="file"; filename="deep/er/报告.csv"', "deep/er/报告.csv"),
        ('form-data; name="file"; filename="a\\"b.csv"', 'a"b.csv'),
        ('form-data; name="file"; filename="a%22b.csv"', 'a"b.csv'),
        ("form-data; name=file; filename=plain.csv", "plain.csv"),
    ],
)  # fmt: skip
def test_C1_each_spelling_of_a_name_in_a_form(service: Service, disposition: str, name: str) -> None:
    body = f"--B\r\nContent-Disposition: {disposition}\r\n\r\nx\r\n--B--\r\n".encode()
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    answer = service.ask("POST", "/v1/upload", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["files"][0]["filename"] == name
    session = answer.json()["session_id"]
    assert service.names(session) == [name]
    service.run("py", f"print(open({name!r}).read())", session).expect("x\n")


def test_C2_the_disposition_of_a_program_s_file(service: Service) -> None:
    ran = service.run("py", "open('🤣.txt', 'w').write('x')").expect("", ["🤣.txt"])
    answer = service.download(ran.session, ran.files[0]["id"])
    assert answer.headers["Content-Disposition"] == "attachment; filename=\"_.txt\"; filename*=UTF-8''%F0%9F%A4%A3.txt"
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "name", ['a"b.txt', "a\\b.txt", "a\nb.txt", "a\r\nX: 1.txt", "a;b.txt", "\x7f.txt", "<b>.html"]
)
def test_C2_no_name_can_forge_a_header(service: Service, name: str) -> None:
    ran = service.run("py", f"open({name!r}, 'w').write('x')").expect("", [name])
    answer = service.download(ran.session, ran.files[0]["id"])
    assert answer.status_code == 200
    disposition = answer.headers["Content-Disposition"]
    assert disposition.startswith("attachment; filename=")
    assert disposition.endswith("filename*=UTF-8''" + quote(name, safe=""))
    assert "X" not in answer.headers


def test_C4_every_listed_name_round_trips(service: Service) -> None:
    """Made by a program, listed, taken by its name percent-encoded once, by its id, and read by the next run."""
    code = "import os, sys\nfor n in sys.argv[1:]:\n    os.makedirs(os.path.dirname(n) or '.', exist_ok=True)\n"
    code += "    open(n, 'w').write('of ' + n)\n"
    ran = service.run("py", code, args=list(ODD)).expect("", ODD)
    assert service.names(ran.session) == sorted(ODD, key=str.encode)
    for row in ran.files:
        name = row["name"]
        assert service.read(ran.session, name) == f"of {name}".encode()
        assert service.read(ran.session, row["id"]) == f"of {name}".encode()
        raw = "/".join(quote(part, safe="") for part in name.split("/"))
        answer = service.ask("GET", f"/v1/download/{ran.session}/{raw}")
        # A path that a client itself would normalise away is reached by its id or wholly encoded.
        assert answer.status_code == 200 or name in ("...",), name
    shown = service.run("py", "import sys\nfor n in sys.argv[1:]: print(open(n).read())\n", ran.session, args=list(ODD))
    shown.expect("".join(f"of {name}\n" for name in ODD))


def test_C4_a_name_is_decoded_once(service: Service) -> None:
    ran = service.run("bash", "echo percent > %2e%2e; echo plain > ..x; mkdir a; echo slash > a/b; echo enc > 'a%2Fb'")
    for path, content in (
        ("%252e%252e", b"percent\n"),
        ("a%252Fb", b"enc\n"),
        ("a%2Fb", b"slash\n"),
        ("a/b", b"slash\n"),
    ):
        answer = service.ask("GET", f"/v1/exec/download/{ran.session}/{path}")
        assert (answer.status_code, answer.content) == (200, content), path
    for path in ("%2e%2e", "%2e%2e/%2e%2e", "a%2F..%2F..x", "%ff", "a%00b", "%", "%2"):
        answer = service.ask("GET", f"/v1/exec/download/{ran.session}/{path}")
        assert answer.status_code in (400, 404), path


@pytest.mark.parametrize("lang", ["bash", "py", "js", "go"])
def test_C6_odd_names_in_a_workspace_do_no_harm(service: Service, lang: str) -> None:
    """No shell and no option parser of ours meets a file name."""
    made = service.run("py", "for n in ['-rf', '--help', 'a b', '$(id)', '`id`', \"'q'.txt\", '-o', ';true', '|']:\n"
                             "    open(n, 'w').write(n)\n")  # fmt: skip
    assert (made.code, made.stderr) == (0, "")
    programs = {
        "bash": 'cat -- *; rm -- -rf',
        "py": "import os\nprint(''.join(open(n).read() for n in sorted(os.listdir())), end='')\nos.unlink('-rf')\n",
        "js": "const fs = require('fs');\n"
              "process.stdout.write(fs.readdirSync('.').map(n => fs.readFileSync(n)).join(''));\n"
              "fs.unlinkSync('-rf');\n",
        "go": 'package main\nimport ("fmt"; "os")\nfunc main() { l, _ := os.ReadDir("."); for _, e := range l {\n'
              '  b, _ := os.ReadFile(e.Name()); fmt.Print(string(b)) }; os.Remove("-rf") }\n',
    }  # fmt: skip
    ran = service.run(lang, programs[lang], made.session).expect_end(0)
    names = ["-rf", "--help", "a b", "$(id)", "`id`", "'q'.txt", "-o", ";true", "|"]
    assert sorted(ran.stdout) == sorted("".join(names)), ran
    assert ran.stderr == ""
    assert ran.deleted == ["-rf"]
    assert "-rf" not in service.names(made.session)


REFUSED = (
    "../../x", "/etc/passwd", "a/../b", "./a", "a//b", "a/", "C:\\x", "..\\x", "a\0b", "..", ".", "", "/", "a/.",
    "a/..", "x" * 256, "a/" * 80 + "b", "/".join(["x" * 200] * 30), "\\", "a\\..\\b", "\ud800",
)  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_C7_a_mount_name_that_is_not_canonical_is_400(service: Service, name: str) -> None:
    session = service.upload("in", b"x")
    body = {"lang": "bash", "code": "find", "files": [{"id": "in", "name": name, "session_id": session}]}
    raw = json.dumps(body).encode("ascii")
    answer = service.ask("POST", "/v1/exec", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] == "invalid_request"
    assert "files[0].name" in answer.json()["message"] or name == "\ud800"
    assert service.names(session) == ["in"]


@pytest.mark.parametrize("name", ["a/%2e%2e/b", "%2e%2e/x", "x" * 255, "a/" * 79 + "b", "...", ".x", "a..b", "C:x"])
def test_C7_what_only_looks_odd_is_a_name(service: Service, name: str) -> None:
    session = service.upload("in", b"x")
    ran = service.run("py", f"print(open({name!r}).read())", files=[{"id": "in", "name": name, "session_id": session}])
    assert ran.session == session
    ran.expect("x\n")


def test_C7_a_path_may_be_longer_than_the_system_takes_at_once(service: Service) -> None:
    """Up to 5,000 bytes: made by descriptors, listed, restored and downloaded; one byte more is refused."""
    deepest = "/".join(["d" * 61] * 79 + ["n" * 102])
    assert len(deepest) == 5_000
    session = service.upload("in", b"deep")
    service.run("bash", "true", files=[{"id": "in", "name": deepest, "session_id": session}]).expect("")
    assert service.names(session) == [deepest, "in"]
    assert service.read(session, deepest) == b"deep"
    walk = "import os\nfor _ in range(79): os.chdir('d' * 61)\nn = 'n' * 102\nprint(open(n).read())\n"
    walk += "open(n, 'a').write('er')\n"
    service.run("py", walk, session).expect("deep\n", [deepest])
    assert service.read(session, deepest) == b"deeper"
    refused = {"lang": "bash", "code": "true", "files": [{"id": "in", "name": deepest + "n", "session_id": session}]}
    answer = service.post(refused)
    assert (answer.status_code, "5000" in answer.text) == (400, True)


@pytest.mark.parametrize(
    "file", ["../../../../etc/passwd", "/etc/passwd", "..", "in/../in", "in/", "./in", "in\0", "IN"]
)
def test_C7_a_reference_finds_only_what_is_listed(service: Service, file: str) -> None:
    session = service.upload("in", b"x")
    answer = service.ask("GET", f"/v1/exec/download/{session}/{quote(file, safe='')}")
    assert answer.status_code == 404, answer.text
    body = {"lang": "bash", "code": "ls", "session_id": session, "files": [{"id": file, "session_id": session}]}
    if "\0" in file:
        assert service.post(body).status_code == 400
        return
    ran = service.run("bash", "ls", session, files=body["files"])
    assert (ran.stdout, ran.code) == ("in\n", 0)
    assert ran.stderr == f'workroom: input file "{file}" is not available\n'


def test_C11_two_normal_forms_of_one_name_are_two_files(service: Service) -> None:
    session = service.upload("\u00e9", b"one")
    service.upload("e\u0301", b"two", session)
    assert service.names(session) == ["e\u0301", "\u00e9"]
    assert (service.read(session, "\u00e9"), service.read(session, "e\u0301")) == (b"one", b"two")
    service.run("bash", "ls | wc -l", session).expect("2\n")
    service.upload("\u00c9", b"case", session)
    assert len(service.rows(session)) == 3
