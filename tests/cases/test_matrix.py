"""One behaviour × thirteen languages, through HTTP: none is a poorer citizen than another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.cases import file_programs, programs
from tests.cases.door import LANGS, Ran, Service

each = pytest.mark.parametrize("lang", LANGS)
ODD_ARGS = ("a b", "", "--version", "-e", "-c", "--help", "--", "-", "π 🤣", "$(id)", "*", "'q\"", "@x", "new\nline")
FIRST_ARGS = (("--version",), ("-e", "1"), ("--args",), ("--", "x"), ("-g", "Tk"))
"""What a tool could take for its own options, if they came first."""
COMPILED = ("go", "rs", "c", "cpp", "d", "f90")


def _has_a_tool(lang: str, args: tuple[str, ...]) -> bool:
    """A compiled program has no tool beside it that could read its arguments: one try is enough."""
    return lang not in COMPILED or args == FIRST_ARGS[0]


def _filled(program: str, name: str, text: str = "") -> str:
    return program.replace("@NAME@", name).replace("@TEXT@", text)


def _reading(service: Service, lang: str) -> Ran:
    session = service.upload("in/données 1.txt", "first\nπ 🤣\n".encode())
    return service.run(lang, _filled(file_programs.READ[lang], "in/données 1.txt"), session)


def _runs() -> dict[str, Callable[[Service, str], Ran]]:
    runs: dict[str, Callable[[Service, str], Ran]] = {
        "hello": lambda service, lang: service.run(lang, programs.HELLO[lang]),
        "args": lambda service, lang: service.run(lang, programs.ARGS[lang], args=list(ODD_ARGS)),
        "stdin": lambda service, lang: service.run(lang, programs.STDIN[lang]),
        "ends": lambda service, lang: service.run(lang, programs.ENDS[lang]),
        "broken": lambda service, lang: service.run(lang, programs.BROKEN[lang]),
        "fails": lambda service, lang: service.run(lang, programs.FAILS[lang]),
        "read": _reading,
    }
    for args in FIRST_ARGS:
        runs[" ".join(args)] = lambda service, lang, args=args: service.run(  # type: ignore[misc]
            lang, programs.ARGS[lang], args=list(args)
        )
    return runs


MAIN = ("hello", "args", "stdin", "ends", "broken", "fails", "read")
Answers = Callable[[str, str], Ran]


@pytest.fixture(scope="module", name="answer")
def _answer(service: Service) -> Iterator[Answers]:
    """All runs of this module, three at a time, in the order in which the tests ask for them."""
    pool = ThreadPoolExecutor(3)
    futures: dict[tuple[str, str], Future[Ran]] = {
        (name, lang): pool.submit(run, service, lang)
        for name, run in _runs().items()
        for lang in LANGS
        if name in MAIN or _has_a_tool(lang, tuple(name.split(" ")))
    }
    yield lambda name, lang: futures[name, lang].result(110)
    pool.shutdown(cancel_futures=True)


def test_the_tables_are_complete() -> None:
    for table in (programs.HELLO, programs.ARGS, programs.STDIN, programs.ENDS, programs.BROKEN, programs.FAILS):
        assert tuple(table) == LANGS
    assert tuple(programs.FAILED) == tuple(programs.REFUSED) == LANGS
    assert tuple(file_programs.READ) == tuple(file_programs.WRITE) == LANGS


@each
def test_D8_hello_leaves_no_file(service: Service, answer: Answers, lang: str) -> None:
    """A program that only prints leaves no file: nothing is compiled in the workspace (D8)."""
    ran = answer("hello", lang).expect("hello\n")
    assert ran.deleted == []
    assert service.rows(ran.session) == []
    service.run("bash", "ls -A", ran.session).expect("")


@each
def test_arguments_reach_the_program_as_they_are(answer: Answers, lang: str) -> None:
    answer("args", lang).expect("".join(f"<{arg}>\n" for arg in ODD_ARGS))


@each
def test_A7_standard_input_is_empty(answer: Answers, lang: str) -> None:
    answer("stdin", lang).expect("0\n")


@each
def test_exit_code_and_both_streams(answer: Answers, lang: str) -> None:
    ran = answer("ends", lang).expect_end(3)
    assert (ran.stdout, ran.stderr, ran.files, ran.message) == ("out\n", "err\n", [], None)


@each
def test_a_program_that_is_none_is_refused_by_its_tool(service: Service, answer: Answers, lang: str) -> None:
    """200, a code, the tool's diagnostics on stderr, and nothing left behind (G7)."""
    ran = answer("broken", lang)
    assert (ran.signal, ran.status, ran.message, ran.files, ran.stdout) == (None, None, None, [], ""), ran
    assert ran.code is not None
    assert ran.code != 0
    assert programs.REFUSED[lang] in ran.stderr, ran
    service.run("bash", "ls -A", ran.session).expect("")


@each
def test_G7_a_program_that_fails_keeps_what_it_printed(answer: Answers, lang: str) -> None:
    code, signal, text = programs.FAILED[lang]
    ran = answer("fails", lang)
    assert (ran.code, ran.signal, ran.status) == (code, signal, None if signal is None else "SG"), ran
    assert ran.stdout == "before\n"
    assert text in ran.stderr, ran
    assert ran.files == [], ran


@each
def test_an_uploaded_file_is_read(answer: Answers, lang: str) -> None:
    answer("read", lang).expect("first\nπ 🤣\n")


@pytest.mark.parametrize(
    ("lang", "args"), [(lang, args) for args in FIRST_ARGS for lang in LANGS if _has_a_tool(lang, args)]
)
def test_the_first_argument_is_not_an_option_of_the_tool(answer: Answers, lang: str, args: tuple[str, ...]) -> None:
    answer(" ".join(args), lang).expect("".join(f"<{arg}>\n" for arg in args))


@each
def test_nested_output_is_there_for_the_next_run_of_any_language(service: Service, lang: str) -> None:
    next_lang = LANGS[(LANGS.index(lang) + 1) % len(LANGS)]
    name, text = "näive-π-🤣.txt", f"é of {lang}"
    made = service.run(lang, _filled(file_programs.WRITE[lang], name, text))
    made.expect("π 🤣\n", [f"dir/sub/{name}"])
    row = made.files[0]
    assert row["size"] == len(f"{text}\n".encode())
    assert row["path"] == row["name"]
    assert row["session_id"] == row["storage_session_id"] == made.session
    assert service.read(made.session, row["id"]) == f"{text}\n".encode()
    for reader in (lang, next_lang):
        service.run(reader, _filled(file_programs.READ[reader], f"dir/sub/{name}"), made.session).expect(f"{text}\n")
    again = service.run("bash", _filled(file_programs.WRITE["bash"], "second", text), made.session)
    again.expect("π 🤣\n", ["dir/sub/second"])
    assert service.names(made.session) == [f"dir/sub/{name}", "dir/sub/second"]
