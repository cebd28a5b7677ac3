"""`files[]` of a run: which session it names, and copying what lies elsewhere (exec.md A8.3, A8.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from shared.domain.ids import file_id, is_short_id
from shared.domain.manifest import Draft, Entry, Manifest
from shared.errors import Code, Failure
from shared.operations.room import Room
from shared.operations.workspace import Opened, excess, find, manifest_of, new_key, put_object
from shared.store.ports import ObjectMissing


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
    if is_short_id(file):
        for entry in manifest:
            if entry.listed and file_id(room.secret, session, entry.path) == file:
                return entry
    return manifest.file(file)


class _Home:
    """A session that references name, looked up once; its ids are computed once, when the first is asked for."""

    def __init__(self, room: Room, project: str, session: str) -> None:
        self._room = room
        self._ids: dict[str, Entry] | None = None
        self.opened = find(room, project, session)
        self._manifest = Manifest() if self.opened is None else manifest_of(room, self.opened.head)

    def locate(self, file: str) -> Entry | None:
        """As `locate`."""
        if self.opened is not None and is_short_id(file):
            if self._ids is None:
                secret, session = self._room.secret, self.opened.session
                self._ids = {file_id(secret, session, entry.path): entry for entry in self._manifest.listed}
            if file in self._ids:
                return self._ids[file]
        return self._manifest.file(file)


def resolve(room: Room, project: str, references: Sequence[Reference]) -> Inputs:
    """Look every reference up. An unknown, foreign, expired or missing one gets one and the same line.

    A reference whose name a later one takes is as if it had not been sent, also for the choice of the session: so
    the file that loses stays as it is in its own session.
    """
    homes: dict[str, _Home] = {}
    notes: list[str] = []
    by_path: dict[str, Input] = {}
    for reference in references:
        home = homes.get(reference.session)
        if home is None:
            home = homes[reference.session] = _Home(room, project, reference.session)
        entry = home.locate(reference.id)
        if home.opened is None or entry is None:
            notes.append(f"workroom: input file {shown(reference.name or reference.id)} is not available")
            continue
        path = reference.name or entry.path
        origin = f"copy:{reference.session}/{file_id(room.secret, reference.session, entry.path)}"
        before = by_path.pop(path, None)
        if before is not None and before.origin != origin:
            notes.append(f"workroom: input file {shown(path)} was named twice; the last one is used")
        by_path[path] = Input(home.opened, entry, path, origin)
    live = tuple(by_path.values())
    return Inputs(live, tuple(notes), live[0].home.session if live else None)


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
    if not inputs.live:
        return base, []
    notes: list[str] = []
    wanted: list[Input] = []
    draft = Draft(base)
    for reference in inputs.live:
        found = reference
        if found.home.session == opened.session:
            # A run that went before while this one waited for the lock may have changed or removed it.
            present = base.file(found.entry.path)
            if present is None:
                notes.append(f"workroom: input file {shown(found.path)} is not available")
                continue
            found = replace(found, entry=present)
        there = base.entries.get(found.path)
        if there is not None and there.kind == "file" and there.sha256 == found.entry.sha256:
            continue
        if there is not None and there.origin != found.origin:
            notes.append(f"workroom: input file {shown(found.path)} was not copied: another file has that name")
        elif (why := draft.obstacle(found.path)) is not None:
            notes.append(f"workroom: input file {shown(found.path)} was not copied: it {why}")
        else:
            draft.put(found.entry._replace(path=found.path))
            wanted.append(found)
    if not wanted:
        return base, notes
    above = excess(room.limits, entries=len(draft), size=draft.size, names=draft.names)
    if above is not None:
        raise Failure(Code.INVALID_REQUEST, f"`files` would fill the workspace above {above}")
    for entry in _copied(room, opened, wanted):
        draft.put(entry)
    return draft.done(), notes


def _copied(room: Room, opened: Opened, wanted: Sequence[Input]) -> Iterator[Entry]:
    now = room.clock()
    pack = bytearray()
    small: list[Entry] = []
    for found in wanted:
        new = found.entry._replace(path=found.path, stored_ms=now, origin=found.origin, blob="", offset=0)
        if new.size == 0:
            yield new
        elif new.size <= room.limits.small_file_bytes:
            small.append(new._replace(offset=len(pack)))
            pack += verified(room, found.entry)
        else:
            key = new_key(opened)
            with room.objects.stage() as stage:
                for piece in _bytes_of(room, found.entry):
                    stage.write(piece)
                if stage.sha256 != found.entry.sha256:
                    raise Failure(Code.STORE_UNAVAILABLE)
                stage.commit(key)
            yield new._replace(blob=key)
    if small:
        key = put_object(room, opened, bytes(pack))
        yield from (entry._replace(blob=key) for entry in small)


def _bytes_of(room: Room, entry: Entry) -> Iterator[bytes]:
    """A file's bytes, unchecked. Errors: 503 where the store does not have them."""
    if entry.size == 0:
        return iter(())
    try:
        return room.objects.read(entry.blob, entry.offset, entry.size)
    except ObjectMissing as error:
        raise Failure(Code.STORE_UNAVAILABLE) from error


def verified(room: Room, entry: Entry) -> bytes:
    """A small file's bytes, checked against its digest. Errors: 503 when the store does not have them."""
    data = b"".join(_bytes_of(room, entry))
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise Failure(Code.STORE_UNAVAILABLE)
    return data
