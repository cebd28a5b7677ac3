"""Bytes into and out of a session: what the multipart upload, the grant and the download share (exec.md A4, A7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from shared.domain.ids import file_id
from shared.domain.manifest import Entry, Manifest
from shared.errors import Code, Failure, invalid
from shared.limits import Limits
from shared.operations import workspace
from shared.operations.base import Call, Sparse, admitted
from shared.operations.inputs import locate
from shared.operations.media import content_type
from shared.operations.room import Room
from shared.operations.texts import check_path
from shared.operations.workspace import Opened
from shared.store.ports import DigestMismatch, Stage


class UploadedFile(Sparse):
    """One file of an upload."""

    fileId: str = Field(description="Id of the file; empty where it was refused.")
    filename: str = Field(description="Relative path under which it is stored.")
    id: str = Field(description="The same id.")
    name: str = Field(description="The same path.")
    size: int = Field(description="Size in bytes.")
    status: str | None = Field(None, description="Of a batch: success or error.")
    error: str | None = Field(None, description="Why it was refused.")


class UploadOutput(Sparse):
    """What an upload stored."""

    message: str = Field(description="success; of a batch also partial_success or error.")
    session_id: str = Field(description="Session that holds the files.")
    storage_session_id: str = Field(description="The same session.")
    files: list[UploadedFile] = Field(description="The files, in the order in which they came.")
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
) -> UploadOutput:
    """Store files in a session, all in one version. `session_id` None opens a new session.

    `refused` are (name, why) of files of a `batch` that the door turned away. A file of the same name is replaced; of
    two with one name the last wins. Errors: 400 where a folder or a limit of the workspace is in the way; 404; 409.
    """
    project = admitted(call).project
    if not files:
        raise Failure(Code.INVALID_REQUEST, _why_none(refused))
    opened = workspace.fresh(room, project) if session_id is None else workspace.need(room, project, session_id)
    now = room.clock()
    _fits(room, workspace.manifest_of(room, opened.head), [_entry(one, "", now, read_only) for one in files])
    stored: list[Entry] = []
    for one in files:
        key = workspace.new_key(opened) if one.stage.size else ""
        if key:
            one.stage.commit(key)
        stored.append(_entry(one, key, now, read_only))
    join(room, opened, stored)
    return output(room, opened.session, stored, batch=batch, refused=refused)


def join(room: Room, opened: Opened, stored: Sequence[Entry]) -> None:
    """Commit stored files to a session: a new one with its first version, another by its next."""
    if opened.version == 0:
        workspace.commit_run(room, opened, _fits(room, Manifest(), stored))
    else:
        workspace.change(room, opened.project, opened.session, lambda _, manifest: _fits(room, manifest, stored))


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
        UploadedFile(fileId="", filename=name, id="", name=name, size=0, status="error", error=why)
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


def _fits(room: Room, manifest: Manifest, files: Sequence[Entry]) -> Manifest:
    """The version with the files in it, or 400 naming what is in the way."""
    for entry in files:
        obstacle = manifest.obstacle(entry.path)
        if obstacle is not None:
            raise invalid("filename", obstacle)
        manifest = manifest.with_files([entry])
    if manifest.size > room.limits.workspace_bytes:
        raise Failure(
            Code.INVALID_REQUEST, f"`file` would fill the workspace above {room.limits.workspace_bytes} bytes"
        )
    if len(manifest) > room.limits.workspace_entries:
        raise Failure(
            Code.INVALID_REQUEST, f"`file` would fill the workspace above {room.limits.workspace_entries} entries"
        )
    return manifest
