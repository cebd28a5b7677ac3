"""Large uploads by grant: ask for one, put the bytes straight into the object store, join them to a session.

client   uploads.create(name, size, sha256) → grant     nothing of the session exists or changes yet
client   PUT bytes to the grant                          one immutable object, once
client   uploads.complete(id)                            [the session's next version + the record's "done"]
repeat   uploads.complete(id)                            the same answer; nothing changes
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from shared.domain.ids import is_short_id, short_id
from shared.domain.manifest import Entry
from shared.errors import Code, Failure, invalid
from shared.operations import names, workspace
from shared.operations.base import Call, Model, Route, operation
from shared.operations.room import Room
from shared.operations.texts import bounded, check_path
from shared.operations.transfer import Joining, UploadOutput, join, output
from shared.store.ports import Conflict, Item, PutIf, PutNew

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class UploadRequest(Model):
    """A file that is to be uploaded by grant."""

    name: str = Field(description="Relative path of the file in the session.")
    size: int = Field(ge=0, description="Size in bytes; at most 150 MiB.")
    sha256: str = Field(description="SHA-256 of the bytes, 64 lower-case hexadecimal digits.")
    session_id: str | None = Field(None, description="Session to join; default: a new one, opened on completion.")
    read_only: bool = Field(False, description="Whether programs may not change the file.")


class UploadGrant(Model):
    """Leave to put the bytes of one file."""

    upload_id: str = Field(description="Id to complete the upload with.")
    method: str = Field(description="HTTP method to send the bytes with.")
    url: str = Field(description="Where to send them: an address, or a path of this service. It is a secret.")
    headers: dict[str, str] = Field(description="Headers that have to be sent with the bytes, unchanged.")
    expires_at: int = Field(description="When the grant ends, in seconds since the epoch.")


class UploadId(Model):
    """An upload that was granted."""

    upload_id: str = Field(description="Id that the grant came with.")


@operation(
    "uploads.create",
    route=Route("POST", ("/v1/exec/uploads",)),
    status=201,
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
)
def create_upload(room: Room, call: Call, data: UploadRequest) -> UploadGrant:
    """Ask for leave to upload a large file. The bytes go straight to the object store.

    Send them to `url` with `method` and `headers` before `expires_at`, then complete the upload.
    """
    check_path("name", data.name, room.limits)
    if data.size > room.limits.upload_bytes:
        raise invalid("size", f"must be at most {room.limits.upload_bytes}")
    if _SHA256.fullmatch(data.sha256) is None:
        raise invalid("sha256", "must be 64 lower-case hexadecimal digits")
    project = call.project
    if data.session_id is None:
        opened = workspace.fresh(room, project)
    else:
        opened = workspace.need(room, project, bounded("session_id", data.session_id, room.limits.label_bytes))
    upload_id, key = short_id(os.urandom), workspace.new_key(opened)
    expires_at = (room.clock() + room.limits.grant_ms) // 1000
    row = {
        "session": opened.session,
        "new": data.session_id is None,
        "key": key,
        "name": data.name,
        "size": data.size,
        "sha256": data.sha256,
        "read_only": data.read_only,
        "created": room.clock(),
        "done": False,
    }
    over = (room.clock() + room.limits.record_ms) // 1000 + 1
    room.state.transact([PutNew(names.record(project, "upload", upload_id), names.RECORD, row, over)])
    grant = room.uploads.upload(key, size=data.size, sha256=data.sha256, expires_at=expires_at)
    return UploadGrant(
        upload_id=upload_id, method=grant.method, url=grant.url, headers=grant.headers, expires_at=grant.expires_at
    )


@operation(
    "uploads.complete",
    route=Route("POST", ("/v1/exec/uploads/{upload_id}/complete",)),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.BUSY),
)
def complete_upload(room: Room, call: Call, data: UploadId) -> UploadOutput:
    """Join an uploaded file to its session. Repeating it gives the same answer.

    While a run holds the session it waits for it.
    """
    project = call.project
    item = _record(room, project, data.upload_id)
    row = item.attributes
    entry = _entry(room, row)
    if not row["done"]:
        _arrived(room, row)
        opened = workspace.find(room, project, row["session"])
        if opened is None and row["new"]:
            opened = workspace.fresh(room, project, row["session"])
        if opened is None:
            raise Failure(Code.NOT_FOUND, "No such session.")
        over = (row["created"] + room.limits.record_ms) // 1000 + 1
        done = PutIf(item.partition, item.sort, item.version, {**row, "done": True}, over)
        # A lost condition means that another call completed this upload meanwhile: once is enough.
        with contextlib.suppress(Conflict):
            join(room, opened, Joining([entry], field="name"), [done])
    return output(room, row["session"], [entry])


def _record(room: Room, project: str, upload_id: str) -> Item:
    item = room.state.get(names.record(project, "upload", upload_id), names.RECORD) if is_short_id(upload_id) else None
    if item is None or room.clock() >= item.attributes["created"] + room.limits.record_ms:
        raise Failure(Code.NOT_FOUND, "No such upload.")
    return item


def _arrived(room: Room, row: Mapping[str, Any]) -> None:
    """Require the bytes. Errors: 400 while they are not there, or after they lay unclaimed for a grant's life.

    The janitor may take what nothing names, so only bytes are joined that are far from that age.
    """
    info = room.objects.head(row["key"])
    if info is None or info.size != row["size"]:
        raise Failure(Code.INVALID_REQUEST, "The bytes of this upload have not arrived.")
    if room.clock() - info.modified * 1000 > room.limits.grant_ms:
        raise Failure(Code.INVALID_REQUEST, "The bytes of this upload arrived too long ago; upload them anew.")


def _entry(room: Room, row: Mapping[str, Any]) -> Entry:
    now = room.clock()
    return Entry(
        row["name"],
        "file",
        0o444 if row["read_only"] else 0o644,
        size=row["size"],
        mtime_ns=now * 1_000_000,
        sha256=row["sha256"],
        blob=row["key"] if row["size"] else "",
        read_only=row["read_only"],
        stored_ms=now,
        origin="upload",
    )
