"""Builds and describes trees with plain system calls, independent of the code that the tests beside it try."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from sandbox_image.runner.collect import Collected, collect
from sandbox_image.runner.snapshot import Bounds, Snapshot, take
from sandbox_image.runner.sync import sync
from shared.executor.wire import Entry, RunLimits

MIB = 1 << 20
BOUNDS = Bounds(path_bytes=5_000, path_depth=80, entries=40_001)


def limits(**changed: int) -> RunLimits:
    """The default limits of the contract, some changed."""
    values = {
        "wall_ms": 5_000,
        "memory_bytes": 1_024 * MIB,
        "processes": 512,
        "open_files": 1_024,
        "file_bytes": 256 * MIB,
        "tmp_bytes": 512 * MIB,
        "stdout_bytes": MIB,
        "stderr_bytes": MIB,
        "flood_bytes": 64 * MIB,
        "workspace_bytes": 1_024 * MIB,
        "workspace_entries": 20_000,
        "path_bytes": 5_000,
        "path_depth": 80,
        "inline_bytes": 3 * MIB,
        "small_file_bytes": MIB,
    }
    return RunLimits(**values | changed)


def folder(path: Path) -> int:
    """A new folder's descriptor."""
    path.mkdir()
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def describe(root: int) -> dict[str, tuple[Any, ...]]:
    """Every path below `root`: kind, mode, mtime, and bytes or target. Walks by descriptor, as paths may be long."""
    found: dict[str, tuple[Any, ...]] = {}

    def enter(fd: int, prefix: str) -> None:
        for name in os.listdir(fd):
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            mode, when = stat.S_IMODE(status.st_mode), status.st_mtime_ns
            path = prefix + name
            if stat.S_ISDIR(status.st_mode):
                found[path] = ("dir", mode, when)
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                enter(inner, path + "/")
                os.close(inner)
            elif stat.S_ISLNK(status.st_mode):
                found[path] = ("link", when, os.readlink(name, dir_fd=fd))
            elif stat.S_ISFIFO(status.st_mode):
                found[path] = ("fifo", mode, when)
            else:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)
                with os.fdopen(file, "rb") as opened:
                    found[path] = ("file", mode, when, opened.read())

    enter(root, "")
    return found


class Store:
    """Objects in a folder, by `file:` grants."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self._count = 0

    def put(self, body: bytes) -> str:
        """Store; the key."""
        self._count += 1
        key = f"o{self._count}"
        (self.path / key).write_bytes(body)
        return key

    def reads(self, manifest: list[Entry]) -> dict[str, str]:
        """Grants for all objects of a manifest."""
        return {entry.blob: f"file:{self.path}/{entry.blob}" for entry in manifest if entry.size}

    def writes(self, count: int) -> list[tuple[str, str]]:
        """Grants for new objects."""
        self._count += count
        keys = [f"o{number}" for number in range(self._count - count + 1, self._count + 1)]
        return [(key, f"file:{self.path}/{key}") for key in keys]

    def body(self, entry: Entry) -> bytes:
        """The bytes that an entry names."""
        data = (self.path / entry.blob).read_bytes() if entry.size else b""
        return data[entry.offset : entry.offset + entry.size]

    def file(self, path: str, body: bytes, **changed: Any) -> Entry:
        """An entry whose bytes are an object of their own."""
        values: dict[str, Any] = {"mode": 0o644, "mtime_ns": 1_700_000_000_123_456_789} | changed
        digest = hashlib.sha256(body).hexdigest()
        return Entry(path, "file", size=len(body), sha256=digest, blob=self.put(body), **values)


Place = tuple[Path, int, Store]
"""A workspace's folder, its descriptor, and a store beside it."""


def restore(root: int, store: Store, manifest: list[Entry], present: Snapshot | None = None) -> Snapshot:
    """Make the folder the manifest."""
    return sync(root, manifest, store.reads(manifest), present or Snapshot(), None, BOUNDS)


def gather(
    root: int, store: Store, manifest: list[Entry], before: Snapshot, started_ns: int, count: int = 0, **how: Any
) -> Collected:
    """Traverse after a change and collect."""
    bounds = how.pop("limits", limits())
    entries = 2 * bounds.workspace_entries + 1
    reach = Bounds(bounds.path_bytes, bounds.path_depth, entries)
    after = take(root, reach, before.records, started_ns)
    return collect(root, manifest, before, after, bounds, store.writes(count), uid=None, **how)


def commit(store: Store, manifest: list[Entry], kept: Collected) -> list[Entry]:
    """The manifest that follows: what a service makes of changes and deletions."""
    pack = store.put(kept.pack)
    entries = {entry.path: entry for entry in manifest if entry.path not in kept.deleted}
    for entry in kept.changes:
        blob = entry.blob or pack
        row = entry.row()
        row[7] = blob if entry.kind == "file" else ""
        entries[entry.path] = Entry.of(row)
    return list(entries.values())
