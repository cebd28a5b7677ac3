"""`workroom upload`, `files`, `download` and `delete`, over HTTP and on a data folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.wire.service import Service

from .conftest import Workroom

ODD = ["a b.txt", "ü/深い.txt", 'q"u%22ote.txt', "line\nbreak", "-rf", "a;b=c.txt", "100%.txt", "'*''.txt"]


@pytest.fixture(params=["local", "remote"])
def workroom(request: pytest.FixtureRequest) -> Workroom:
    """The command, both ways."""
    found: Workroom = request.getfixturevalue(request.param)
    return found


def upload(workroom: Workroom, *words: str) -> str:
    ended = workroom("upload", *words)
    assert (ended.code, ended.err) == (0, "")
    return ended.out.decode().strip()


def names(workroom: Workroom, session: str) -> list[str]:
    rows = json.loads(workroom("files", session, "--json").out)
    return sorted(row["metadata"]["original-filename"] for row in rows)


def test_a_file_goes_there_and_back(workroom: Workroom, tmp_path: Path) -> None:
    body = bytes(range(256)) * 1000
    (tmp_path / "data.bin").write_bytes(body)
    session = upload(workroom, "new", "data.bin")
    listed = workroom("files", session)
    assert listed.out.decode().split()[:4] == ["ID", "SIZE", "MODIFIED", "NAME"]
    assert listed.out.decode().split()[5] == "256000"
    assert workroom("download", session, "data.bin", "-o", "back.bin").code == 0
    assert (tmp_path / "back.bin").read_bytes() == body
    assert workroom("download", session, "data.bin", "-o", "-").out == body
    assert workroom("delete", session, "data.bin").code == 0
    assert names(workroom, session) == []


def test_odd_names_survive(remote: Workroom, tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in ODD:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    session = upload(remote, "new", "top")
    assert names(remote, session) == sorted(f"top/{name}" for name in ODD)
    for name in ODD:
        assert remote("download", session, f"top/{name}", "-o", "-").out.decode() == name
    shown = remote("files", session)
    assert shown.out.count(b"\n") == len(ODD) + 1


def test_a_folder_goes_with_all_its_regular_files_and_no_link_is_followed(remote: Workroom, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("mine")
    (tmp_path / "top" / "in").mkdir(parents=True)
    (tmp_path / "top" / "in" / "a").write_text("a")
    (tmp_path / "top" / ".hidden").write_text("h")
    (tmp_path / "top" / "link").symlink_to(secret / "key")
    (tmp_path / "top" / "linked").symlink_to(secret)
    os.mkfifo(tmp_path / "top" / "fifo")
    assert names(remote, upload(remote, "new", "top")) == ["top/.hidden", "top/in/a"]


def test_more_files_than_one_batch_takes_all_join_one_session(remote: Workroom, tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for index in range(450):
        (many / f"{index:03}").write_text(str(index))
    session = upload(remote, "new", "many")
    assert names(remote, session) == [f"many/{index:03}" for index in range(450)]


def test_a_folder_without_files_is_refused(remote: Workroom, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ended = remote("upload", "new", "empty")
    assert (ended.code, ended.out, ended.err) == (1, b"", "error: there is no file to upload\n")


def test_into_a_folder_of_a_session_and_read_only(remote: Workroom, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    session = upload(remote, "new", "a")
    assert upload(remote, session, "a", "--into", "in/side", "--read-only") == session
    assert names(remote, session) == ["a", "in/side/a"]


def test_a_refused_name_is_told_of_and_the_others_are_stored(remote: Workroom, tmp_path: Path) -> None:
    (tmp_path / "good").write_text("g")
    ended = remote("upload", "new", "good", "good", "--into", "x/../y")
    assert ended.code == 1
    assert ended.err.startswith("error: ")


def test_an_unknown_session_and_name_are_refused_alike(remote: Workroom, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    unknown = "A" * 21
    session = upload(remote, "new", "a")
    for words in (
        ["files", unknown], ["delete", unknown, "a"], ["download", unknown, "a", "-o", "b"],
        ["upload", unknown, "a"], ["delete", session, "none"], ["download", session, "none", "-o", "b"],
    ):  # fmt: skip
        ended = remote(*words)
        assert (ended.code, ended.out) == (1, b"")
        assert ended.err.startswith("error: ")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("name", ["../files", "a/../b", "/a", "a//b", ".", ""])
def test_a_name_never_becomes_another_address(remote: Workroom, name: str) -> None:
    for words in (["download", "A" * 21, name, "-o", "b"], ["delete", "A" * 21, name]):
        ended = remote(*words)
        assert ended.code == 1
        assert "canonical form" in ended.err
    assert remote("files", f"../{'A' * 21}").code == 1


def test_a_download_replaces_only_what_o_names(remote: Workroom, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    session = upload(remote, "new", "a")
    (tmp_path / "a").write_text("mine")
    refused = remote("download", session, "a")
    assert (refused.code, (tmp_path / "a").read_text()) == (1, "mine")
    assert "-o" in refused.err
    assert remote("download", session, "a", "-o", "a").code == 0
    assert (tmp_path / "a").read_text() == "new"
    os.mkfifo(tmp_path / "fifo")
    assert remote("download", session, "a", "-o", "fifo").code == 1
    assert remote("download", session, "a", "-o", ".").code == 1


def test_another_project_sees_nothing(
    remote: Workroom, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a")
    session = upload(remote, "new", "a")
    monkeypatch.setenv("WORKROOM_KEY", service.other_key)
    foreign, unknown = remote("files", session), remote("files", "A" * 21)
    assert (foreign.code, foreign.err) == (unknown.code, unknown.err)
    assert foreign.code == 1


def peak(service: Service, folder: Path, size: int) -> int:
    """Peak memory in KiB of a command that sends and fetches a file of `size` bytes."""
    with (folder / "big").open("wb") as file:
        file.truncate(size)
    code = (
        "import resource, sys\n"
        "from functions.cli.main import main\n"
        "import functions.cli.show as show\n"
        "got = []\n"
        "show.line = got.append\n"
        "import functions.cli.transfer as transfer\n"
        "transfer.line = got.append\n"
        "assert main(['upload', 'new', 'big']) == 0\n"
        "assert main(['download', got[0], 'big', '-o', 'back']) == 0\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    environ = {
        "PATH": os.environ["PATH"], "WORKROOM_URL": service.url, "WORKROOM_KEY": service.key,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environ, cwd=folder, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "back").stat().st_size == size
    return int(done.stdout)


def test_memory_does_not_grow_with_the_file(service: Service, tmp_path: Path) -> None:
    small, large = (peak(service, tmp_path, size) for size in (1024, 64 * 1024 * 1024))
    assert large - small < 8 * 1024


def test_the_service_inside_the_command_ends_with_it(local: Workroom, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    session = upload(local, "new", "a")
    assert names(local, session) == ["a"]
    assert [thread.name for thread in threading.enumerate() if thread.name == "service-inside"] == []
    assert list((tmp_path / "cache").glob("work/*")) == []
