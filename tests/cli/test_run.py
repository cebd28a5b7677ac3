"""`workroom run`: the program's output, its exit code, its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from functions.cli.run import LANGS
from shared.executor.wire import LANGS as ALL
from tests.wire.scripted import program
from tests.wire.service import Service

from .conftest import Workroom


def source(path: Path, **script: object) -> str:
    """A scripted program in a file."""
    path.write_text(program(**script))
    return str(path)


def test_output_goes_to_its_own_descriptor_exactly(remote: Workroom, tmp_path: Path) -> None:
    ended = remote("run", source(tmp_path / "a.py", stdout="α\r\n\0no end", stderr="\x1b[1mtrouble\n\n"))
    assert (ended.code, ended.out, ended.err) == (0, "α\r\n\0no end".encode(), "\x1b[1mtrouble\n\n")


@pytest.mark.parametrize("code", [0, 1, 2, 77, 255])
def test_the_exit_code_is_the_programs(remote: Workroom, tmp_path: Path, code: int) -> None:
    assert remote("run", source(tmp_path / "a.py", code=code)).code == code


@pytest.mark.parametrize(("signal", "code"), [(9, 137), (11, 139), (15, 143)])
def test_a_signal_is_128_and_its_number(remote: Workroom, tmp_path: Path, signal: int, code: int) -> None:
    assert remote("run", source(tmp_path / "a.py", signal=signal)).code == code


def test_every_language_has_an_extension() -> None:
    assert set(LANGS.values()) == set(ALL)


def test_the_language_comes_from_the_extension_or_the_option(remote: Workroom, tmp_path: Path) -> None:
    assert remote("run", source(tmp_path / "a.PY", stdout="x")).out == b"x"
    unknown = remote("run", source(tmp_path / "program", stdout="x"))
    assert unknown.code == 1
    assert unknown.err == "error: the language is not clear from the file's name: give --lang\n"
    assert remote("run", source(tmp_path / "program", stdout="x"), "--lang", "rs").out == b"x"
    assert remote("run", source(tmp_path / "a.py"), "--lang", "cobol").code == 2


def test_arguments_reach_the_program_untouched(remote: Workroom, tmp_path: Path) -> None:
    words = ["a b", "--help", "-x", "--", "ü", ""]
    ended = remote("run", source(tmp_path / "a.py", show="args"), "--args", *words)
    assert json.loads(ended.out) == words


def test_a_session_goes_on_and_verbose_names_it(remote: Workroom, tmp_path: Path) -> None:
    first = remote("run", source(tmp_path / "a.py", write={"kept.txt": "x"}), "--verbose")
    assert first.err.startswith("session ")
    assert "files kept.txt" in first.err
    session = first.err.split()[1].rstrip(";")
    then = remote("run", source(tmp_path / "b.py", show="files"), "--session", session)
    assert json.loads(then.out) == ["kept.txt"]
    assert then.err == ""


def test_an_unknown_session_is_refused(remote: Workroom, tmp_path: Path) -> None:
    ended = remote("run", source(tmp_path / "a.py", stdout="x"), "--session", "A" * 21)
    assert (ended.code, ended.out) == (1, b"")
    assert ended.err.startswith("error: ")


def test_produced_files_are_saved_below_the_folder(remote: Workroom, tmp_path: Path) -> None:
    made = {"out/deep/a.txt": "one\n", "b.bin": "two", "-rf": "three"}
    ended = remote("run", source(tmp_path / "a.py", write=made), "--out", str(tmp_path / "saved"))
    assert ended.code == 0
    folder = tmp_path / "saved"
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert found == made


def test_a_failing_program_keeps_its_code_and_its_files(remote: Workroom, tmp_path: Path) -> None:
    ended = remote("run", source(tmp_path / "a.py", write={"log": "x"}, code=3), "--out", str(tmp_path / "saved"))
    assert ended.code == 3
    assert (tmp_path / "saved" / "log").read_text() == "x"


def test_a_refused_limit_names_the_field(remote: Workroom, tmp_path: Path) -> None:
    ended = remote("run", source(tmp_path / "a.py"), "--timeout", "999999999")
    assert ended.code == 1
    assert "`timeout`" in ended.err


def test_an_executor_that_fails_is_an_error_not_an_exit_code_of_a_program(remote: Workroom, tmp_path: Path) -> None:
    ended = remote("run", source(tmp_path / "a.py", fail="unavailable"))
    assert (ended.code, ended.err) == (1, "error: No program can be run at the moment.\n")


def test_a_program_that_is_no_utf8_or_not_there_is_refused(remote: Workroom, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xff")
    assert remote("run", str(tmp_path / "a.py")).err == f"error: {tmp_path}/a.py is not UTF-8 text\n"
    assert "cannot be read" in remote("run", str(tmp_path / "none.py")).err


@pytest.mark.parametrize("words", [["run"], ["run", "a.py", "--timeout", "soon"], ["nonsense"], ["run", "a.py", "-z"]])
def test_a_wrong_command_line_is_exit_code_2(remote: Workroom, words: list[str]) -> None:
    assert remote(*words).code == 2


def test_a_service_that_is_not_there_is_one_line(
    remote: Workroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKROOM_URL", "http://127.0.0.1:9")
    ended = remote("run", source(tmp_path / "a.py"))
    assert (ended.code, ended.err) == (1, "error: the service cannot be reached\n")


def test_a_wrong_key_is_one_line(remote: Workroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKROOM_KEY", "wr_wrong")
    ended = remote("run", source(tmp_path / "a.py"))
    assert (ended.code, ended.err) == (1, "error: A valid credential is required.\n")


def test_a_misspelt_setting_is_exit_code_2(remote: Workroom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORKROOM_DATE", "x")
    ended = remote("run", source(tmp_path / "a.py"))
    assert ended.code == 2
    assert ended.err.startswith("error: WORKROOM_DATE is not a setting")


def test_the_installed_command_reads_standard_input_and_writes_to_pipes(service: Service) -> None:
    environ = {"PATH": os.environ["PATH"], "WORKROOM_URL": service.url, "WORKROOM_KEY": service.key}
    done = subprocess.run(
        [sys.executable, "-m", "functions.cli.main", "run", "-", "--lang", "py"],
        input=program(stdout="out", stderr="err", code=5).encode(),
        capture_output=True,
        env=environ,
        cwd=Path(__file__).parents[2],
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (5, b"out", b"err")
