"""One behaviour × thirteen languages, through HTTP: none is a poorer citizen than another."""

from __future__ import annotations

import pytest

from tests.cases import file_programs, programs
from tests.cases.door import LANGS, Service

each = pytest.mark.parametrize("lang", LANGS)


def _filled(program: str, name: str, text: str = "") -> str:
    return program.replace("@NAME@", name).replace("@TEXT@", text)


def test_the_tables_are_complete() -> None:
    for table in (programs.HELLO, programs.ARGS, programs.STDIN, programs.ENDS, programs.BROKEN, programs.FAILS):
        assert tuple(table) == LANGS
    assert tuple(programs.FAILED) == tuple(file_programs.READ) == tuple(file_programs.WRITE) == LANGS


@each
def test_hello_and_no_file_is_left(service: Service, lang: str) -> None:
    """A program that only prints leaves no file: nothing is compiled in the workspace (D8)."""
    ran = service.run(lang, programs.HELLO[lang]).ok("hello\n")
    assert ran.deleted == []
    assert service.rows(ran.session) == []
    service.run("bash", "ls -A", ran.session).ok("")


@each
def test_arguments_reach_the_program_as_they_are(service: Service, lang: str) -> None:
    args = ["a b", "", "--version", "-e", "-c", "--help", "--", "-", "π 🤣", "$(id)", "*", "'q\"", "@x", "new\nline"]
    service.run(lang, programs.ARGS[lang], args=args).ok("".join(f"<{arg}>\n" for arg in args))


@each
@pytest.mark.parametrize("args", [["--version"], ["-e", "1"], ["--args"], ["--", "x"], ["-g", "Tk"]])
def test_the_first_argument_is_not_an_option_of_the_tool(service: Service, lang: str, args: list[str]) -> None:
    if lang in ("go", "rs", "c", "cpp", "d", "f90") and args != ["--version"]:
        return  # a program of its own: no tool is there that could read them
    service.run(lang, programs.ARGS[lang], args=args).ok("".join(f"<{arg}>\n" for arg in args))


@each
def test_A7_standard_input_is_empty(service: Service, lang: str) -> None:
    service.run(lang, programs.STDIN[lang]).ok("0\n")


@each
def test_exit_code_and_both_streams(service: Service, lang: str) -> None:
    ran = service.run(lang, programs.ENDS[lang]).ended(3)
    assert (ran.stdout, ran.stderr, ran.files, ran.message) == ("out\n", "err\n", [], None)


@each
def test_a_program_that_is_none_is_refused_by_its_tool(service: Service, lang: str) -> None:
    """200, a code, the tool's diagnostics on stderr, and nothing left behind (G7)."""
    ran = service.run(lang, programs.BROKEN[lang])
    assert (ran.signal, ran.status, ran.message, ran.files, ran.stdout) == (None, None, None, [], ""), ran
    assert ran.code is not None
    assert ran.code != 0
    assert programs.REFUSED[lang] in ran.stderr, ran
    service.run("bash", "ls -A", ran.session).ok("")


@each
def test_G7_a_program_that_fails_keeps_what_it_printed(service: Service, lang: str) -> None:
    code, signal, text = programs.FAILED[lang]
    ran = service.run(lang, programs.FAILS[lang])
    assert (ran.code, ran.signal, ran.status) == (code, signal, None if signal is None else "SG"), ran
    assert ran.stdout == "before\n"
    assert text in ran.stderr, ran
    assert ran.files == [], ran


@each
def test_an_uploaded_file_is_read(service: Service, lang: str) -> None:
    session = service.upload("in/données 1.txt", "first\nπ 🤣\n".encode())
    service.run(lang, _filled(file_programs.READ[lang], "in/données 1.txt"), session).ok("first\nπ 🤣\n")


@each
def test_nested_output_is_there_for_the_next_run_of_any_language(service: Service, lang: str) -> None:
    next_lang = LANGS[(LANGS.index(lang) + 1) % len(LANGS)]
    name, text = "näive-π-🤣.txt", f"é of {lang}"
    made = service.run(lang, _filled(file_programs.WRITE[lang], name, text))
    made.ok("π 🤣\n", [f"dir/sub/{name}"])
    row = made.files[0]
    assert row["size"] == len(f"{text}\n".encode())
    assert row["path"] == row["name"]
    assert row["session_id"] == row["storage_session_id"] == made.session
    assert service.read(made.session, row["id"]) == f"{text}\n".encode()
    for reader in (lang, next_lang):
        service.run(reader, _filled(file_programs.READ[reader], f"dir/sub/{name}"), made.session).ok(f"{text}\n")
    again = service.run(lang, _filled(file_programs.WRITE[lang], "second", text), made.session)
    again.ok("π 🤣\n", ["dir/sub/second"])
    assert service.names(made.session) == [f"dir/sub/{name}", "dir/sub/second"]
