"""Bytes into and out of a session: what the multipart upload, the grant and the download share (exec.md A4, A7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from shared.domain.ids import file_id
from shared.domain.manifest import Draft, Entry, Manifest
from shared.errors import Code, Failure, invalid
from shared.limits import Limits
from shared.operations import workspace
from shared.operations.base import Call, Sparse, admitted
from shared.operations.inputs import locate
from shared.operations.media import content_type
from shared.operations.room import Room
from shared.operations.texts import check_path
from shared.operations.workspace import Opened
from shared.store.ports import Action, DigestMismatch, Stage


class UploadedFile(Sparse):
    """One file of an upload."""

    fileId: str | None = Field(None, description="Id of the file; left out where it was refused.")
    filename: str = Field(description="Relative path under which it is stored.")
    id: str | None = Field(None, description="The same id.")
    name: str = Field(description="The same path.")
    size: int = Field(description="Size in bytes.")
    status: str | None = Field(None, description="Of a batch: success or error.")
    error: str | None = Field(None, description="Why it was refused.")


class UploadOutput(Sparse):
    """What an upload stored."""

    message: str = Field(description="success; of a batch also partial_success or error.")
    session_id: str = Field(description="Session that holds the files.")
    storage_session_id: str = Field(description="The same session.")
    files: list[UploadedFile] = Field(
        description="The stored files in the order in which they came, then the refused ones."
    )
    succeeded: int | None = Field(None, description="Of a batch: how many were stored.")
    failed: int | None = Field(None, description="Of a batch: how many were refused.")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A file on its way in: a checked name, and its bytes, wholly written to a stage."""

    name: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class Download:
    """A file on its way out. `pieces` ends with DigestMismatch when the store does not give back what was stored."""

    name: str
    size: int
    content_type: str
    modified_ms: int
    sha256: str
    entry: Entry

    def pieces(self, room: Room, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `start`. A whole read is verified at its end; a part of a file cannot be."""
        wanted = self.size - start if length is None else length
        if wanted == 0:
            return
        hasher = hashlib.sha256()
        for piece in room.objects.read(self.entry.blob, self.entry.offset + start, wanted):
            hasher.update(piece)
            yield piece
        if wanted == self.size and hasher.hexdigest() != self.sha256:
            raise DigestMismatch


def check_name(name: str, limits: Limits) -> str:
    """The name of an uploaded file: a canonical relative path. Errors: 400."""
    return check_path("filename", name, limits)


def check_session(room: Room, call: Call, session_id: str) -> None:
    """Refuse an unknown session before any byte is read. Errors: 404."""
    workspace.need(room, admitted(call).project, session_id)


def upload(
    room: Room,
    call: Call,
    *,
    session_id: str | None,
    read_only: bool,
    files: Sequence[Incoming],
    batch: bool = False,
    refused: Sequence[tuple[str, str]] = (),
    field: str = "filename",
) -> UploadOutput:
    """Store files in a session, all in one version. `session_id` None opens a new session.

    `refused` are (name, why) of files of a `batch` that the door turned away; those that a folder is in the way of join
    them. A file of the same name is replaced; of two with one name the last wins. `field` is the member that a refusal
    names. Errors: 400 where nothing is left to store, or a folder or a limit of the workspace is in the way; 404; 409.
    """
    project = admitted(call).project
    if not files:
        raise Failure(Code.INVALID_REQUEST, _why_none(refused))
    opened = workspace.fresh(room, project) if session_id is None else workspace.need(room, project, session_id)
    now = room.clock()
    plan = Joining([_entry(one, "", now, read_only) for one in files], field=field, partial=batch)
    plan.onto(room, workspace.manifest_of(room, opened.head))
    stored: list[Entry] = []
    for one in files:
        key = workspace.new_key(opened) if one.stage.size else ""
        if key:
            one.stage.commit(key)
        stored.append(_entry(one, key, now, read_only))
    plan = Joining(stored, field=field, partial=batch)
    join(room, opened, plan)
    return output(room, opened.session, plan.joined, batch=batch, refused=[*refused, *plan.refused])


class Joining:
    """Files on their way into a session. Where they are `partial`, one that is in the way is refused alone.

    After `onto`, `joined` are the files that went in and `refused` the (name, why) of the others.
    """

    def __init__(self, files: Sequence[Entry], *, field: str, partial: bool = False) -> None:
        self._files = files
        self._field = field
        self._partial = partial
        self.joined: list[Entry] = []
        self.refused: list[tuple[str, str]] = []

    def onto(self, room: Room, manifest: Manifest) -> Manifest:
        """The version with the files in it. Errors: 400 naming what is in the way."""
        draft = Draft(manifest)
        self.joined, self.refused = [], []
        for entry in self._files:
            obstacle = draft.obstacle(entry.path)
            if obstacle is None:
                draft.put(entry)
                self.joined.append(entry)
            elif self._partial:
                self.refused.append((entry.path, f"`{self._field}` {obstacle}"))
            else:
                raise invalid(self._field, obstacle)
        if not self.joined:
            raise Failure(Code.INVALID_REQUEST, _why_none(self.refused))
        above = workspace.excess(room.limits, entries=len(draft), size=draft.size, names=draft.names)
        if above is not None:
            raise Failure(Code.INVALID_REQUEST, f"`file` would fill the workspace above {above}")
        return draft.done()


def join(room: Room, opened: Opened, files: Joining, also: Sequence[Action] = ()) -> None:
    """Commit stored files to a session, in one transaction with `also`: a new one's first version, or the next.

    Errors: 400; 404; 409 busy; Conflict, when one of `also` lost or the new session is there already.
    """
    if opened.version == 0:
        workspace.commit_run(room, opened, files.onto(room, Manifest()), also)
    else:
        workspace.change(room, opened.project, opened.session, lambda _, manifest: files.onto(room, manifest), also)


def output(
    room: Room,
    session: str,
    stored: Sequence[Entry],
    *,
    batch: bool = False,
    refused: Sequence[tuple[str, str]] = (),
) -> UploadOutput:
    """The answer of exec.md A7. A batch also has the outcome of every file; with refusals it is a partial success."""
    success = "success" if batch else None
    rows = []
    for entry in stored:
        ident = file_id(room.secret, session, entry.path)
        rows.append(
            UploadedFile(fileId=ident, filename=entry.path, id=ident, name=entry.path, size=entry.size, status=success)
        )
    rows += [
        UploadedFile(fileId=None, filename=name, id=None, name=name, size=0, status="error", error=why)
        for name, why in refused
    ]
    return UploadOutput(
        message="partial_success" if refused else "success",
        session_id=session,
        storage_session_id=session,
        files=rows,
        succeeded=len(stored) if batch else None,
        failed=len(refused) if batch else None,
    )


def open_file(room: Room, call: Call, session_id: str, file: str) -> Download:
    """Find a file to download, by id or relative path. Errors: 404."""
    opened = workspace.need(room, admitted(call).project, session_id)
    entry = locate(room, session_id, workspace.manifest_of(room, opened.head), file)
    if entry is None:
        raise Failure(Code.NOT_FOUND, "No such file.")
    return Download(entry.path, entry.size, content_type(entry.path), entry.modified_ms, entry.sha256, entry)


def _why_none(refused: Sequence[tuple[str, str]]) -> str:
    return refused[0][1] if refused else "`file` is required"


def _entry(one: Incoming, key: str, now: int, read_only: bool) -> Entry:
    return Entry(
        one.name,
        "file",
        0o444 if read_only else 0o644,
        size=one.stage.size,
        mtime_ns=now * 1_000_000,
        sha256=one.stage.sha256,
        blob=key,
        read_only=read_only,
        stored_ms=now,
        origin="upload",
    )
