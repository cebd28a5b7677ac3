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

from sandbox_image.runner.tree import DIR_FLAGS, FILE_FLAGS, Climber
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

    def same(self, other: Record) -> bool:
        """Whether nothing says that the path was touched between the two records."""
        return (
            self.ctime_ns == other.ctime_ns
            and self.mtime_ns == other.mtime_ns
            and self.size == other.size
            and self.inode == other.inode
            and self.kind == other.kind
        )

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
    """Traverse the folder `root`. Digests and targets are carried over from `known` where the record is the same.

    With `before_ns` (epoch) a digest is carried only if the known ctime lies RACY_NS before it. Names are text with
    surrogateescape. Never follows a link, never enters another file system. Errors: OSError.
    """
    device = os.fstat(root).st_dev
    found = Snapshot()
    limit = None if before_ns is None else before_ns - RACY_NS
    _enter(root, "", 0, 0, device, bounds, known or {}, limit, found)
    return found


def _enter(
    folder: int,
    prefix: str,
    used: int,
    depth: int,
    device: int,
    bounds: Bounds,
    known: dict[str, Record],
    limit: int | None,
    found: Snapshot,
) -> None:
    inner: list[tuple[str, int, int]] = []
    records = found.records
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if len(records) >= bounds.entries:
                found.complete = False
                found.unkept.append((prefix + name, f"more than {bounds.entries} entries are not looked at"))
                return
            path = prefix + name
            size = used + (len(name) if name.isascii() else len(os.fsencode(name)))
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if depth >= bounds.path_depth:
                found.unkept.append((path, f"the path is deeper than {bounds.path_depth} segments"))
                continue
            if size > bounds.path_bytes:
                found.unkept.append((path, f"the path is longer than {bounds.path_bytes} bytes"))
                continue
            record = _record(folder, name, status, device, known.get(path), limit)
            records[path] = record
            if record.kind == "dir":
                inner.append((name, size + 1, record.inode))
    for name, size, inode in inner:
        if len(records) >= bounds.entries:
            found.complete = False
            return
        try:
            fd = os.open(name, DIR_FLAGS, dir_fd=folder)
        except OSError:
            found.unkept.append((prefix + name, "the folder cannot be read"))
            found.complete = False
            continue
        try:
            if os.fstat(fd).st_ino == inode:
                _enter(fd, f"{prefix}{name}/", size, depth + 1, device, bounds, known, limit, found)
            else:
                found.complete = False
        finally:
            os.close(fd)


def _record(
    folder: int, name: str, status: os.stat_result, device: int, known: Record | None, limit: int | None
) -> Record:
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
    if known is None or not known.text or kind != "file" or not record.same(known):
        return record
    return record._replace(text=known.text) if limit is None or record.ctime_ns < limit else record


def open_file(climber: Climber, path: str, record: Record) -> int:
    """Open a regular file to read, if it is still the one of `record`. Errors: Changed."""
    try:
        parent, name = climber.parent(path)
        fd = os.open(name, FILE_FLAGS, dir_fd=parent)
    except OSError as error:
        raise Changed(path) from error
    if not _still(fd, record):
        os.close(fd)
        raise Changed(path)
    return fd


def _still(fd: int, record: Record) -> bool:
    status = os.fstat(fd)
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
    fd = open_file(climber, path, record)
    try:
        left = record.size
        while left:
            piece = os.read(fd, min(left, _PIECE))
            if not piece:
                raise Changed(path)
            left -= len(piece)
            yield piece
        if not _still(fd, record):
            raise Changed(path)
    finally:
        os.close(fd)
