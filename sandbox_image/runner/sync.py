"""Makes a workspace folder equal to a manifest, doing only what differs (DESIGN §6.2).

All or nothing: a byte range that cannot be read, or has another digest, fails the run before its program starts
(cases.md D13). The folder is then discarded, never used half restored. No program runs while this does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandbox_image.runner.ahead import Range, in_order
from sandbox_image.runner.grants import GrantFailed
from sandbox_image.runner.snapshot import Bounds, Record, Snapshot, take
from sandbox_image.runner.tree import DIR_FLAGS, FILE_FLAGS, NEW_FLAGS, Climber, open_folder, open_to_read, remove
from shared.executor.wire import Entry

_RANGE = 8 << 20
_GAP = 64 << 10


class SyncFailed(Exception):
    """The workspace could not be restored whole."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose the files are; None: of whoever runs this."""

    uid: int
    gid: int


def sync(
    root: int,
    manifest: Sequence[Entry],
    reads: Mapping[str, str],
    present: Snapshot | None,
    owner: Owner | None,
    bounds: Bounds,
) -> Snapshot:
    """Make `root` hold exactly `manifest`; `present` is what it holds. Returns the snapshot of the result.

    Files with several hard links become files of their own. Entries of kind `other` are not made. Errors: SyncFailed.
    """
    if present is None:
        raise SyncFailed("a folder of unknown content")
    wanted = {entry.path: entry for entry in manifest if entry.kind != "other"}
    if len(wanted) + sum(entry.kind == "other" for entry in manifest) != len(manifest):
        raise SyncFailed("two entries of one path")
    try:
        return _sync(root, wanted, reads, present, owner, bounds)
    except (OSError, GrantFailed, ValueError) as error:
        raise SyncFailed(type(error).__name__) from error


def _sync(
    root: int,
    wanted: dict[str, Entry],
    reads: Mapping[str, str],
    present: Snapshot,
    owner: Owner | None,
    bounds: Bounds,
) -> Snapshot:
    have = present.records
    gone = [path for path, record in have.items() if not _keeps(record, wanted.get(path))]
    dropped = set(gone)
    new = [entry for path, entry in wanted.items() if path not in have or path in dropped]
    moved = [
        entry for path, entry in wanted.items() if path in have and path not in dropped and _moved(have[path], entry)
    ]
    if not gone and not new and not moved:
        return present
    touched = {path.rpartition("/")[0] for path in gone}
    touched.update(entry.path.rpartition("/")[0] for entry in new)
    with Climber(root) as climber:
        for path in sorted(gone, reverse=True):
            parent, name = climber.parent(path)
            if have[path].kind == "dir":
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)
    digests = _make(root, sorted(new, key=lambda entry: entry.path), reads, owner)
    for entry in moved:
        if entry.kind != "dir":
            _dress(root, entry)
    folders = {entry.path for entry in (*new, *moved) if entry.kind == "dir"}
    folders.update(path for path in touched if path in wanted)
    for path in sorted(folders, reverse=True):
        _dress(root, wanted[path])
    return _verified(root, wanted, {**have, **digests}, bounds)


def _keeps(record: Record, entry: Entry | None) -> bool:
    """Whether what is there can stay, its mode and time aside."""
    if entry is None or record.kind != entry.kind:
        return False
    if record.kind == "file":
        return record.text == entry.sha256 and record.size == entry.size and record.nlink == 1
    return record.kind != "link" or record.text == entry.target


def _moved(record: Record, entry: Entry) -> bool:
    """Whether mode or time differ. A link's mode is the system's own."""
    return record.mtime_ns != entry.mtime_ns or (record.kind != "link" and record.mode != entry.mode & 0o777)


def _make(root: int, new: Iterable[Entry], reads: Mapping[str, str], owner: Owner | None) -> dict[str, Record]:
    """Create folders, links and FIFOs in order of path, then the files in order of where their bytes lie."""
    files: dict[str, list[Entry]] = {}
    with Climber(root) as climber:
        for entry in new:
            parent, name = climber.parent(entry.path)
            if entry.kind == "file":
                files.setdefault(entry.blob, []).append(entry)
            elif entry.kind == "dir":
                os.mkdir(name, 0o700, dir_fd=parent)
            elif entry.kind == "link":
                os.symlink(entry.target, name, dir_fd=parent)
            else:
                os.mkfifo(name, entry.mode & 0o777, dir_fd=parent)
            if entry.kind != "file":
                if owner is not None:
                    os.chown(name, owner.uid, owner.gid, dir_fd=parent, follow_symlinks=False)
                if entry.kind != "dir":
                    _dress_at(parent, name, entry)
        return _restore(climber, files, reads, owner)


