"""Small workspaces for the tests, spelled as a path each."""

from __future__ import annotations

import hashlib

from shared.domain.manifest import Entry, Manifest
from shared.domain.paths import parents


def file(path: str, content: str = "x", *, size: int | None = None) -> Entry:
    sha = hashlib.sha256(content.encode()).hexdigest()
    count = len(content.encode()) if size is None else size
    return Entry(path, "file", 0o644, size=count, sha256=sha, blob="blob" if count else "")


def folder(path: str) -> Entry:
    return Entry(path, "dir", 0o755)


def link(path: str, target: str) -> Entry:
    return Entry(path, "link", 0o777, target=target)


def special(path: str, kind: str = "fifo") -> Entry:
    return Entry(path, kind, 0o644)


def tree(*entries: Entry) -> Manifest:
    """A workspace of these entries and the folders that they need."""
    named = {entry.path for entry in entries}
    above = {parent for entry in entries for parent in parents(entry.path)} - named
    return Manifest.of([*(folder(path) for path in sorted(above)), *entries])
