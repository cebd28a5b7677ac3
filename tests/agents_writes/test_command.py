"""`workroom writes`: an operator on the store, shown the record before anything is said (agents.md 11.23)."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from functions.cli.main import main
from tests.agents_writes.desk import Desk
from tests.fakes import make_room, shut

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ident(desk: Desk) -> str:
    """A write that was published and is not settled; its store is closed."""
    desk.state.plan["publish"] = "after away"
    assert desk.create("/workspace/a\x1b[31m.txt").status == 503
    (record,) = desk.records()
    shut(desk.house)
    return record.id


@pytest.fixture
def workroom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command on the data folder of the desk."""
    for name in [name for name in os.environ if name.startswith("WORKROOM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WORKROOM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("WORKROOM_CACHE", str(tmp_path / "cache"))

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        caught = capsys.readouterr()
        return code, caught.out, caught.err

    return run


class Terminal(io.StringIO):
    """Somebody who can be asked."""

    def isatty(self) -> bool:
        return True


def unsettled(tmp_path: Path) -> int:
    """How many writes are unsettled on the folder."""
    house = make_room(tmp_path)
    try:
        return len(house.state.query("p/one", "unsettled/"))
    finally:
        shut(house)


def test_writes_are_listed(workroom: Command, ident: str) -> None:
    code, out, err = workroom("writes", "list")
    head, row = out.splitlines()
    assert (code, err, head.split()) == (0, "", ["ID", "PROJECT", "SINCE", "RECEIPT", "BYTES", "PATH"])
    assert row.split() == [ident, "one", "2027-01-15T08:00:00.000Z", "committed", "5", "a\\u001b[31m.txt"]


def test_the_record_is_shown_before_it_is_settled(workroom: Command, ident: str, tmp_path: Path) -> None:
    code, out, err = workroom("writes", "settle", ident, "committed", "--yes")
    assert (code, err) == (0, "")
    rows = {line[:12].strip(): line[12:] for line in out.splitlines()}
    sha256 = hashlib.sha256(b"bytes").hexdigest()
    assert rows["write"] == ident
    assert (rows["project"], rows["path"], rows["size"], rows["sha256"]) == (
        "one",
        "a\\u001b[31m.txt",
        "5 bytes",
        sha256,
    )
    assert rows["session"].startswith("sess_")
    assert rows["since"] == "2027-01-15T08:00:00.000Z"
    assert (rows["fence"], rows["receipt"]) == ("1, the workspace is at 1", "committed")
    assert rows["at the path"] == f"a file of 5 bytes, sha256 {sha256}"
    assert out.splitlines()[-1].startswith("settled as committed at ")
    assert unsettled(tmp_path) == 0


@pytest.mark.parametrize(
    ("said", "settled"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_it_asks(
    workroom: Command, ident: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, settled: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(said))
    code, out, err = workroom("writes", "settle", ident, "committed")
    assert "Settle it as committed? [y/N] " in err
    assert (code, "settled as" in out, unsettled(tmp_path)) == ((0, True, 0) if settled else (1, False, 1))


def test_nobody_to_ask_settles_nothing(
    workroom: Command, ident: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, out, err = workroom("writes", "settle", ident, "committed")
    assert (code, err) == (1, "error: nobody can be asked here: give --yes\n")
    assert ident in out
    assert unsettled(tmp_path) == 1


def test_a_contradiction_is_refused_in_one_line(workroom: Command, ident: str, tmp_path: Path) -> None:
    code, _, err = workroom("writes", "settle", ident, "rejected", "--yes")
    assert (code, err) == (1, "error: The record contradicts that outcome: the file was published.\n")
    assert unsettled(tmp_path) == 1
    assert workroom("writes", "settle", ident, "committed", "--yes")[0] == 0
    code, _, err = workroom("writes", "settle", ident, "committed", "--yes")
    assert (code, err) == (1, "error: No such unsettled write.\n")


@pytest.mark.parametrize("words", [[], ["settle"], ["settle", "x"], ["settle", "x", "done"], ["remove"]])
def test_a_wrong_command_line_is_2(workroom: Command, words: list[str]) -> None:
    assert workroom("writes", *words)[0] == 2


def test_the_service_at_an_address_is_not_meant(workroom: Command, ident: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKROOM_URL", "http://127.0.0.1:1")
    code, out, err = workroom("writes", "list")
    assert (code, ident in out) == (0, True)
    assert "not of the service at WORKROOM_URL" in err
