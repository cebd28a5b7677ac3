"""The routes of this contract: its typed operations, and those that carry a form or only refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from functions.api.agents.answers import answer
from functions.api.agents.body import BODY_BYTES, parse_object, read_raw
from functions.api.agents.content import artifact_handler
from functions.api.agents.form import SLACK_BYTES, OneFile
from functions.api.agents.params import path_params
from functions.api.agents.queries import BODILESS, KEYED, QUERIES, WAITING, body_bytes, idempotency_key
from functions.api.agents.streaming import CREATION, Streams, stream_handler
from functions.api.answers import output_bytes
from functions.api.bodies import Take, holding
from functions.api.disposition import boundary
from functions.api.headers import content_length
from functions.api.jsonbody import chunks
from functions.api.typed import AnyOperation, Handler, caller_of
from functions.api.workers import Workers
from shared.agents_errors import Fault, Refusal
from shared.errors import Code, Failure, invalid
from shared.operations.agents.requests.reading import unknown
from shared.operations.base import Call
from shared.operations.room import Room
from shared.operations.source_uploads import add_part, find_upload, need_pending
from shared.operations.sources import check_filename, check_purpose, create_source, find_source, missing


def typed_handler(operation: AnyOperation, room: Room, workers: Workers, streams: Streams) -> Handler:
    """The handler of one typed operation: `queries` says what HTTP adds to it."""
    assert operation.route is not None
    name = operation.name
    query = QUERIES.get(name)
    takes_body = operation.route.method == "POST" and name not in BODILESS

    async def handle(request: Request) -> Response:
        with holding(request.scope) as take:
            return await held(request, take)

    async def held(request: Request, take: Take) -> Response:
        params = path_params(request)
        body = await _body(request, workers, take, body_bytes(name)) if takes_body else {}
        key = idempotency_key(request.headers) if name in KEYED else None
        call = Call(caller_of(request), key)

        def read() -> dict[str, Any]:
            return {} if query is None else query.members(request.scope["query_string"])

        def work() -> BaseModel:
            asked = read() if query is not None and not query.parent_first else {}
            if operation.lookup is not None:
                operation.lookup(room, call, {**body, **params})
            asked = read() if query is not None and query.parent_first else asked
            return _run(operation, room, call, {**body, **asked}, params)

        async def run() -> BaseModel:
            return await (workers.slow(workers.writes, work) if name in WAITING else workers.quick(work))

        if name == CREATION and body.get("stream") is True:
            return await streams.created(call.project, run)
        output = await run()
        if not operation.output.model_fields:
            return Response(b"", operation.status)
        return answer(operation.status, output_bytes(output))

    return handle


async def _body(request: Request, workers: Workers, take: Take, limit: int) -> dict[str, Any]:
    """The object of a body. A large one is parsed in a thread. Errors: 400, 413, 429."""
    raw = await read_raw(request.headers, request.receive, take, limit)
    return parse_object(raw) if len(raw) <= BODY_BYTES else await workers.quick(parse_object, raw)


def _run(operation: AnyOperation, room: Room, call: Call, given: dict[str, Any], params: dict[str, str]) -> BaseModel:
    """Run an operation. An unknown member is refused, also one that only the path has; a wrong one is named."""
    try:
        for member in given:
            if member in params:
                raise (
                    unknown(member)
                    if operation.reader is not None
                    else invalid(member, "is not a member of this input")
                )
        output: BaseModel = operation.run(room, call, operation.parse({**given, **params}))
    except Refusal:
        raise
    except Failure as failure:
        if failure.code is Code.INVALID_REQUEST and failure.field is not None:
            raise Refusal(Fault.LOCAL, failure.message, param=failure.field) from None
        raise
    return output


async def _received(request: Request, workers: Workers, form: OneFile) -> None:
    async for chunk in chunks(request.receive):
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


def named_handlers(room: Room, workers: Workers, streams: Streams) -> Mapping[str, Handler]:
    """The handlers of the routes that are served by name."""
    return {
        "sources.create": create_handler(room, workers),
        "sources.content": content_handler(room, workers),
        "sources.add_part": part_handler(room, workers),
        "artifacts.content": artifact_handler(room, workers),
        "events.stream": stream_handler(streams),
    }
