"""Random workspaces and what a program may do to them, as manifests: for properties of merge and judge."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from shared.domain.manifest import Entry, Manifest
from shared.domain.paths import parents

NAMES = ("a", "b", "\udcff", "é")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
BODIES = st.binary(max_size=3)


def file(path: str, body: bytes = b"x", *, read_only: bool = False, mtime: int = 1, blob: str = "old") -> Entry:
    """A regular file as a manifest has it."""
    return Entry(
        path,
        "file",
        0o444 if read_only else 0o644,
        len(body),
        mtime,
        hashlib.sha256(body).hexdigest(),
        blob=blob if body else "",
        read_only=read_only,
        stored_ms=1,
        origin="upload",
    )


def folder(path: str) -> Entry:
    """A folder."""
    return Entry(path, "dir", 0o755)


def tree(*entries: Entry) -> Manifest:
    """A manifest of entries and of the folders that they need."""
    found = {parent: folder(parent) for entry in entries for parent in parents(entry.path)}
    return Manifest.of([*found.values(), *entries])


@dataclass(frozen=True)
class Act:
    """One thing that a program does."""

    verb: str
    path: str
    body: bytes


ACTS = st.lists(
    st.builds(Act, st.sampled_from(["write", "remove", "mkdir", "link", "chmod", "touch"]), PATHS, BODIES), max_size=8
)


def _put(entries: dict[str, Entry], entry: Entry) -> None:
    """Put an entry as a file system would: in folders, over whatever is in its place."""
    for parent in parents(entry.path):
        there = entries.get(parent)
        if there is None or there.kind != "dir":
            entries[parent] = folder(parent)
    if entry.kind != "dir":
        _remove(entries, entry.path)
    entries[entry.path] = entry


def _remove(entries: dict[str, Entry], path: str) -> None:
    for name in [name for name in entries if name == path or name.startswith(path + "/")]:
        del entries[name]


def after(base: Manifest, acts: list[Act]) -> dict[str, Entry]:
    """The workspace after a program that knows no read-only."""
    entries = dict(base.entries)
    for number, act in enumerate(acts):
        there = entries.get(act.path)
        if act.verb == "write":
            _put(entries, file(act.path, act.body, mtime=100 + number, blob="new")._replace(origin="run", stored_ms=2))
        elif act.verb == "remove":
            _remove(entries, act.path)
        elif act.verb == "mkdir" and (there is None or there.kind != "dir"):
            _put(entries, folder(act.path))
        elif act.verb == "link":
            _put(entries, Entry(act.path, "link", 0o777, target=act.body.hex() or "t"))
        elif act.verb == "chmod" and there is not None:
            entries[act.path] = there._replace(mode=0o600)
        elif act.verb == "touch" and there is not None:
            entries[act.path] = there._replace(mtime_ns=100 + number)
    return entries


def difference(base: Manifest, now: Mapping[str, Entry]) -> tuple[list[Entry], list[str]]:
    """What an executor answers: (changes, deleted)."""
    changes = [entry for path, entry in now.items() if base.entries.get(path) != entry]
    return changes, [path for path in base.entries if path not in now]


@st.composite
def workspaces(draw: st.DrawFn) -> Manifest:
    """A manifest with some read-only files; every parent is a folder in it."""
    entries: dict[str, Entry] = {}
    for path, body, read_only in draw(st.lists(st.tuples(PATHS, BODIES, st.booleans()), max_size=6)):
        _put(entries, file(path, body, read_only=read_only))
    return Manifest.of(entries.values())
