"""Thirteen languages in the environment of the function: each prints, keeps a file, fails as it does."""

from __future__ import annotations

import pytest

from shared.executor.wire import LANGS
from tests.cases import file_programs, programs
from tests.sandbox.rooms import Room

each = pytest.mark.parametrize("lang", LANGS)
some = pytest.mark.parametrize("lang", ["py", "js", "bash", "r", "php", "c"])
"""Where one tool of each kind is enough: the local service asks all thirteen the same."""


def _filled(program: str, name: str, text: str = "") -> str:
    return program.replace("@NAME@", name).replace("@TEXT@", text)


@each
def test_a_program_prints(sole: Room, lang: str) -> None:
    answer = sole.run(lang, programs.HELLO[lang], wall_ms=30_000)
    assert (answer.stdout, answer.stderr, answer.code) == ("hello\n", "", 0), answer
    assert answer.changes == ()


@each
def test_a_program_writes_a_file_and_the_next_one_reads_it(sole: Room, lang: str) -> None:
    """The second session is restored by grants, for the workspace held meanwhile is another's."""
    session = f"files-{lang}"
    wrote = sole.run(lang, _filled(file_programs.WRITE[lang], "données 1.txt", "π x"), session, wall_ms=30_000)
    assert (wrote.stdout, wrote.stderr, wrote.code) == ("π 🤣\n", "", 0), wrote
    assert {change.path for change in wrote.changes} == {"dir", "dir/sub", "dir/sub/données 1.txt"}
    assert sole.body(wrote, "dir/sub/données 1.txt") == "π x\n".encode()
    assert sole.bash("ls -A").stdout == ""
    read = sole.run(lang, _filled(file_programs.READ[lang], "dir/sub/données 1.txt"), session, wall_ms=30_000)
    assert (read.stdout, read.code) == ("π x\n", 0), read
    assert read.changes == ()


@some
def test_a_program_that_fails_is_told_as_everywhere(sole: Room, lang: str) -> None:
    answer = sole.run(lang, programs.FAILS[lang], wall_ms=30_000)
    code, signal, said = programs.FAILED[lang]
    assert answer.code == code, answer
    assert (answer.signal is not None) == (signal is not None)
    assert answer.stdout == "before\n"
    assert said in answer.stderr


@some
def test_arguments_reach_the_program_only(sole: Room, lang: str) -> None:
    args = ("a b", "", "--version", "-e", "--", "π 🤣", "$(id)", "@x", "new\nline")
    answer = sole.run(lang, programs.ARGS[lang], args=args, wall_ms=30_000)
    assert answer.stdout == "".join(f"<{arg}>\n" for arg in args), answer
