"""`files[]` of a run: which session it names, and copying what lies elsewhere (exec.md A8.3, A8.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from shared.domain.ids import file_id
from shared.domain.manifest import Entry, Manifest
from shared.errors import Code, Failure
from shared.operations.room import Room
from shared.operations.workspace import Opened, find, manifest_of, new_key, put_object


class Reference(Protocol):
    """What a run's `files[]` element names; `session` is its home, empty when it names none."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str | None: ...

    @property
    def session(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Input:
    """A live reference: its home, the file there, and the path at which the run wants it."""

    home: Opened
    entry: Entry
    path: str
    origin: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """The live references of a run, the last of each path, and the lines that stderr gets for the others.

    `home` is the session of the first live reference.
    """

    live: tuple[Input, ...]
    notes: tuple[str, ...]
    home: str | None


def locate(room: Room, session: str, manifest: Manifest, file: str) -> Entry | None:
    """A file of a session by its id, else by its relative path (exec.md A8.2)."""
    for entry in manifest:
        if entry.listed and file_id(room.secret, session, entry.path) == file:
            return entry
    return manifest.file(file)


def resolve(room: Room, project: str, references: Sequence[Reference]) -> Inputs:
    """Look every reference up. An unknown, foreign, expired or missing one gets one and the same line."""
    homes: dict[str, tuple[Opened, Manifest] | None] = {}
    notes: list[str] = []
    by_path: dict[str, Input] = {}
    order: list[Input] = []
    for reference in references:
        if reference.session not in homes:
            opened = find(room, project, reference.session)
            homes[reference.session] = None if opened is None else (opened, manifest_of(room, opened.head))
        home = homes[reference.session]
        entry = None if home is None else locate(room, reference.session, home[1], reference.id)
        if home is None or entry is None:
            notes.append(f"workroom: input file {shown(reference.name or reference.id)} is not available")
            continue
        path = reference.name or entry.path
        found = Input(
            home[0], entry, path, f"copy:{reference.session}/{file_id(room.secret, reference.session, entry.path)}"
        )
        if path in by_path:
            notes.append(f"workroom: input file {shown(path)} was named twice; the last one is used")
        by_path[path] = found
        order.append(found)
    live = tuple(found for found in order if by_path[found.path] is found)
    return Inputs(live, tuple(notes), order[0].home.session if order else None)


def shown(name: str) -> str:
    """A name as a line on stderr shows it: quoted, on one line, of bounded length."""
    text = name if len(name) <= 200 else name[:197] + "..."
    return '"' + "".join(char if char.isprintable() and char not in '"\\' else _escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii") if char not in '"\\' else "\\" + char


def bring(room: Room, opened: Opened, base: Manifest, inputs: Inputs) -> tuple[Manifest, list[str]]:
    """Copy what lies in other sessions (or under another name) into this one, by bytes.

    A path is taken when it is absent, or unchanged since it was copied from the same reference. Small files share one
    new object. Returns the version to run on, and lines for stderr. Errors: 400 above the workspace's limits.
    """
    notes: list[str] = []
    wanted: list[Input] = []
    for found in inputs.live:
        there = base.entries.get(found.path)
        if found.home.session == opened.session and found.path == found.entry.path:
            continue
        if there is not None and there.sha256 == found.entry.sha256 and there.kind == "file":
            continue
        if there is not None and there.origin != found.origin:
            notes.append(f"workroom: input file {shown(found.path)} was not copied: another file has that name")
        elif base.obstacle(found.path) is not None:
            notes.append(f"workroom: input file {shown(found.path)} was not copied: it {base.obstacle(found.path)}")
        else:
            wanted.append(found)
    if not wanted:
        return base, notes
    replaced = sum(base.entries[found.path].size for found in wanted if found.path in base.entries)
    if base.size - replaced + sum(found.entry.size for found in wanted) > room.limits.workspace_bytes:
        raise Failure(
            Code.INVALID_REQUEST, f"`files` would fill the workspace above {room.limits.workspace_bytes} bytes"
        )
    return base.with_files(_copied(room, opened, wanted)), notes


def _copied(room: Room, opened: Opened, wanted: Sequence[Input]) -> Iterator[Entry]:
    now = room.clock()
    pack = bytearray()
    small: list[Entry] = []
    for found in wanted:
        new = replace(found.entry, path=found.path, stored_ms=now, origin=found.origin, blob="", offset=0)
        if new.size == 0:
            yield new
        elif new.size <= room.limits.small_file_bytes:
            small.append(replace(new, offset=len(pack)))
            pack += verified(room, found.entry)
        else:
            key = new_key(opened)
            with room.objects.stage() as stage:
                for piece in room.objects.read(found.entry.blob, found.entry.offset, found.entry.size):
                    stage.write(piece)
                if stage.sha256 != found.entry.sha256:
                    raise Failure(Code.STORE_UNAVAILABLE)
                stage.commit(key)
            yield replace(new, blob=key)
    if small:
        key = put_object(room, opened, bytes(pack))
        yield from (replace(entry, blob=key) for entry in small)


def verified(room: Room, entry: Entry) -> bytes:
    """A small file's bytes, checked against its digest. Errors: 503 when the store does not have them."""
    data = b"".join(room.objects.read(entry.blob, entry.offset, entry.size)) if entry.size else b""
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise Failure(Code.STORE_UNAVAILABLE)
    return data
