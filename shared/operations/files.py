"""The files of a session: list, probe, delete; and reading and writing them inline (exec.md A4, A7, A8)."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

from pydantic import Field, RootModel

from shared.domain.ids import file_id
from shared.domain.manifest import Entry, Manifest
from shared.errors import Code, Failure, invalid
from shared.operations import workspace
from shared.operations.base import Call, Model, Route, operation
from shared.operations.inputs import locate, verified
from shared.operations.media import content_type
from shared.operations.room import Room
from shared.operations.texts import bounded, check_path, rfc3339
from shared.operations.transfer import Incoming, UploadOutput, upload


class SessionId(Model):
    """A session."""

    session_id: str = Field(description="Id of the session.")
    detail: str | None = Field(None, description="Accepted for older clients; every detail has the same rows.")


class FileId(Model):
    """A file of a session."""

    session_id: str = Field(description="Id of the session.")
    file_id: str = Field(description="Id of the file, or its relative path in the session.")


class FileRow(Model):
    """One file of a session."""

    name: str = Field(description="Session id and file id, joined by a slash.")
    lastModified: str = Field(
        description="The later of the file's own time and the time at which it was stored, RFC 3339 in UTC."
    )
    id: str = Field(description="Id of the file.")
    session_id: str = Field(description="Session that holds the file.")
    storage_session_id: str = Field(description="The same session.")
    size: int = Field(description="Size in bytes.")
    contentType: str = Field(description="Media type, by the name.")
    metadata: dict[str, str] = Field(
        description="`original-filename`: the relative path in the session; `content-type`: the media type."
    )


class FileRows(RootModel[list[FileRow]]):
    """The files of a session, in bytewise order of their paths."""


class FileStat(Model):
    """What a freshness probe reads."""

    lastModified: str = Field(
        description="The later of the file's own time and the time at which it was stored, RFC 3339 in UTC."
    )
    originalFilename: str = Field(description="Relative path of the file in its session.")
    size: int = Field(description="Size in bytes.")
    contentType: str = Field(description="Media type, by the name.")


class Deleted(Model):
    """A deletion that was done."""

    message: str = Field(description="`success`.")
    id: str = Field(description="Id of the file that is gone.")


class FileContent(Model):
    """A file's content, inline."""

    name: str = Field(description="Relative path of the file.")
    size: int = Field(description="Size in bytes.")
    contentType: str = Field(description="Media type, by the name.")
    encoding: Literal["utf-8", "base64"] = Field(description="How `content` stands for the bytes.")
    content: str = Field(description="The bytes, as text or in standard Base64.")


class ReadInput(Model):
    """A file to read inline."""

    session_id: str = Field(description="Id of the session.")
    file_id: str = Field(description="Id of the file, or its relative path in the session.")
    encoding: Literal["utf-8", "base64"] | None = Field(
        None, description="How to answer; default: utf-8 where the bytes are such text, else base64."
    )


class WriteInput(Model):
    """A file to store, with its content inline."""

    name: str = Field(description="Relative path of the file in the session.")
    content: str = Field(description="The bytes, as text or in standard Base64; at most 4 MiB.")
    encoding: Literal["utf-8", "base64"] = Field("utf-8", description="How `content` stands for the bytes.")
    session_id: str | None = Field(None, description="Session to store it in; default: a new one.")
    read_only: bool = Field(False, description="Whether programs may not change it.")


@operation(
    "files.list",
    route=Route("GET", ("/v1/exec/files/{session_id}", "/v1/files/{session_id}")),
    errors=(Code.NOT_FOUND,),
)
def list_files(room: Room, call: Call, data: SessionId) -> FileRows:
    """List the files of a session. Regular files only, dotfiles too; links, folders and special files are left out.

    The listing is of the last finished run or upload: what a running program writes appears when it has ended.
    """
    opened = workspace.need(room, call.project, data.session_id)
    manifest = workspace.manifest_of(room, opened.head)
    return FileRows([_row(room, data.session_id, entry) for entry in manifest.listed])


@operation(
    "files.stat",
    route=Route(
        "GET",
        (
            "/v1/exec/sessions/{session_id}/objects/{file_id:path}",
            "/v1/sessions/{session_id}/objects/{file_id:path}",
        ),
    ),
    errors=(Code.NOT_FOUND,),
)
def stat_file(room: Room, call: Call, data: FileId) -> FileStat:
    """Tell when a file was last changed. Clients ask this before they use an upload of theirs again."""
    _, _, entry = _found(room, call, data.session_id, data.file_id)
    return FileStat(
        lastModified=rfc3339(entry.modified_ms),
        originalFilename=entry.path,
        size=entry.size,
        contentType=content_type(entry.path),
    )


