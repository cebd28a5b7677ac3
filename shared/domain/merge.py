"""What a run's changes make of a workspace (DESIGN §6.4, exec.md A8.13).

The executor says what differs; this decides what is kept. A read-only file that a program changed, moved or removed
stays as it was, with the folders that it needs, and what the program put in its way is dropped and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shared.domain.manifest import Entry, Manifest
from shared.domain.paths import parents, sort_key


@dataclass(frozen=True, slots=True)
class Merged:
    """The next version, and what to tell of it, each in bytewise order of names.

    `written` are listed files that are new or differ, `deleted` names of listed files that are gone, `kept` read-only
    files whose change was dropped, `dropped` paths of the program's that could not stay beside them.
    """

    manifest: Manifest
    written: tuple[Entry, ...]
    deleted: tuple[str, ...]
    kept: tuple[Entry, ...]
    dropped: tuple[str, ...]


def merge(base: Manifest, changes: Sequence[Entry], deleted: Iterable[str]) -> Merged:
    """Apply a run's changes to the version that it began with. `changes` may repeat unchanged files (compaction)."""
    guarded = {entry.path: entry for entry in base if entry.read_only}
    gone = set(deleted)
    entries = {path: entry for path, entry in base.entries.items() if path not in gone}
    kept: dict[str, Entry] = {path: guarded[path] for path in gone if path in guarded}
    for change in changes:
        before = base.entries.get(change.path)
        if before is None or (_differs(before, change) and not before.read_only):
            entries[change.path] = change
        elif _same_content(before, change):
            entries[change.path] = replace(before, blob=change.blob, offset=change.offset)
        else:
            kept[change.path] = before
    dropped = _put_back(entries, base, kept)
    merged = Manifest.of(_with_parents(entries, base))
    written = tuple(entry for entry in merged if entry.listed and _differs(base.entries.get(entry.path), entry))
    lost = tuple(
        path for path in sorted(base.entries, key=sort_key) if base.entries[path].listed and merged.file(path) is None
    )
    return Merged(merged, written, lost, tuple(kept[path] for path in sorted(kept, key=sort_key)), dropped)


def _same_content(before: Entry, change: Entry) -> bool:
    return (before.kind, before.sha256, before.size) == (change.kind, change.sha256, change.size)


def _differs(before: Entry | None, after: Entry) -> bool:
    return before is None or (
        (before.kind, before.sha256, before.mode, before.mtime_ns)
        != (after.kind, after.sha256, after.mode, after.mtime_ns)
    )


def _put_back(entries: dict[str, Entry], base: Manifest, kept: dict[str, Entry]) -> tuple[str, ...]:
    """Put read-only files back where they were; returns what had to go for it."""
    dropped: set[str] = set()
    for path, entry in kept.items():
        below = path + "/"
        for other in [name for name in entries if name.startswith(below)]:
            del entries[other]
            dropped.add(other)
        for parent in parents(path):
            there = entries.get(parent)
            if there is None or there.kind != "dir":
                if there is not None:
                    dropped.add(parent)
                entries[parent] = base.entries[parent]
        entries[path] = entry
    return tuple(sorted(dropped, key=sort_key))


def _with_parents(entries: dict[str, Entry], base: Manifest) -> Iterable[Entry]:
    """Every entry, and a folder for each parent that none of them is: no file stands without its folders."""
    for path in list(entries):
        for parent in parents(path):
            if parent not in entries:
                entries[parent] = base.entries.get(parent) or Entry(parent, "dir", 0o755)
    return entries.values()
