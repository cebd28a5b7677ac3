"""Objects far away are fetched beside each other, in order, in bounded memory; a bad one fails the restore."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_image.runner import ahead, grants
from sandbox_image.runner.ahead import Range, in_order
from sandbox_image.runner.grants import GrantFailed
from sandbox_image.runner.snapshot import Snapshot
from sandbox_image.runner.sync import SyncFailed, sync
from shared.executor.wire import Entry
from tests.unit.runner_trees import BOUNDS, Store, describe, folder
from tests.unit.test_runner_grants import BODY, head, sound, store


class Far:
    """Stands for a store far away: every reading takes a moment. `most` is how many there were at once."""

    def __init__(self, seconds: float, data: dict[str, bytes] | None = None) -> None:
        self._seconds, self._data = seconds, data or {}
        self._lock = threading.Lock()
        self.now, self.most, self.held, self.most_held = 0, 0, 0, 0

    def read(self, url: str, start: int, length: int) -> Iterator[bytes]:
        """As grants.read."""
        with self._lock:
            self.now += 1
            self.held += length
            self.most, self.most_held = max(self.most, self.now), max(self.most_held, self.held)
        time.sleep(self._seconds)
        with self._lock:
            self.now -= 1
        if url.endswith("bad"):
            raise GrantFailed("no")
        yield self._data[url][start : start + length] if self._data else bytes(length)


def read_all(parts: list[Range], taken: list[int]) -> None:
    """Take every range; `taken` gets the size of each."""
    with contextlib.closing(in_order(parts)) as found:
        taken.extend(len(b"".join(pieces)) for pieces in found)


def test_many_are_fetched_at_once_and_come_in_order() -> None:
    def slow(request: bytes, count: int) -> tuple[bytes, bool]:
        time.sleep(0.05)
        return sound(request, count)

    parts = [(number * 1_000, 500 + number) for number in range(96)]
    with store(slow) as made:
        begun = time.monotonic()
        found = [b"".join(pieces) for pieces in in_order([Range(made.url, *part) for part in parts])]
        assert time.monotonic() - begun < 96 * 0.05 / 3
        assert found == [BODY[start : start + length] for start, length in parts]
        assert len(made.requests) == 96
        assert made.connections <= 16, "a connection is used again"


def test_sixteen_at_once_and_no_thread_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far(0.01)
    monkeypatch.setattr(ahead, "read", far.read)
    assert sum(len(b"".join(pieces)) for pieces in in_order([Range("https://x", 0, 10)] * 100)) == 1_000
    assert 4 < far.most <= 16
    assert [thread for thread in threading.enumerate() if thread.name.startswith("ahead")] == []


def test_what_is_fetched_and_not_taken_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far(0)
    monkeypatch.setattr(ahead, "read", far.read)
    sizes = [4 << 20, 8 << 20, 1 << 20, 20 << 20, 3 << 20] * 4
    for size, pieces in zip(sizes, in_order([Range("https://x", 0, size) for size in sizes]), strict=True):
        time.sleep(0.01)  # the slower it is taken, the more could be there
        assert len(b"".join(pieces)) == size
        far.held -= size
    assert far.most_held <= (16 << 20) + (8 << 20) + (20 << 20)


def test_a_large_one_is_read_in_pieces_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far(0)
    monkeypatch.setattr(ahead, "read", far.read)
    parts = [Range("https://x", 0, 1), Range("https://x", 0, 100 << 20), Range("https://x", 0, 1)]
    with contextlib.closing(in_order(parts)) as found:
        next(found)
        time.sleep(0.05)
        assert far.held < 1 << 20


def test_objects_of_this_machine_need_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail("a thread"))
    (tmp_path / "o").write_bytes(b"0123456789")
    parts = [Range(f"file:{tmp_path}/o", start, 2) for start in range(8)]
    assert b"".join(b"".join(pieces) for pieces in in_order(parts)) == b"0112233445566778"


def test_the_first_bad_one_ends_it_and_what_waits_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far(0.01)
    monkeypatch.setattr(ahead, "read", far.read)
    good, bad = Range("https://x", 0, 1), Range("https://bad", 0, 1)
    taken: list[int] = []
    with pytest.raises(GrantFailed):
        read_all([*[good] * 5, bad, *[good] * 500], taken)
    assert taken == [1] * 5
    assert far.held < 60


@pytest.mark.parametrize("damage", ["", "flipped", "gone"])
def test_a_workspace_of_many_objects_is_restored_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    objects = Store(tmp_path / "objects")
    names = [f"d/{number:03}" for number in range(300)]
    manifest = [Entry("d", "dir", 0o755, mtime_ns=1), *(objects.file(name, name.encode() * 9) for name in names)]
    packed = b"".join(name.encode() for name in names)
    manifest += [objects.file("whole", packed), objects.file("empty", b"")]
    data = {f"https://x/{entry.blob}": objects.body(entry) for entry in manifest if entry.size}
    url = f"https://x/{manifest[200].blob}"
    if damage == "flipped":
        data[url] = data[url][::-1]
    elif damage == "gone":
        del data[url]
    far = Far(0.001, data)

    def read(url: str, start: int, length: int) -> Iterator[bytes]:
        if url not in data:
            raise GrantFailed("gone")
        return far.read(url, start, length)

    monkeypatch.setattr(ahead, "read", read)
    root = folder(tmp_path / "w")
    reads = {entry.blob: f"https://x/{entry.blob}" for entry in manifest if entry.size}
    try:
        if damage:
            with pytest.raises(SyncFailed):
                sync(root, manifest, reads, Snapshot(), None, BOUNDS)
            return
        sync(root, manifest, reads, Snapshot(), None, BOUNDS)
        found = describe(root)
        assert {path: row[3] for path, row in found.items() if row[0] == "file"} == {
            **{name: name.encode() * 9 for name in names},
            "whole": packed,
            "empty": b"",
        }
    finally:
        os.close(root)


def test_connections_that_lie_idle_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with store(sound) as made:
        for _ in in_order([Range(made.url, 0, 10)] * 40):
            pass
        used = made.connections
        later = time.time() + 3
        monkeypatch.setattr(time, "time", lambda: later)
        assert b"".join(grants.read(made.url, 0, 10)) == BODY[:10]
        assert made.connections == used + 1


def test_a_store_that_refuses_one_of_many_fails_the_reading() -> None:
    def answer(request: bytes, count: int) -> tuple[bytes, bool]:
        return (head(403, 0), True) if b"bytes=7-7" in request else sound(request, count)

    with store(answer) as made, pytest.raises(GrantFailed):
        read_all([Range(made.url, start, 1) for start in range(30)], [])
