"""The routes of this contract: its typed operations, and those that carry a form or only refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from functions.api.addresses import decoded
from functions.api.agents.answers import answer
from functions.api.agents.body import read_object
from functions.api.agents.form import SLACK_BYTES, OneFile
from functions.api.agents.lists import read_files_query
from functions.api.agents.query import pairs_of
from functions.api.answers import output_bytes
from functions.api.disposition import boundary
from functions.api.headers import content_length
from functions.api.transfers import _chunks
from functions.api.typed import AnyOperation, Handler, caller_of
from functions.api.workers import Workers
from shared.agents_errors import Fault, Refusal
from shared.errors import Code, Failure
from shared.operations.base import Call
from shared.operations.room import Room
from shared.operations.source_uploads import add_part, find_upload, need_pending
from shared.operations.sources import check_filename, check_purpose, create_source, find_source, missing

_WAITING = ("sources.complete_upload",)
_BODILESS = ("sources.cancel_upload",)


def typed_handler(operation: AnyOperation, room: Room, workers: Workers) -> Handler:
    """The handler of one typed operation."""
    assert operation.route is not None
    method = operation.route.method

    async def handle(request: Request) -> Response:
        params = path_params(request)
        given: dict[str, Any] = {}
        if operation.name == "sources.list":
            page = read_files_query(pairs_of(request.scope["query_string"]))
            given = {"limit": page.limit, "order": page.order, "after": page.after, **page.filters}
        elif method == "POST" and operation.name not in _BODILESS:
            given = await read_object(request.headers, request.receive)
        if method == "POST" and "upload_id" in params:
            # The lookup comes before what is asked of it is looked at (agents.md 1.1).
            await workers.quick(find_upload, room, Call(caller_of(request)), params["upload_id"])

        def work() -> bytes:
            output: BaseModel = _run(operation, room, Call(caller_of(request)), {**given, **params})
            return output_bytes(output)

        if operation.name in _WAITING:
            body = await workers.slow(workers.writes, work)
        else:
            body = await workers.quick(work)
        return answer(operation.status, body)

    return handle


def path_params(request: Request) -> dict[str, str]:
    """The members of the path. What no id can be stays a text that none is."""
    try:
        return decoded(request.path_params)
    except Failure:
        return dict.fromkeys(request.path_params, "")


def _run(operation: AnyOperation, room: Room, call: Call, data: dict[str, Any]) -> BaseModel:
    """Run an operation. An unknown member is refused; a wrong one is named."""
    try:
        output: BaseModel = operation.call_with(room, call, data)
    except Refusal:
        raise
    except Failure as failure:
        if failure.code is Code.INVALID_REQUEST and failure.field is not None:
            raise Refusal(Fault.LOCAL, failure.message, param=failure.field) from None
        raise
    return output


async def _received(request: Request, workers: Workers, form: OneFile) -> None:
    async for chunk in _chunks(request):
        await workers.quick(form.feed, chunk)


def _announced(request: Request, most: int) -> None:
    size = content_length(request.headers)
    if size is not None and size > most + SLACK_BYTES:
        raise Refusal(Fault.TOO_LARGE)


def create_handler(room: Room, workers: Workers) -> Handler:
    """`POST /files`."""

    async def handle(request: Request) -> Response:
        mark = boundary(request.headers.get("content-type"))
        most = room.limits.source_bytes
        _announced(request, most)
        form = OneFile(mark, room, part="file", fields=("purpose",), most=most)

        def store() -> bytes:
            stage = form.finish()
            check_purpose(form.values["purpose"])
            return output_bytes(create_source(room, Call(caller_of(request)), check_filename(form.filename), stage))

        try:
            await _received(request, workers, form)
            return answer(200, await workers.slow(workers.writes, store))
        finally:
            await workers.finish(form.close)

    return handle


def part_handler(room: Room, workers: Workers) -> Handler:
    """`POST /uploads/{upload_id}/parts`: the upload is looked up before its body is read."""

    async def handle(request: Request) -> Response:
        ident = path_params(request)["upload_id"]
        call = Call(caller_of(request))
        item = await workers.quick(find_upload, room, call, ident)
        need_pending(room, item)
        mark = boundary(request.headers.get("content-type"))
        most = room.limits.source_part_bytes
        _announced(request, most)
        form = OneFile(mark, room, part="data", fields=(), most=most)

        def store() -> bytes:
            return output_bytes(add_part(room, call, ident, form.finish()))

        try:
            await _received(request, workers, form)
            return answer(200, await workers.slow(workers.writes, store))
        finally:
            await workers.finish(form.close)

    return handle


def content_handler(room: Room, workers: Workers) -> Handler:
    """`GET /files/{file_id}/content`: 404, then 400, for a file of this purpose is never given back."""

    async def handle(request: Request) -> Response:
        caller = caller_of(request)
        if caller is None:
            raise missing()
        await workers.quick(find_source, room, caller.project, path_params(request)["file_id"])
        raise Refusal(Fault.UNCODED, "Not allowed to download files of purpose: user_data")

    return handle


def named_handlers(room: Room, workers: Workers) -> Mapping[str, Handler]:
    """The handlers of the routes that are served by name."""
    return {
        "sources.create": create_handler(room, workers),
        "sources.content": content_handler(room, workers),
        "sources.add_part": part_handler(room, workers),
    }
