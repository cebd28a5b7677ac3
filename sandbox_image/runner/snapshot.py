"""What a workspace folder holds: one traversal by descriptors, the same before and after a run (DESIGN §6.4).

A file counts as unchanged only if size, mtime, ctime and inode are as they were and its ctime is older than the
clock's tick before the program began; else its bytes are read. So a restored mtime, a backdated file and a write
in the same instant are all found.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sandbox_image.runner.tree import FILE_FLAGS, Climber, close_folder, open_folder, open_to_read
from shared.executor.wire import Entry, Kind

RACY_NS = 20_000_000
"""Two ticks of the coarsest clock (100 Hz) that stamps ctime."""
_PIECE = 1 << 20


class Record(NamedTuple):
    """One path as the file system has it. `text` is the hex SHA-256 of a file or the target of a link, "" unknown."""

    kind: Kind
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    nlink: int
    uid: int
    text: str

    def entry(self, path: str) -> Entry:
        """The record as an entry of a manifest, without the place of its bytes."""
        return Entry(
            path=path,
            kind=self.kind,
            mode=self.mode,
            size=self.size,
            mtime_ns=self.mtime_ns,
            sha256=self.text if self.kind == "file" else "",
            target=self.text if self.kind == "link" else "",
        )


@dataclass(slots=True)
class Snapshot:
    """A traversal's result. `unkept` are (path, why) that were not entered; `complete` is False when it was cut."""

    records: dict[str, Record] = field(default_factory=dict)
    unkept: list[tuple[str, str]] = field(default_factory=list)
    complete: bool = True

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(record.size for record in self.records.values())


class Bounds(NamedTuple):
    """Where a traversal stops: a path's bytes and segments, and the number of paths."""

    path_bytes: int
    path_depth: int
    entries: int


class Changed(Exception):
    """A file was not the same before and after its bytes were read."""


def take(root: int, bounds: Bounds, known: dict[str, Record] | None = None, before_ns: int | None = None) -> Snapshot:
    """Traverse the folder `root`. A record of `known`, with its digest, stays where nothing was touched.

    With `before_ns` (epoch) it stays only if its ctime lies RACY_NS before it. Names are text with
    surrogateescape. Never follows a link, never enters another file system. Errors: OSError.
    """
    limit = None if before_ns is None else before_ns - RACY_NS
    walk = _Walk(os.fstat(root).st_dev, bounds, known or {}, limit)
    walk.enter(root, "", 0, 0)
    return walk.found


