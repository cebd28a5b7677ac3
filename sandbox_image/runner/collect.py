"""What a run changed, and the bytes of it (DESIGN §6.4, §6.5). What cannot be kept is named, never a failed run.

The folder is the program's own work: every file is opened without following links, must be a regular file of the
run's own user, and is the same before and after it was read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sandbox_image.runner.grants import create
from sandbox_image.runner.snapshot import Changed, Record, Snapshot, digest, pieces
from sandbox_image.runner.tree import Climber
from shared.executor.wire import Entry, RunLimits

_LOST_ROWS = 100
_NAME_BYTES = 8 << 20
"""What all paths and link targets of a workspace may take as JSON: a manifest then always fits a frame."""


@dataclass(slots=True)
class Collected:
    """What goes into the answer. `records` is the folder as it is now, with every digest that is known."""

    records: dict[str, Record]
    changes: list[Entry] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    pack: bytes = b""


def collect(
    root: int,
    manifest: Sequence[Entry],
    before: Snapshot,
    after: Snapshot,
    limits: RunLimits,
    writes: Sequence[tuple[str, str]],
    *,
    uid: int | None,
    repack: bool = False,
) -> Collected:
    """Compare and read. `before` is the folder as restored, equal to `manifest`; `after` as the program left it.

    A lost path is in neither `changes` nor `deleted`: what the manifest held of it stays. `changed` has each lost path
    whose file was not the same while it was read, `lost` a bounded number of rows. Errors: GrantFailed (the store
    refused an output), OSError.
    """
    old = {entry.path: entry for entry in manifest}
    with Climber(root) as climber:
        job = _Job(climber, old, after, limits, list(writes), uid)
        result = job.result
        result.deleted = sorted(path for path in before.records if path not in after.records)
        if not after.complete:
            result.deleted = [path for path in result.deleted if not _there(climber, path)]
        for path, why in after.unkept:
            job.lose(path, why)
        differing = [
            path
            for path, record in after.records.items()
            if (earlier := before.records.get(path)) is None or earlier != record or path not in old
        ]
        kept = job.admit(sorted(differing), set(result.deleted))
        job.gather(kept, repack=repack)
    result.changes.sort(key=lambda entry: entry.path)
    result.changed.sort()
    result.lost = _bounded(sorted(result.lost))
    return result


def _there(climber: Climber, path: str) -> bool:
    import os  # noqa: PLC0415

    try:
        parent, name = climber.parent(path)
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return True


def _bounded(lost: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if len(lost) <= _LOST_ROWS:
        return lost
    path, why = lost[_LOST_ROWS - 1]
    return [*lost[: _LOST_ROWS - 1], (path, f"{why}; {len(lost) - _LOST_ROWS} more entries are not kept")]


def _name_bytes(path: str, target: str) -> int:
    """At least as many as the texts take in JSON, where one character becomes up to twelve."""
    return sum((2 if text.isascii() and text.isprintable() else 12) * len(text) for text in (path, target))


class _Job:
    def __init__(
        self,
        climber: Climber,
        old: Mapping[str, Entry],
        after: Snapshot,
        limits: RunLimits,
        writes: list[tuple[str, str]],
        uid: int | None,
    ) -> None:
        self._climber = climber
        self._old = old
        self._limits = limits
        self._writes = writes
        self._uid = uid
        self.result = Collected(records=after.records)

    def lose(self, path: str, why: str) -> None:
        """Name an entry that is not kept."""
        self.result.lost.append((path, why))

    def lose_changed(self, path: str) -> None:
        """Name a file that was not the same while it was read."""
        self.lose(path, "the file changed while it was saved")
        self.result.changed.append(path)

    def admit(self, differing: list[str], deleted: set[str]) -> list[str]:
        """The differing paths that fit: single files, then the number of entries, then the bytes of the workspace.

        The sum is over the manifest that will result, in which a lost path keeps its earlier version. What shrinks
        comes first. Below a folder that is not kept nothing is kept.
        """
        records, limits = self.result.records, self._limits
        remaining = {path: entry.size for path, entry in self._old.items() if path not in deleted}
        total, count = sum(remaining.values()), len(remaining)
        names = sum(_name_bytes(path, self._old[path].target) for path in remaining)
        kept: list[str] = []
        dropped: set[str] = set()
        growing: list[str] = []
        for path in differing:
            record = records[path]
            if path.rpartition("/")[0] in dropped:
                dropped.add(path)
                continue
            why = self._refusal(record)
            if why is None and path not in remaining and count >= limits.workspace_entries:
                why = f"the workspace would hold more than {limits.workspace_entries} entries"
            more = _name_bytes(path, record.text if record.kind == "link" else "")
            if path in remaining:
                more -= _name_bytes(path, self._old[path].target)
            if why is None and more > 0 and names + more > _NAME_BYTES:
                why = f"the names of the workspace would take more than {_NAME_BYTES} bytes"
            if why is not None:
                self.lose(path, why)
                dropped.add(path)
                continue
            names += more
            count += path not in remaining
            if record.size <= remaining.get(path, 0):
                total += record.size - remaining.get(path, 0)
                kept.append(path)
            else:
                growing.append(path)
        for path in growing:
            more = records[path].size - remaining.get(path, 0)
            if total + more > limits.workspace_bytes:
                self.lose(path, f"the workspace would hold more than {limits.workspace_bytes} bytes")
                continue
            total += more
            kept.append(path)
        return sorted(kept)

    def _refusal(self, record: Record) -> str | None:
        if record.kind != "file":
            return None
        if record.size > self._limits.file_bytes:
            return f"the file has {record.size} bytes, more than the limit of {self._limits.file_bytes} bytes"
        if self._uid is not None and record.uid != self._uid:
            return "the file belongs to another user"
        return None

    def gather(self, kept: list[str], *, repack: bool) -> None:
        """Read what is new, place it inline, in objects of its own, or in one pack; fill `changes`."""
        fresh: list[str] = []
        for path in kept:
            record = self.result.records[path]
            if record.kind != "file":
                self.result.changes.append(record.entry(path))
            elif not self._unchanged(path, record):
                fresh.append(path)
        small_limit = self._limits.small_file_bytes
        if repack:
            listed = {*fresh, *(path for path, _ in self.result.lost)}
            fresh += [
                path
                for path, record in self.result.records.items()
                if record.kind == "file" and record.size <= small_limit and path in self._old and path not in listed
            ]
            again = set(fresh)
            self.result.changes = [entry for entry in self.result.changes if entry.path not in again]
            fresh.sort()
        large = [path for path in fresh if self.result.records[path].size > small_limit]
        small = [path for path in fresh if self.result.records[path].size <= small_limit]
        total = sum(self.result.records[path].size for path in small)
        spare = self._writes
        needs_pack = total > self._limits.inline_bytes or len(large) > len(spare)
        if not needs_pack:
            self._own_objects(large, spare)
            self._inline(small)
        elif spare:
            self._own_objects(large[: len(spare) - 1], spare)
            self._packed(sorted([*small, *large[len(spare) - 1 :]]), *spare[-1])
        else:
            self._inline(self._fitting(sorted([*small, *large])))

    def _unchanged(self, path: str, record: Record) -> bool:
        """Whether the bytes are the manifest's; then a change of mode or time alone is noted, with the old place."""
        old = self._old.get(path)
        if old is None or old.kind != "file" or old.size != record.size:
            return False
        if not record.text:
            try:
                record = record._replace(text=digest(self._climber, path, record))
            except Changed:
                return False
            self.result.records[path] = record
        if record.text != old.sha256:
            return False
        if record.mode != old.mode & 0o777 or record.mtime_ns != old.mtime_ns:
            self.result.changes.append(replace(record.entry(path), blob=old.blob, offset=old.offset))
        return True

    def _fitting(self, paths: Iterable[str]) -> list[str]:
        fitting, room = [], self._limits.inline_bytes
        for path in paths:
            size = self.result.records[path].size
            if size > room:
                self.lose(path, f"the outputs of this run exceed {self._limits.inline_bytes} bytes")
                continue
            room -= size
            fitting.append(path)
        return fitting

    def _inline(self, paths: Iterable[str]) -> None:
        pack = bytearray()
        for path in paths:
            try:
                data = b"".join(pieces(self._climber, path, self.result.records[path]))
            except Changed:
                self.lose_changed(path)
                continue
            self._note(path, hashlib.sha256(data).hexdigest(), "", len(pack))
            pack += data
        self.result.pack = bytes(pack)

    def _own_objects(self, paths: Sequence[str], writes: Sequence[tuple[str, str]]) -> None:
        for path, (key, url) in zip(paths, writes, strict=False):
            try:
                _, sha256 = create(url, pieces(self._climber, path, self.result.records[path]))
            except Changed:
                self.lose_changed(path)
                continue
            self._note(path, sha256, key, 0)

    def _packed(self, paths: Iterable[str], key: str, url: str) -> None:
        create(url, self._stream(paths, key))

    def _stream(self, paths: Iterable[str], key: str) -> Iterator[bytes]:
        """The bytes of a pack. A file that changes meanwhile leaves its bytes there, which no entry then names."""
        at = 0
        for path in paths:
            sha256, start = hashlib.sha256(), at
            try:
                for piece in pieces(self._climber, path, self.result.records[path]):
                    sha256.update(piece)
                    at += len(piece)
                    yield piece
            except Changed:
                self.lose_changed(path)
                continue
            self._note(path, sha256.hexdigest(), key, start)

    def _note(self, path: str, sha256: str, key: str, offset: int) -> None:
        record = self.result.records[path]._replace(text=sha256)
        self.result.records[path] = record
        self.result.changes.append(replace(record.entry(path), blob=key, offset=offset))
