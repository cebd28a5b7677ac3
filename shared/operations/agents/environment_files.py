"""The files of an Environment: list one directory, write one new file (agents.md 3, 4).

list     lookup ─ [query] ─ limit ─ order ─ path ─ page ─ state ─ one directory of the manifest, read without a lock
create   lookup ─ body ─ state ─ source file ─ its size ─ gate ─ the attempt (`writing`)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.domain.agents import envpaths, listing
from shared.domain.agents.listing import Order
from shared.domain.agents.refusals import Reason, Refused
from shared.errors import Code
from shared.operations.agents.reaching import find_environment, usable_environment, workspace_of
from shared.operations.agents.requests.file_create import read_file_create
from shared.operations.agents.requests.files import FileRequest
from shared.operations.agents.requests.reading import may_echo
from shared.operations.agents.session import missing, need_environment, refusal
from shared.operations.agents.writing import Incoming, write
from shared.operations.base import Call, Model, Raw, Route, operation
from shared.operations.room import Room
from shared.operations.sources import find_source
from shared.operations.workspace import manifest_of
from shared.store.ports import StoreUnavailable

FILE_BYTES = 50 * 1024 * 1024
"""Bytes of a source file that can be copied into an Environment (row 11)."""
_PER_PAGE = 20
_ROUTE = ("/v1/agents/environments/{environment_id}/files",)


class FilesInput(Model):
    """Which files to list."""

    environment_id: str = Field(description="Id of the Environment: `env_…`.")
    path: str | None = Field(None, description="Absolute directory at or below `/workspace`; default: `/workspace`.")
    limit: int | None = Field(None, description="How many files at most: 1 to 100; default: 20.")
    order: str | None = Field(None, description="By path, `asc` or `desc`; default: `desc`.")
    page: str | None = Field(None, description="Page to continue with: `next` of the page before.")


class EnvironmentFile(Model):
    """A file of an Environment."""

    environment_id: str = Field(description="Id of the Environment: `env_…`.")
    object: Literal["agent.environment.file"] = Field(
        "agent.environment.file", description="Always `agent.environment.file`."
    )
    path: str = Field(description="Absolute path inside `/workspace`.")
    size_bytes: int = Field(description="Size in bytes.")


class FilePage(Model):
    """One page of a directory's regular files."""

    object: Literal["page"] = Field("page", description="Always `page`.")
    data: list[EnvironmentFile] = Field(description="The files in the order that was asked for.")
    next: str | None = Field(description="Token of the next page, for the same request; null where none follows.")
    has_more: bool = Field(description="Whether more files follow.")


class FileInput(Raw):
    """A file to write into an Environment."""

    environment_id: str = Field(description="Id of the Environment: `env_…`.")
    type: Literal["inline", "file_id"] = Field(description="Where the bytes come from: `data` or `file_id`.")
    path: str = Field(description="Absolute path inside `/workspace` at which nothing stands yet.")
    data: str = Field("", description="The bytes in standard Base64, at most 5 MiB; only for `inline`.")
    file_id: str = Field("", description="Source file of at most 50 MiB, which is copied; only for `file_id`.")


@contextmanager
def _answering() -> Iterator[None]:
    """A rule that refuses is answered as the contract says."""
    try:
        yield
    except Refused as refused:
        raise refusal(refused) from None


@operation(
    "environments.list_files",
    route=Route("GET", _ROUTE, contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.EXECUTOR_UNAVAILABLE),
    lookup=find_environment,
)
def list_environment_files(room: Room, call: Call, data: FilesInput) -> FilePage:
    """List the regular files right below one directory of an Environment. No link is followed.

    A page's `next` is good for the same request, for as long as no name or size in the directory changes.
    """
    limit, order = _limit(data.limit), _order(data.order)
    with _answering():
        directory = envpaths.directory(envpaths.ROOT if data.path is None else data.path)
        asked = listing.Request(call.project, data.environment_id, directory, limit, order)
        token = None if data.page is None else listing.read_token(data.page, asked)
        found = usable_environment(room, call.project, data.environment_id)
        try:
            manifest = manifest_of(room, workspace_of(room, found).head)
        except StoreUnavailable as error:
            # Row 10: a workspace that cannot be read is no page, not even an empty one. A deleted one is 404.
            need_environment(room, call.project, data.environment_id)
            raise Refusal(Fault.EXECUTION_UNAVAILABLE) from error
        page = listing.page(listing.children(manifest, directory), asked, token)
    return FilePage(
        data=[_shown(data.environment_id, envpaths.shown(entry.path), entry.size) for entry in page.files],
        next=page.next,
        has_more=page.next is not None,
    )


def _limit(limit: int | None) -> int:
    if limit is None:
        return _PER_PAGE
    if not 1 <= limit <= 100:
        raise Refusal(Fault.INVALID, "limit must be between 1 and 100")
    return limit


def _order(order: str | None) -> Order:
    if order is None or order == "desc":
        return "desc"
    if order == "asc":
        return "asc"
    shown = order if may_echo(order) else "..."
    raise Refusal(
        Fault.INVALID, f"Failed to deserialize query string: order: unknown variant `{shown}`, expected `asc` or `desc`"
    )


def _shown(environment: str, path: str, size: int) -> EnvironmentFile:
    return EnvironmentFile(environment_id=environment, path=path, size_bytes=size)


@operation(
    "environments.create_file",
    route=Route("POST", _ROUTE, contract="agents"),
    status=201,
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.BUSY, Code.TOO_LARGE, Code.EXECUTOR_UNAVAILABLE),
    lookup=find_environment,
    reader=FileInput.read,
)
def create_environment_file(room: Room, call: Call, data: FileInput) -> EnvironmentFile:
    """Write one new file into an Environment. Nothing that is there is replaced; missing folders are made.

    It waits for nothing: while a Turn is active, input is pending or another write is not settled it is refused. An
    answer 503 may leave the write unsettled, which an operator has to look at.
    """
    project = call.project
    request = read_file_create(data.sent("environment_id"))
    with _answering():
        found = usable_environment(room, project, data.environment_id)
        incoming = _incoming(room, project, request)
        write(room, found, incoming)
    return _shown(data.environment_id, request.shown, incoming.size)


def _incoming(room: Room, project: str, request: FileRequest) -> Incoming:
    """What is to be written (rows 10 and 11). Errors: 404; Refused."""
    if request.file_id is None:
        raw = request.data or b""
        return Incoming(request.path, len(raw), hashlib.sha256(raw).hexdigest(), lambda: (raw,))
    try:
        row = find_source(room, project, request.file_id).attributes
    except Refusal:
        raise missing() from None
    if row["size"] > FILE_BYTES:
        raise Refused(Reason.FULL)

    def pieces() -> Iterable[bytes]:
        return room.objects.read(row["key"])

    return Incoming(request.path, row["size"], row["sha256"], pieces)
