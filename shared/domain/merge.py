"""What a run's changes make of a workspace (DESIGN §6.4, exec.md A8.13).

The executor says what differs; this decides what is kept. A read-only file that a program changed, moved or removed
stays as it was, with the folders that it needs, and what the program put in its way is dropped and named.
The cost follows the changes, not the workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.domain.manifest import Entry, Manifest
from shared.domain.paths import parents, sort_key


@dataclass(frozen=True, slots=True)
class Merged:
    """The next version, and what to tell of it, each in bytewise order of names.

    `written` are listed files that are new or differ, `deleted` names of listed files that are gone, `kept` read-only
    files whose change was dropped, `dropped` paths of the program's that could not stay beside them.
    """

    manifest: Manifest
    written: tuple[Entry, ...] = ()
    deleted: tuple[str, ...] = ()
    kept: tuple[Entry, ...] = ()
    dropped: tuple[str, ...] = ()


def merge(base: Manifest, changes: Sequence[Entry], deleted: Iterable[str]) -> Merged:
    """Apply a run's changes to the version that it began with; both have passed `shared.executor.judge`.

    `changes` may repeat unchanged files with another place of their bytes (compaction).
    """
    gone = set(deleted)
    if not changes and not gone:
        return Merged(base)
    entries = {path: entry for path, entry in base.entries.items() if path not in gone}
    kept = {path: base.entries[path] for path in gone if path in base.entries and base.entries[path].read_only}
    for change in changes:
        before = base.entries.get(change.path)
        if before is not None and before.read_only and not _same_content(before, change):
            kept[change.path] = before
        elif before is not None and (before.read_only or not _differs(before, change)):
            entries[change.path] = before._replace(blob=change.blob, offset=change.offset)
        else:
            entries[change.path] = change
    dropped = _put_back(entries, base, kept, changes)
    for change in changes:
        if change.path in entries:
            _need_parents(entries, base, change.path)
    touched = sorted({change.path for change in changes} | gone, key=sort_key)
    now = [(path, base.entries.get(path), entries.get(path)) for path in touched]
    return Merged(
        Manifest.of(entries.values()),
        tuple(new for _, old, new in now if new is not None and new.listed and _differs(old, new)),
        tuple(path for path, old, new in now if old is not None and old.listed and (new is None or not new.listed)),
        tuple(kept[path] for path in sorted(kept, key=sort_key)),
        dropped,
    )


def _same_content(before: Entry, change: Entry) -> bool:
    return (before.kind, before.sha256, before.size) == (change.kind, change.sha256, change.size)


def _differs(before: Entry | None, after: Entry) -> bool:
    return before is None or (
        (before.kind, before.sha256, before.size, before.target, before.mode, before.mtime_ns)
        != (after.kind, after.sha256, after.size, after.target, after.mode, after.mtime_ns)
    )


def _put_back(
    entries: dict[str, Entry], base: Manifest, kept: dict[str, Entry], changes: Sequence[Entry]
) -> tuple[str, ...]:
    """Put read-only files back where they were; returns what had to go for it."""
    dropped: set[str] = set()
    if not kept:
        return ()
    for change in changes:
        if any(parent in kept for parent in parents(change.path)):
            entries.pop(change.path, None)
            dropped.add(change.path)
    for path, entry in kept.items():
        for parent in parents(path):
            there = entries.get(parent)
            if there is None or there.kind != "dir":
                if there is not None:
                    dropped.add(parent)
                entries[parent] = base.entries[parent]
        entries[path] = entry
    return tuple(sorted(dropped, key=sort_key))


def _need_parents(entries: dict[str, Entry], base: Manifest, path: str) -> None:
    """No entry stands without its folders: what the executor did not name is added."""
    for parent in parents(path):
        if parent not in entries:
            before = base.entries.get(parent)
            entries[parent] = before if before is not None and before.kind == "dir" else Entry(parent, "dir", 0o755)
