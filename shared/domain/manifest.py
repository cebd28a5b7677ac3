"""A version of a workspace: for each path what it is and where its bytes lie (DESIGN §4).

A manifest is immutable: every change makes another one. Encoded it is compressed JSON with a leading format number.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from types import MappingProxyType

from shared.domain.paths import is_text, parents, sort_key

FORMAT = 1
MAX_DECODED = 64 * 1024 * 1024


class BadManifest(ValueError):
    """Stored bytes are not a manifest."""


@dataclass(frozen=True, slots=True)
class Entry:
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
        return cls(MappingProxyType({path: by_path[path] for path in sorted(by_path, key=sort_key)}))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self if entry.kind == "file")

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

    def obstacle(self, path: str) -> str | None:
        """What stands in the way of a file at `path`: a folder there, or a parent that is no folder."""
        there = self.entries.get(path)
        if there is not None and there.kind == "dir":
            return "names a folder"
        for parent in parents(path):
            above = self.entries.get(parent)
            if above is not None and above.kind != "dir":
                return "has a parent that is not a folder"
        return None

    def with_files(self, files: Iterable[Entry]) -> Manifest:
        """This version with `files` in it, and the folders that they need (mode 0755)."""
        entries = dict(self.entries)
        for entry in files:
            for parent in parents(entry.path):
                if parent not in entries:
                    entries[parent] = Entry(parent, "dir", 0o755, mtime_ns=entry.mtime_ns, stored_ms=entry.stored_ms)
            entries[entry.path] = entry
        return Manifest.of(entries.values())

    def without(self, path: str) -> Manifest:
        """This version without one path."""
        return Manifest.of(entry for entry in self if entry.path != path)

    def encode(self) -> bytes:
        """Compressed JSON: `[format, rows]`, a row in field order."""
        rows = [astuple(entry) for entry in self]
        return zlib.compress(json.dumps([FORMAT, rows], separators=(",", ":")).encode("ascii"), 1)

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read what `encode` wrote. Errors: BadManifest."""
        try:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(data, MAX_DECODED)
            if unpacker.unconsumed_tail:
                raise BadManifest("too large")
            version, rows = json.loads(text)
            if version != FORMAT:
                raise BadManifest("of another format")
            return cls(MappingProxyType({row[0]: Entry(*row) for row in rows}))
        except (zlib.error, ValueError, TypeError, IndexError, KeyError) as error:
            raise BadManifest("unreadable") from error