def _restore(
    climber: Climber, files: Mapping[str, list[Entry]], reads: Mapping[str, str], owner: Owner | None
) -> dict[str, Record]:
    """Write files; those whose bytes lie beside each other in one object are read in one range."""
    made = {
        entry.path: _write(climber, entry, (), owner)
        for entries in files.values()
        for entry in entries
        if not entry.size
    }
    parts: list[tuple[Range, list[Entry]]] = []
    for blob, entries in files.items():
        filled = sorted((entry for entry in entries if entry.size), key=lambda entry: entry.offset)
        if filled and blob not in reads:
            raise SyncFailed("no grant for an object")
        parts += _parts(reads.get(blob, ""), filled)
    with contextlib.closing(in_order([part for part, _ in parts])) as found:
        for (part, entries), pieces in zip(parts, found, strict=True):
            if len(entries) == 1:
                made[entries[0].path] = _write(climber, entries[0], pieces, owner)
                continue
            data = memoryview(b"".join(pieces))
            for entry in entries:
                at = entry.offset - part.start
                made[entry.path] = _write(climber, entry, (data[at : at + entry.size],), owner)
    return made


def _parts(url: str, entries: Sequence[Entry]) -> Iterator[tuple[Range, list[Entry]]]:
    """The ranges of one object that hold `entries`, which are in order of offset, and what each of them holds."""
    start = 0
    while start < len(entries):
        first = entries[start]
        end, stop = start + 1, first.offset + first.size
        while end < len(entries) and first.size <= _RANGE:
            entry = entries[end]
            reach = max(stop, entry.offset + entry.size)
            if entry.offset > stop + _GAP or reach - first.offset > _RANGE:
                break
            stop, end = reach, end + 1
        yield Range(url, first.offset, stop - first.offset), list(entries[start:end])
        start = end


def _write(climber: Climber, entry: Entry, pieces: Iterable[bytes | memoryview], owner: Owner | None) -> Record:
    parent, name = climber.parent(entry.path)
    fd = os.open(name, NEW_FLAGS, 0o600, dir_fd=parent)
    try:
        total, size = hashlib.sha256(), 0
        for piece in pieces:
            total.update(piece)
            size += len(piece)
            if size > entry.size:
                break
            view = memoryview(piece)
            while view:
                view = view[os.write(fd, view) :]
        if size != entry.size or total.hexdigest() != entry.sha256:
            raise SyncFailed("an object's bytes have another digest")
        if owner is not None:
            os.fchown(fd, owner.uid, owner.gid)
        os.fchmod(fd, entry.mode & 0o777)
        os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        status = os.fstat(fd)
    finally:
        os.close(fd)
    return Record(
        "file", entry.mode & 0o777, size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, 1, status.st_uid,
        entry.sha256,
    )  # fmt: skip


def _dress(root: int, entry: Entry) -> None:
    with Climber(root) as climber:
        _dress_at(*climber.parent(entry.path), entry)


def _dress_at(parent: int, name: str, entry: Entry) -> None:
    """Give mode and time. Folders and files by descriptor: chmod by name would follow a link."""
    if entry.kind in ("dir", "file"):
        is_folder = entry.kind == "dir"
        fd, _ = open_folder(parent, name) if is_folder else open_to_read(parent, name, FILE_FLAGS)
        try:
            os.fchmod(fd, entry.mode & 0o777)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(fd)
        return
    if entry.kind == "fifo":
        os.chmod(name, entry.mode & 0o777, dir_fd=parent)
    os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=parent, follow_symlinks=False)


def _verified(root: int, wanted: dict[str, Entry], known: dict[str, Record], bounds: Bounds) -> Snapshot:
    """Traverse the result and compare it with the manifest, all of it."""
    result = take(root, bounds._replace(entries=len(wanted) + 1), known)
    records = result.records
    if result.unkept or not result.complete or len(records) != len(wanted):
        raise SyncFailed("the folder is not the manifest")
    for path, entry in wanted.items():
        record = records.get(path)
        if record is None or not _keeps(record, entry) or _moved(record, entry):
            raise SyncFailed("an entry is not as the manifest has it")
    return result


def empty(parent: int, name: str, owner: Owner | None) -> int:
    """A new empty workspace folder `name` below `parent`; its descriptor. What was there is removed first."""
    remove(parent, name)
    os.mkdir(name, 0o700, dir_fd=parent)
    fd = os.open(name, DIR_FLAGS, dir_fd=parent)
    if owner is not None:
        os.fchown(fd, owner.uid, owner.gid)
    os.fchmod(fd, 0o755)
    return fd
