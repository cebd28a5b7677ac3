"""Files that change while they are collected: they are lost by name, and marked (agents.md 11.29)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_image.runner.snapshot import Snapshot
from tests.unit.runner_trees import Place, gather, limits


def _rewritten(path: Path) -> None:
    path.write_bytes(b"TWO")


def _restored_time(path: Path) -> None:
    status = path.stat()
    path.write_bytes(b"TWO")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"one")
    other.replace(path)


def _led_elsewhere(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


@pytest.mark.parametrize("change", [_rewritten, _restored_time, _replaced, _led_elsewhere, Path.unlink])
@pytest.mark.parametrize("large", [False, True])
def test_a_file_that_changes_while_it_is_read_is_lost_and_marked(
    place: Place, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], large: bool
) -> None:
    path, root, store = place
    for name in ("calm", "moving"):
        (path / name).write_bytes(b"one")
    time.sleep(0.05)  # the clock that stamps ctime has gone on
    inode, read = (path / "moving").stat().st_ino, os.read

    def reading(fd: int, size: int) -> bytes:
        data = read(fd, size)
        if os.fstat(fd).st_ino == inode and (path / "moving").lstat().st_ino == inode:
            change(path / "moving")
        return data

    monkeypatch.setattr(os, "read", reading)
    bounds = limits(small_file_bytes=1) if large else limits()
    kept = gather(root, store, [], Snapshot(), 0, 4, limits=bounds)
    assert kept.changed == ["moving"]
    assert kept.lost == [("moving", "the file changed while it was saved")]
    assert [entry.path for entry in kept.changes] == ["calm"]


def test_a_file_that_stays_is_not_marked(place: Place) -> None:
    path, root, store = place
    (path / "calm").write_bytes(b"one")
    assert gather(root, store, [], Snapshot(), 0).changed == []
