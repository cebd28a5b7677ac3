"""A version of a workspace: for each path what it is and where its bytes lie (DESIGN §4).

A manifest is immutable: every change makes another one. Encoded it is compressed JSON with a leading format number.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from shared.domain.paths import is_text, parents, sort_key

FORMAT = 1
MAX_DECODED = 64 * 1024 * 1024
"""Bytes of a decoded manifest: `Limits.names_bytes` in JSON escapes (six for one) and the rest of every row fit."""


class BadManifest(ValueError):
    """Stored bytes are not a manifest."""


class Entry(NamedTuple):
    """One path. `kind` is file, dir, link, fifo or other.

    `blob` and `offset` place a file's bytes in the object store. `origin` is `upload`, `run`, or `copy:` and the
    reference that it came from. `stored_ms` is when this content came into the workspace.
    """

    path: str
    kind: str
    mode: int
    size: int = 0
    mtime_ns: int = 0
    sha256: str = ""
    target: str = ""
    blob: str = ""
    offset: int = 0
    read_only: bool = False
    stored_ms: int = 0
    origin: str = ""

    @property
    def listed(self) -> bool:
        """Whether callers see it: a regular file with a UTF-8 name (exec.md A8.11)."""
        return self.kind == "file" and is_text(self.path)

    @property
    def modified_ms(self) -> int:
        """The later of mtime and stored-at (exec.md A8.12)."""
        return max(self.mtime_ns // 1_000_000, self.stored_ms)


@dataclass(frozen=True, slots=True)
class Manifest:
    """All paths of a version. `entries` is keyed by path, in bytewise order."""

    entries: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Manifest:
        """A manifest of these entries; a later one of the same path wins."""
        by_path = {entry.path: entry for entry in entries}
        # Code points and UTF-8 bytes order valid text alike; a byte that is not UTF-8 needs the key.
        order = sorted(by_path) if all(map(is_text, by_path)) else sorted(by_path, key=sort_key)
        return cls(MappingProxyType({path: by_path[path] for path in order}))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self if entry.kind == "file")

    @property
    def names(self) -> int:
        """UTF-8 bytes of all paths and targets of links together."""
        return sum(map(name_bytes, self))

    @property
    def listed(self) -> list[Entry]:
        """What callers see, in bytewise order of names."""
        return [entry for entry in self if entry.listed]

    @property
    def blobs(self) -> set[str]:
        """Keys of the objects that hold this version's bytes."""
        return {entry.blob for entry in self if entry.kind == "file" and entry.size > 0}

    def file(self, path: str) -> Entry | None:
        """The listed file at a path."""
        entry = self.entries.get(path)
        return entry if entry is not None and entry.listed else None

    def without(self, path: str) -> Manifest:
        """This version without one path."""
        return Manifest(MappingProxyType({name: entry for name, entry in self.entries.items() if name != path}))

    def without_kind(self, kind: str) -> Manifest:
        """This version without entries of one kind; itself when there is none."""
        if all(entry.kind != kind for entry in self):
            return self
        return Manifest(MappingProxyType({name: entry for name, entry in self.entries.items() if entry.kind != kind}))

    def encode(self) -> bytes:
        """Compressed JSON: `[format, rows]`, a row in field order."""
        rows = list(self.entries.values())
        return zlib.compress(json.dumps([FORMAT, rows], separators=(",", ":")).encode("ascii"), 1)

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read what `encode` wrote. Errors: BadManifest."""
        try:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(data, MAX_DECODED)
            if unpacker.unconsumed_tail or not unpacker.eof:
                raise BadManifest("too large or cut")
            version, rows = json.loads(text)
            if version != FORMAT:
                raise BadManifest("of another format")
            return cls(MappingProxyType({row[0]: Entry(*row) for row in rows}))
        except (zlib.error, ValueError, TypeError, IndexError, KeyError, RecursionError) as error:
            raise BadManifest("unreadable") from error


class Draft:
    """A version in the making: files are put one at a time, each at a cost that does not grow with the workspace."""

    def __init__(self, base: Manifest) -> None:
        self._entries = dict(base.entries)
        self.size = base.size
        self.names = base.names

    def __len__(self) -> int:
        return len(self._entries)

    def obstacle(self, path: str) -> str | None:
        """What stands in the way of a file at `path`: a folder there, or a parent that is no folder."""
        there = self._entries.get(path)
        if there is not None and there.kind == "dir":
            return "names a folder"
        for parent in parents(path):
            above = self._entries.get(parent)
            if above is not None and above.kind != "dir":
                return "has a parent that is not a folder"
        return None

    def put(self, file: Entry) -> None:
        """Put a file that has no obstacle, and the folders that it needs (mode 0755)."""
        for parent in parents(file.path):
            if parent not in self._entries:
                self._set(Entry(parent, "dir", 0o755, mtime_ns=file.mtime_ns, stored_ms=file.stored_ms))
        self._set(file)

    def _set(self, entry: Entry) -> None:
        before = self._entries.get(entry.path)
        if before is not None:
            self.size -= before.size
            self.names -= name_bytes(before)
        self._entries[entry.path] = entry
        self.size += entry.size
        self.names += name_bytes(entry)

    def done(self) -> Manifest:
        """The version."""
        return Manifest.of(self._entries.values())


def name_bytes(entry: Entry) -> int:
    """Bytes that an entry's names take."""
    return sum(
        len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
        for text in (entry.path, entry.target)
    )
