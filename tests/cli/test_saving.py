"""Names that a program chose: nothing is written outside the folder, whatever they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from functions.cli.saving import save
from functions.cli.show import Refused

from .answering import answering
from .conftest import Workroom

HOSTILE = ["../x", "/x", "a/../../x", "a//x", "./x", "a/.", "", ".", "..", "a/", "x\0y", "\ud800"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_not_canonical_is_refused(tmp_path: Path, name: str) -> None:
    base = tmp_path / "a" / "base"
    with pytest.raises(Refused):
        save(base, name, iter([b"bytes"]))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["a b/ü/\n\x1b[2J.txt", "-rf", "..x", "...", "a\\b", "\udcff", "x" * 255])
def test_any_other_name_is_saved_as_it_is(tmp_path: Path, name: str) -> None:
    save(tmp_path, name, iter([b"one", b"two"]))
    assert (tmp_path / name).read_bytes() == b"onetwo"


def test_a_link_in_the_folder_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    base = tmp_path / "base"
    base.mkdir()
    (base / "folder").symlink_to(outside)
    (base / "file").symlink_to(outside / "file")
    with pytest.raises(Refused):
        save(base, "folder/x", iter([b"bytes"]))
    save(base, "file", iter([b"bytes"]))
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "mine"
    assert (base / "file").read_bytes() == b"bytes"
    assert not (base / "file").is_symlink()


def test_a_transfer_that_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")

    def broken() -> Iterator[bytes]:
        yield b"new"
        raise Refused("the connection failed")

    with pytest.raises(Refused):
        save(tmp_path, "file", broken())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "old")]


def test_a_file_in_place_of_a_folder_and_the_reverse_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for name in ("file/x", "folder"):
        with pytest.raises(Refused):
            save(tmp_path, name, iter([b"bytes"]))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


@contextmanager
def hostile_service(names: list[str]) -> Iterator[str]:
    """A service that says that a run made files of these names."""
    files = [{"id": "A" * 21, "name": name, "size": 5} for name in names]
    answer: dict[str, Any] = {
        "session_id": "S" * 21, "stdout": "", "stderr": "", "files": files, "deleted_files": [],
        "code": 0, "signal": None, "status": None, "message": None, "wall_time": 1,
    }  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.answer(json.dumps(answer).encode())

        def do_GET(self) -> None:
            self.answer(b"bytes")

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with answering(Handler) as address:
        yield address


def test_a_hostile_services_names_stay_below_the_folder_and_do_not_steer_the_terminal(
    local: Workroom, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("x")
    names = ["../up", "/etc/passwd-x", "ok\x1b[31m", "in/ok", "in/../../up"]
    with hostile_service(names) as url:
        ended = local("run", "a.py", "--out", "saved", "--url", url)
    assert ended.code == 1
    assert ended.err.count("error: ") == 3
    assert "\x1b" not in ended.err
    saved = sorted(str(path.relative_to(tmp_path / "saved")) for path in (tmp_path / "saved").rglob("*"))
    assert saved == ["in", "in/ok", "ok\x1b[31m"]
    assert not (tmp_path / "up").exists()