class _Walk:
    """One traversal. At most `path_depth` folders are open at a time."""

    def __init__(self, device: int, bounds: Bounds, known: dict[str, Record], limit: int | None) -> None:
        self._device = device
        self._bounds = bounds
        self._known = known
        self._limit = limit
        self.found = Snapshot()

    def enter(self, folder: int, prefix: str, used: int, depth: int) -> None:
        """Record what `folder` holds, whose path is `prefix` (`used` bytes, `depth` segments), then go into it."""
        known, limit, records = self._known, self._limit, self.found.records
        inner: list[tuple[str, int]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                path = prefix + name
                size = used + (len(name) if name.isascii() else len(os.fsencode(name)))
                if self._full(path):
                    return
                if depth >= self._bounds.path_depth or size > self._bounds.path_bytes:
                    self._beyond(path, depth)
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                record = known.get(path)
                if record is None or not _untouched(record, status, limit):
                    record = _record(folder, name, status, self._device)
                records[path] = record
                if record.kind == "dir":
                    inner.append((name, size + 1))
        for name, size in inner:
            if not self.found.complete:
                return
            self._descend(folder, name, f"{prefix}{name}", size, depth + 1)

    def _descend(self, folder: int, name: str, path: str, used: int, depth: int) -> None:
        found = self.found
        try:
            fd, mode = open_folder(folder, name)
        except OSError:
            found.unkept.append((path, "the folder cannot be read"))
            found.complete = False
            return
        try:
            if os.fstat(fd).st_ino == found.records[path].inode:
                self.enter(fd, path + "/", used, depth)
            else:
                found.complete = False
        finally:
            close_folder(fd, mode)

    def _full(self, path: str) -> bool:
        found = self.found
        if len(found.records) + len(found.unkept) < self._bounds.entries:
            return False
        found.complete = False
        found.unkept.append((path, f"more than {self._bounds.entries} entries are not looked at"))
        return True

    def _beyond(self, path: str, depth: int) -> None:
        deep = depth >= self._bounds.path_depth
        limit = (
            f"deeper than {self._bounds.path_depth} segments"
            if deep
            else f"longer than {self._bounds.path_bytes} bytes"
        )
        self.found.unkept.append((path, f"the path is {limit}"))


def _untouched(record: Record, status: os.stat_result, limit: int | None) -> bool:
    """Whether all that is known still holds: every change of content, mode, owner or links moves an older ctime."""
    ctime = status.st_ctime_ns
    return (
        ctime == record.ctime_ns
        and status.st_ino == record.inode
        and status.st_mtime_ns == record.mtime_ns
        and (record.kind != "file" or status.st_size == record.size)
        and (limit is None or ctime < limit)
    )


def _record(folder: int, name: str, status: os.stat_result, device: int) -> Record:
    mode = status.st_mode
    kind: Kind = "other"
    size = 0
    if status.st_dev != device:
        pass
    elif stat.S_ISREG(mode):
        kind, size = "file", status.st_size
    elif stat.S_ISDIR(mode):
        kind = "dir"
    elif stat.S_ISLNK(mode):
        kind = "link"
    elif stat.S_ISFIFO(mode):
        kind = "fifo"
    record = Record(
        kind, mode & 0o777, size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_nlink,
        status.st_uid, "",
    )  # fmt: skip
    if kind == "link":
        try:
            return record._replace(text=os.readlink(name, dir_fd=folder))
        except OSError:
            return record._replace(kind="other")
    return record


def open_file(climber: Climber, path: str, record: Record) -> tuple[int, Record]:
    """Open a regular file to read, if it is still the one of `record`; what it is while it is open. Errors: Changed."""
    try:
        parent, name = climber.parent(path)
        fd, moved = open_to_read(parent, name, FILE_FLAGS)
    except OSError as error:
        raise Changed(path) from error
    if moved:
        record = record._replace(ctime_ns=os.fstat(fd).st_ctime_ns)
    if not _still(climber, path, fd, record):
        os.close(fd)
        raise Changed(path)
    return fd, record


def _still(climber: Climber, path: str, fd: int, record: Record) -> bool:
    """Whether the open file, and what the path leads to, are both the file of `record`, untouched."""
    try:
        parent, name = climber.parent(path)
        named = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return _is(os.fstat(fd), record) and _is(named, record)


def _is(status: os.stat_result, record: Record) -> bool:
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_ino == record.inode
        and status.st_size == record.size
        and status.st_mtime_ns == record.mtime_ns
        and status.st_ctime_ns == record.ctime_ns
    )


def digest(climber: Climber, path: str, record: Record) -> str:
    """The hex SHA-256 of a file's bytes. Errors: Changed."""
    total = hashlib.sha256()
    for piece in pieces(climber, path, record):
        total.update(piece)
    return total.hexdigest()


def pieces(climber: Climber, path: str, record: Record) -> Iterator[bytes]:
    """The bytes of a file, exactly `record.size` of them. Errors: Changed, before the first piece or after the last."""
    fd, record = open_file(climber, path, record)
    try:
        left = record.size
        while left:
            piece = os.read(fd, min(left, _PIECE))
            if not piece:
                raise Changed(path)
            left -= len(piece)
            yield piece
        if not _still(climber, path, fd, record):
            raise Changed(path)
    finally:
        os.close(fd)