@operation(
    "files.delete",
    route=Route("DELETE", ("/v1/exec/files/{session_id}/{file_id:path}", "/v1/files/{session_id}/{file_id:path}")),
    errors=(Code.NOT_FOUND, Code.BUSY),
)
def delete_file(room: Room, call: Call, data: FileId) -> Deleted:
    """Delete a file of a session. A read-only one too: only programs may not change those.

    While a run holds the session the deletion waits for it.
    """

    def edit(opened: workspace.Opened, manifest: Manifest) -> Manifest:
        entry = locate(room, opened.session, manifest, data.file_id)
        if entry is None:
            raise Failure(Code.NOT_FOUND, "No such file.")
        gone.append(entry.path)
        return manifest.without(entry.path)

    gone: list[str] = []
    workspace.change(room, call.project, data.session_id, edit)
    return Deleted(message="success", id=file_id(room.secret, data.session_id, gone[-1]))


@operation("files.read", errors=(Code.INVALID_REQUEST, Code.NOT_FOUND))
def read_file(room: Room, call: Call, data: ReadInput) -> FileContent:
    """Read a file of a session inline. At most 4 MiB; a larger file is downloaded over HTTP."""
    _, _, entry = _found(room, call, data.session_id, data.file_id)
    if entry.size > room.limits.typed_file_bytes:
        raise invalid("file_id", f"names a file of more than {room.limits.typed_file_bytes} bytes: download it")
    raw = verified(room, entry)
    encoding, content = _encoded(raw, data.encoding)
    return FileContent(
        name=entry.path, size=len(raw), contentType=content_type(entry.path), encoding=encoding, content=content
    )


@operation("files.write", errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.BUSY))
def write_file(room: Room, call: Call, data: WriteInput) -> UploadOutput:
    """Store a file with its content inline. At most 4 MiB; a larger one is uploaded over HTTP.

    A file of that name is replaced. `encoding` says how `content` stands for the bytes and is taken at its word.
    """
    check_path("name", data.name, room.limits)
    raw = _decoded(data)
    if len(raw) > room.limits.typed_file_bytes:
        raise invalid("content", f"must not be longer than {room.limits.typed_file_bytes} bytes")
    if data.session_id is not None:
        bounded("session_id", data.session_id, room.limits.label_bytes)
    with room.objects.stage() as stage:
        stage.write(raw)
        return upload(
            room,
            call,
            session_id=data.session_id,
            read_only=data.read_only,
            files=[Incoming(data.name, stage)],
            field="name",
        )


def _found(room: Room, call: Call, session: str, file: str) -> tuple[workspace.Opened, Manifest, Entry]:
    opened = workspace.need(room, call.project, session)
    manifest = workspace.manifest_of(room, opened.head)
    entry = locate(room, session, manifest, file)
    if entry is None:
        raise Failure(Code.NOT_FOUND, "No such file.")
    return opened, manifest, entry


def _row(room: Room, session: str, entry: Entry) -> FileRow:
    ident = file_id(room.secret, session, entry.path)
    kind = content_type(entry.path)
    return FileRow(
        name=f"{session}/{ident}",
        lastModified=rfc3339(entry.modified_ms),
        id=ident,
        session_id=session,
        storage_session_id=session,
        size=entry.size,
        contentType=kind,
        metadata={"original-filename": entry.path, "content-type": kind},
    )


def _encoded(raw: bytes, wanted: str | None) -> tuple[Any, str]:
    if wanted != "base64":
        try:
            return "utf-8", raw.decode("utf-8")
        except UnicodeDecodeError:
            if wanted is not None:
                raise invalid("encoding", "must be base64 for this file: it is not UTF-8 text") from None
    return "base64", base64.b64encode(raw).decode("ascii")


def _decoded(data: WriteInput) -> bytes:
    if data.encoding == "utf-8":
        try:
            return data.content.encode("utf-8")
        except UnicodeEncodeError:
            raise invalid("content", "must be valid Unicode text") from None
    try:
        raw = base64.b64decode(data.content, validate=True)
    except (binascii.Error, ValueError):
        raise invalid("content", "must be standard Base64") from None
    if base64.b64encode(raw).decode("ascii") != data.content:
        raise invalid("content", "must be standard Base64 in its canonical form")
    return raw
