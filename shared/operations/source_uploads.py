"""Source files that come in parts: OpenAI's `/v1/uploads` (agents.md 11.43).

    create ── parts, in any order and at once ── complete: one object, one transaction [file + "completed"]
                                              └─ cancel
    pending ──> completed | cancelled, or expired an hour after creation

An upload is a partition: its record, and one row a part. A part joins under a check of the record, so none joins what
has ended. Completing again with the same parts gives the same answer.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, Literal

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.domain.ids import digest, timed_id
from shared.errors import Code
from shared.operations import names
from shared.operations.base import Call, Model, Route, Sparse, admitted, operation
from shared.operations.room import Room
from shared.operations.sources import SourceFile, check_filename, check_purpose, find_source, new_source, shown
from shared.store.ports import Check, Conflict, Item, ObjectMissing, PutIf, PutNew, Stage, StoreUnavailable

_UPLOAD = re.compile(r"upload_[0-9a-f]{12}[A-Za-z0-9_-]{20}", re.ASCII)
_PART = re.compile(r"part_[0-9a-f]{12}[A-Za-z0-9_-]{20}", re.ASCII)
_MD5 = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)
_PARTS = "part/"


class SourceUploadRequest(Model):
    """A source file that is to come in parts."""

    bytes: int = Field(description="Size of the whole file in bytes; at most 512 MiB.")
    filename: str = Field(description="Name of the file.")
    mime_type: str = Field(description="Media type of the file; it is not kept.")
    purpose: str = Field(description="Must be `user_data`.")


class SourceUpload(Sparse):
    """An upload in parts."""

    id: str = Field(description="Id of the upload.")
    object: Literal["upload"] = Field("upload", description="Always `upload`.")
    bytes: int = Field(description="Size that the whole file will have, in bytes.")
    created_at: int = Field(description="When it was begun, in seconds since the epoch.")
    expires_at: int = Field(description="When it ends by itself, in seconds since the epoch.")
    filename: str = Field(description="Name that the file will have.")
    purpose: str = Field(description="Always `user_data`.")
    status: Literal["pending", "completed", "cancelled", "expired"] = Field(description="What has become of it.")
    file: SourceFile | None = Field(None, description="The file, once it is completed.")


class SourceUploadId(Model):
    """An upload in parts."""

    upload_id: str = Field(description="Id of the upload.")


class SourceUploadCompletion(Model):
    """The parts of an upload that make the file."""

    upload_id: str = Field(description="Id of the upload.")
    part_ids: list[str] = Field(description="Ids of the parts, in the order of their bytes.")
    md5: str | None = Field(None, description="MD5 that the whole file must have, in hexadecimal.")


class SourcePart(Model):
    """One part of an upload."""

    id: str = Field(description="Id of the part.")
    created_at: int = Field(description="When it was stored, in seconds since the epoch.")
    object: Literal["upload.part"] = Field("upload.part", description="Always `upload.part`.")
    upload_id: str = Field(description="Upload that it is a part of.")


def _invalid(message: str, param: str) -> Refusal:
    return Refusal(Fault.LOCAL, message, param=param)


@operation(
    "sources.begin_upload",
    route=Route("POST", ("/v1/uploads",), contract="agents"),
    errors=(Code.INVALID_REQUEST,),
)
def begin_upload(room: Room, call: Call, data: SourceUploadRequest) -> SourceUpload:
    """Begin to upload a source file in parts. The file exists once `sources.complete_upload` has joined them."""
    if not 0 <= data.bytes <= room.limits.source_bytes:
        raise _invalid(f"bytes must be between 0 and {room.limits.source_bytes}.", "bytes")
    try:
        check_filename(data.filename)
    except Refusal as refusal:
        raise _invalid(refusal.message, "filename") from None
    check_purpose(data.purpose)
    now = room.clock()
    ident = timed_id("upload_", now, os.urandom)
    row = {
        "name": data.filename,
        "size": data.bytes,
        "created": now,
        "until": now + room.limits.source_upload_ms,
        "status": "pending",
        "file": None,
        "parts": None,
    }
    made = PutNew(names.source_upload(call.project, ident), names.RECORD, row, _over(room, row))
    room.state.transact([made])
    return _shown(room, call.project, Item(made.partition, made.sort, 1, row))


def find_upload(room: Room, call: Call, upload_id: str) -> Item:
    """The record of an upload. Errors: 404."""
    project = admitted(call).project
    found = _UPLOAD.fullmatch(upload_id)
    item = room.state.get(names.source_upload(project, upload_id), names.RECORD) if found else None
    if item is None or room.clock() >= _over(room, item.attributes) * 1000:
        raise Refusal(Fault.FILE_NOT_FOUND, param="upload_id")
    return item


def look_up(room: Room, call: Call, data: dict[str, Any]) -> None:
    """The lookup that comes before anything else of a request is looked at (agents.md 1.1). Errors: 404."""
    ident = data.get("upload_id")
    if isinstance(ident, str):
        find_upload(room, call, ident)


def need_pending(room: Room, item: Item) -> None:
    """Require an upload that takes parts. Errors: 400."""
    status = _status(room, item.attributes)
    if status != "pending":
        raise _invalid(f"The upload is {status}.", "upload_id")


def add_part(room: Room, call: Call, upload_id: str, stage: Stage) -> SourcePart:
    """Store one part. Errors: 404; 400 where the upload has ended meanwhile."""
    item = find_upload(room, call, upload_id)
    need_pending(room, item)
    now = room.clock()
    ident = timed_id("part_", now, os.urandom)
    digest, size, key = stage.sha256, stage.size, f"{item.partition}/{ident}"
    stage.commit(key)
    row = {"key": key, "size": size, "sha256": digest, "created": now}
    over = _over(room, item.attributes)
    try:
        room.state.transact(
            [Check(item.partition, item.sort, item.version), PutNew(item.partition, _PARTS + ident, row, over)]
        )
    except Conflict:
        raise _invalid("The upload has ended.", "upload_id") from None
    return SourcePart(id=ident, created_at=now // 1000, upload_id=upload_id)


@operation(
    "sources.complete_upload",
    route=Route("POST", ("/v1/uploads/{upload_id}/complete",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
    lookup=look_up,
)
def complete_source_upload(room: Room, call: Call, data: SourceUploadCompletion) -> SourceUpload:
    """Join the parts of an upload into a source file. Repeating it with the same parts gives the same answer."""
    project = call.project
    item = find_upload(room, call, data.upload_id)
    row = item.attributes
    chosen = digest(*data.part_ids)
    if row["status"] == "completed" and row["parts"] == chosen:
        return _shown(room, project, item)
    need_pending(room, item)
    if data.md5 is not None and not _MD5.fullmatch(data.md5):
        raise _invalid("md5 must be 32 hexadecimal digits.", "md5")
    parts = _chosen(room, item, data.part_ids)
    if sum(part["size"] for part in parts) != row["size"]:
        raise _invalid("The parts do not have the size that the upload was begun with.", "part_ids")
    with room.objects.stage() as stage:
        md5 = _join(room, parts, stage)
        if data.md5 is not None and md5 != data.md5.lower():
            raise _invalid("The parts do not have the MD5 that was given.", "md5")
        ident, made = new_source(room, project, row["name"], stage)
    done = {**row, "status": "completed", "file": ident, "parts": chosen}
    try:
        room.state.transact([PutIf(item.partition, item.sort, item.version, done, _over(room, row)), made])
    except Conflict:
        return _lost(room, call, data.upload_id, chosen)
    return _shown(room, project, Item(item.partition, item.sort, item.version + 1, done))


@operation(
    "sources.cancel_upload",
    route=Route("POST", ("/v1/uploads/{upload_id}/cancel",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
    lookup=look_up,
)
def cancel_source_upload(room: Room, call: Call, data: SourceUploadId) -> SourceUpload:
    """Cancel an upload in parts. Its parts are removed; repeating it gives the same answer."""
    item = find_upload(room, call, data.upload_id)
    if item.attributes["status"] == "cancelled":
        return _shown(room, call.project, item)
    need_pending(room, item)
    ended = {**item.attributes, "status": "cancelled"}
    try:
        room.state.transact([PutIf(item.partition, item.sort, item.version, ended, _over(room, ended))])
    except Conflict:
        need_pending(room, find_upload(room, call, data.upload_id))
        raise StoreUnavailable("an upload changed without an end") from None
    return _shown(room, call.project, Item(item.partition, item.sort, item.version + 1, ended))


def _lost(room: Room, call: Call, upload_id: str, chosen: str) -> SourceUpload:
    """What a completion answers that another end of the upload overtook."""
    item = find_upload(room, call, upload_id)
    if item.attributes["status"] == "completed" and item.attributes["parts"] == chosen:
        return _shown(room, admitted(call).project, item)
    need_pending(room, item)
    raise StoreUnavailable("an upload changed without an end")


def _chosen(room: Room, item: Item, part_ids: list[str]) -> list[dict[str, Any]]:
    if len(set(part_ids)) != len(part_ids):
        raise _invalid("part_ids must not name a part twice.", "part_ids")
    if len(part_ids) > room.limits.source_parts:
        raise _invalid(f"part_ids must not be more than {room.limits.source_parts}.", "part_ids")
    found = []
    for ident in part_ids:
        part = room.state.get(item.partition, _PARTS + ident) if _PART.fullmatch(ident) else None
        if part is None:
            raise _invalid("part_ids names a part that this upload does not have.", "part_ids")
        found.append(part.attributes)
    return found


def _join(room: Room, parts: list[dict[str, Any]], stage: Stage) -> str:
    """Write the parts to a stage, each as it was stored; the MD5 of all. Errors: StoreUnavailable."""
    whole = hashlib.md5(usedforsecurity=False)
    for part in parts:
        hasher = hashlib.sha256()
        try:
            for piece in room.objects.read(part["key"]):
                hasher.update(piece)
                whole.update(piece)
                stage.write(piece)
        except ObjectMissing:
            raise StoreUnavailable("the bytes of a part are gone") from None
        if hasher.hexdigest() != part["sha256"]:
            raise StoreUnavailable("the bytes of a part are not as they were stored")
    return whole.hexdigest()


def _status(room: Room, row: dict[str, Any]) -> Literal["pending", "completed", "cancelled", "expired"]:
    if row["status"] == "pending" and room.clock() >= row["until"]:
        return "expired"
    found: Literal["pending", "completed", "cancelled"] = row["status"]
    return found


def _over(room: Room, row: dict[str, Any]) -> int:
    """When the record itself goes, in epoch seconds."""
    return int(row["created"] + room.limits.record_ms) // 1000 + 1


def _shown(room: Room, project: str, item: Item) -> SourceUpload:
    row = item.attributes
    file = None
    if row["file"] is not None:
        try:
            file = shown(find_source(room, project, row["file"]))
        except Refusal:
            file = None
    return SourceUpload(
        id=item.partition.rpartition("/")[2],
        bytes=row["size"],
        created_at=row["created"] // 1000,
        expires_at=row["until"] // 1000,
        filename=row["name"],
        purpose="user_data",
        status=_status(room, row),
        file=file,
    )


def parts_named(room: Room, owner: str) -> set[str]:
    """The objects that an upload's partition still names: its parts while it is pending. For the janitor."""
    item = room.state.get(owner, names.RECORD)
    if item is None or _status(room, item.attributes) != "pending":
        return set()
    keys: set[str] = set()
    after: str | None = None
    while page := room.state.query(owner, _PARTS, after=after, limit=500):
        keys |= {row.attributes["key"] for row in page}
        after = page[-1].sort
    return keys
