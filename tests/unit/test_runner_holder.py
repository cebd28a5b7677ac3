"""Which workspace folders stay, which go, and whose they are."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_image.runner.holder import Held, Holder, NoFolder
from sandbox_image.runner.snapshot import Snapshot, take
from tests.unit.runner_trees import BOUNDS

BASE = 3_000_000_000


def _holder(path: Path, **how: float) -> Holder:
    values = {"slots": 4, "held_max": 3, "bytes_max": 1 << 30} | how
    return Holder(str(path), BASE, **values)  # type: ignore[arg-type]


def _use(holder: Holder, name: str, body: bytes = b"") -> Held:
    held = holder.take(name)
    if body:
        Path(held.path, "f").write_bytes(body)
    held.present = take(held.fd, BOUNDS)
    holder.give_back(held)
    return held


def _soon(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def test_a_session_finds_its_folder_again_and_no_other_does(tmp_path: Path) -> None:
    holder = _holder(tmp_path)
    first = _use(holder, "a", b"mine")
    other = holder.take("b")
    assert os.listdir(other.fd) == []
    assert other.owner is not None
    assert first.owner is not None
    assert other.owner.uid != first.owner.uid
    again = holder.take("a")
    assert again is first
    assert os.listdir(again.fd) == ["f"]


def test_folders_are_the_users_own_behind_a_door_of_its_group(tmp_path: Path) -> None:
    held = _holder(tmp_path).take("a")
    assert held.owner is not None
    data, door = os.stat(held.path), os.stat(held.folder)
    assert (data.st_uid, data.st_gid, stat.S_IMODE(data.st_mode)) == (held.owner.uid, held.owner.gid, 0o755)
    assert (door.st_uid, door.st_gid, stat.S_IMODE(door.st_mode)) == (0, held.owner.gid, 0o710)
    assert stat.S_IMODE(os.stat(held.program).st_mode) == 0o755
    assert BASE < held.owner.uid <= BASE + 4


def test_the_folder_used_longest_ago_goes_when_there_are_too_many(tmp_path: Path) -> None:
    holder = _holder(tmp_path)
    folders = {name: _use(holder, name, b"x") for name in "abc"}
    _use(holder, "a")
    _use(holder, "d")
    assert _soon(lambda: not os.path.exists(folders["b"].folder))
    assert {name for name in "acd" if os.listdir(holder.take(name).fd) == ["f"]} == {"a", "c"}


def test_bytes_are_bounded_too(tmp_path: Path) -> None:
    holder = _holder(tmp_path, bytes_max=100_000)
    first = _use(holder, "a", b"x" * 60_000)
    _use(holder, "b", b"x" * 60_000)
    assert _soon(lambda: not os.path.exists(first.folder))
    assert os.listdir(holder.take("b").fd) == ["f"]


@pytest.mark.parametrize("how", ["unknown", "dirty"])
def test_a_folder_that_broke_is_never_used_again(tmp_path: Path, how: str) -> None:
    holder = _holder(tmp_path)
    held = holder.take("a")
    Path(held.path, "f").touch()
    held.present = None if how == "unknown" else Snapshot()
    held.dirty_user = how == "dirty"
    holder.give_back(held)
    users = set()
    for name in ("a", "b", "c"):
        new = holder.take(name)
        assert os.listdir(new.fd) == []
        users.add(new.owner.uid if new.owner else None)
    assert held.owner is not None
    if how == "dirty":
        assert held.owner.uid not in users
        with pytest.raises(NoFolder):
            holder.take("d")
    else:
        assert held.owner.uid in users | {holder.take("d").owner.uid}  # type: ignore[union-attr]


def test_two_runs_of_one_session_have_two_folders(tmp_path: Path) -> None:
    holder = _holder(tmp_path)
    one, two = holder.take("a"), holder.take("a")
    assert one.path != two.path
    for held in (one, two):
        held.present = Snapshot()
        holder.give_back(held)
    assert _soon(lambda: os.path.exists(one.folder) != os.path.exists(two.folder))


def test_what_nobody_uses_and_what_a_dead_runner_left_goes(tmp_path: Path) -> None:
    left = tmp_path / "held" / "7-left"
    (left / "data").mkdir(parents=True)
    (left / "data" / "secret").touch()
    holder = _holder(tmp_path, idle_s=0.2)
    assert _soon(lambda: not left.exists() and os.listdir(tmp_path / "trash") == [])
    held = _use(holder, "a", b"x")
    assert _soon(lambda: not os.path.exists(held.folder))
    assert os.listdir(tmp_path / "held") == []
