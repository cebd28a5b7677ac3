"""Source files of a project, `/v1/files` (agents.md 7): one row each, and one immutable object.

The row lies in the project's partition under the file's id, which begins with its time: the rows are in the order of
creation. Deleting a file deletes its row; the janitor takes the object.
"""

from __future__ import annotations

import os
import re
from typing import Literal

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.domain.ids import timed_id
from shared.errors import Code
from shared.operations import names
from shared.operations.base import Call, Model, Route, admitted, operation
from shared.operations.room import Room
from shared.store.ports import Conflict, DeleteIf, Item, PutNew, Stage

PURPOSE = "user_data"
NAME_BYTES = 1_024
_ID = re.compile(r"file-[0-9a-f]{12}[A-Za-z0-9_-]{20}", re.ASCII)
_PAGE = 500


class SourceFile(Model):
    """A file that was uploaded to the project."""

    id: str = Field(description="Id of the file: `file-…`.")
    object: Literal["file"] = Field("file", description="Always `file`.")
    bytes: int = Field(description="Size in bytes.")
    created_at: int = Field(description="When it was stored, in seconds since the epoch.")
    filename: str = Field(description="Name that it was uploaded under.")
    purpose: Literal["user_data"] = Field("user_data", description="Always `user_data`.")
    status: Literal["processed"] = Field("processed", description="Always `processed`.")
    expires_at: int | None = Field(None, description="Always null: a file stays until it is deleted.")
    status_details: str | None = Field(None, description="Always null.")


class SourceFileId(Model):
    """A source file."""

    file_id: str = Field(description="Id of the file: `file-…`.")


class SourceFileDeleted(Model):
    """A source file that is gone."""

    id: str = Field(description="Id that the file had.")
    object: Literal["file"] = Field("file", description="Always `file`.")
    deleted: Literal[True] = Field(True, description="Always true.")


class SourceListInput(Model):
    """Which source files to list."""

    limit: int | None = Field(None, description="How many at most: 1 to 10,000; default: 10,000.")
    order: Literal["asc", "desc"] = Field("desc", description="By the time of creation; default: newest first.")
    after: str | None = Field(None, description="Id of the file that the page begins behind.")
    purpose: str | None = Field(None, description="Only files of this purpose: `user_data`; empty: all.")


class SourceList(Model):
    """One page of source files."""

    object: Literal["list"] = Field("list", description="Always `list`.")
    data: list[SourceFile] = Field(description="The files in the order that was asked for.")
    first_id: str | None = Field(description="Id of the first file of the page; null where it is empty.")
    last_id: str | None = Field(description="Id of the last file of the page; null where it is empty.")
    has_more: bool = Field(description="Whether more files follow.")


def missing(param: str = "id") -> Refusal:
    """The answer for a file that is not there: malformed, unknown and foreign ids have the same."""
    return Refusal(Fault.FILE_NOT_FOUND, param=param)


def find_source(room: Room, project: str, file_id: str, param: str = "id") -> Item:
    """The row of a file. Errors: 404."""
    item = room.state.get(names.project(project), names.source_row(file_id)) if _ID.fullmatch(file_id) else None
    if item is None:
        raise missing(param)
    return item


def shown(item: Item) -> SourceFile:
    """A file as it is answered."""
    row = item.attributes
    return SourceFile(
        id=item.sort.removeprefix(names.SOURCES),
        bytes=row["size"],
        created_at=row["created"] // 1000,
        filename=row["name"],
    )


def check_filename(name: str | None) -> str:
    """The name of a source file: 1 to 1,024 bytes of UTF-8 without NUL. Errors: 400."""
    try:
        size = len((name or "").encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    if name is None or not 1 <= size <= NAME_BYTES or "\0" in name:
        raise Refusal(Fault.LOCAL, f"filename must have 1 to {NAME_BYTES} bytes of UTF-8 without NUL.", param="file")
    return name


def check_purpose(purpose: str | None) -> None:
    """The only purpose of a new file. Errors: 400."""
    if purpose != PURPOSE:
        raise Refusal(Fault.LOCAL, f"purpose must be {PURPOSE}.", param="purpose")


def new_source(room: Room, project: str, name: str, stage: Stage) -> tuple[str, PutNew]:
    """Store the bytes of a new file: its id, and the action that makes it exist."""
    now = room.clock()
    ident = timed_id("file-", now, os.urandom)
    digest, size = stage.sha256, stage.size
    key = f"{names.source(project, ident)}/bytes"
    stage.commit(key)
    row = {"name": name, "size": size, "sha256": digest, "key": key, "created": now}
    return ident, PutNew(names.project(project), names.source_row(ident), row)


def create_source(room: Room, call: Call, name: str, stage: Stage) -> SourceFile:
    """Make a file of checked parts. Errors: StoreUnavailable."""
    project = admitted(call).project
    _, made = new_source(room, project, name, stage)
    room.state.transact([made])
    return shown(Item(made.partition, made.sort, 1, dict(made.attributes)))


@operation(
    "sources.get",
    route=Route("GET", ("/v1/files/{file_id}",), contract="agents"),
    errors=(Code.NOT_FOUND,),
)
def get_source(room: Room, call: Call, data: SourceFileId) -> SourceFile:
    """Get a source file of the project. What it holds is not part of the answer."""
    return shown(find_source(room, call.project, data.file_id))


@operation(
    "sources.list",
    route=Route("GET", ("/v1/files",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
)
def list_sources(room: Room, call: Call, data: SourceListInput) -> SourceList:
    """List the source files of the project. The next page begins behind `last_id`."""
    limit = 10_000 if data.limit is None else data.limit
    if not 1 <= limit <= 10_000:
        raise Refusal(Fault.UNCODED, "limit must be between 1 and 10000.")
    if data.purpose not in (None, "", PURPOSE):
        raise Refusal(Fault.UNCODED, f"purpose must be {PURPOSE}.", param="purpose")
    project = call.project
    after = None if data.after is None else find_source(room, project, data.after, "after").sort
    rows: list[Item] = []
    while len(rows) <= limit:
        page = room.state.query(
            names.project(project),
            names.SOURCES,
            after=after,
            limit=min(_PAGE, limit + 1 - len(rows)),
            descending=data.order == "desc",
        )
        if not page:
            break
        rows += page
        after = page[-1].sort
    files = [shown(row) for row in rows[:limit]]
    return SourceList(
        data=files,
        first_id=files[0].id if files else None,
        last_id=files[-1].id if files else None,
        has_more=len(rows) > limit,
    )


@operation(
    "sources.delete",
    route=Route("DELETE", ("/v1/files/{file_id}",), contract="agents"),
    errors=(Code.NOT_FOUND,),
)
def delete_source(room: Room, call: Call, data: SourceFileId) -> SourceFileDeleted:
    """Delete a source file of the project. What was copied from it before stays."""
    item = find_source(room, call.project, data.file_id)
    try:
        room.state.transact([DeleteIf(item.partition, item.sort, item.version)])
    except Conflict:
        raise missing() from None
    return SourceFileDeleted(id=data.file_id)
