"""The routes of the typed operations: path, query and body become the input, the output becomes JSON.

Path members cannot be overridden by the query or the body. The query of a POST is ignored (exec.md A8.6), unknown
members of either are too (A8.10), and `null` is as absent (A8.16).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from functions.api.addresses import decoded
from functions.api.answers import answer, output_bytes
from functions.api.bodies import Take, holding
from functions.api.headers import content_length, idempotency_key, prefers_async
from functions.api.jsonbody import parse_json, read_body
from functions.api.workers import Workers
from shared.errors import Code, Failure, invalid
from shared.identity import Caller
from shared.operations.base import Call, Cancel, Operation
from shared.operations.room import Room

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
AnyOperation = Operation[Any, Any]

RUN = "exec.run"
START = "exec.start"
_WAITING = ("files.delete", "uploads.complete")
_BODILESS = ("exec.programmatic_cancel",)


def caller_of(request: Request) -> Caller | None:
    """The caller that the door admitted."""
    found = request.scope["state"]["caller"]
    return found if isinstance(found, Caller) else None


def typed_handler(operation: AnyOperation, start: AnyOperation | None, room: Room, workers: Workers) -> Handler:
    """The handler of one operation. `start` answers instead where the client prefers not to wait."""
    method = operation.route.method if operation.route is not None else "GET"

    async def handle(request: Request) -> Response:
        with holding(request.scope) as take:
            return await held(request, take)

    async def held(request: Request, take: Take) -> Response:
        params = decoded(request.path_params)
        raw = b""
        if method == "POST":
            raw = await read_body(request.receive, content_length(request.headers), room.limits.body_bytes, take)
        chosen = start if start is not None and prefers_async(request.headers) else operation
        call = Call(caller_of(request), idempotency_key(request.headers), Cancel())

        def work() -> tuple[BaseModel, bytes]:
            given = _body(chosen, raw, params) if method == "POST" else _query(chosen, request)
            output = run_operation(chosen, room, call, {**given, **params}, params)
            return output, output_bytes(output)

        if chosen.name == RUN:
            running = workers.slow(workers.runs, work)
            # A call with an Idempotency-Key goes on without its client: the answer is kept for it.
            waiting = (
                running
                if call.idempotency_key is not None
                else workers.stoppable(request.receive, call.cancel, running)
            )
            _, body = await waiting
        elif chosen.name in _WAITING:
            _, body = await workers.slow(workers.writes, work)
        else:
            output, body = await workers.quick(work)
            if chosen.name == START:
                return answer(chosen.status, body, _accepted(output))
        return answer(chosen.status, body)

    return handle


def run_operation(
    operation: AnyOperation, room: Room, call: Call, data: dict[str, Any], params: dict[str, str]
) -> BaseModel:
    """Parse and run. A path member that no id or path can be is not found, whatever the operation calls it."""
    try:
        output: BaseModel = operation.run(room, call, operation.parse(data, closed=False))
    except Failure as failure:
        if failure.code is Code.INVALID_REQUEST and failure.field in params:
            raise Failure(Code.NOT_FOUND) from None
        raise
    return output


def _accepted(output: BaseModel) -> dict[str, str]:
    return {"Location": f"/v1/exec/runs/{getattr(output, 'id')}", "Preference-Applied": "respond-async"}  # noqa: B009


def takes_empty_body(operation: AnyOperation) -> bool:
    """Whether an empty body is as `{}`: nothing of the input comes from it, and no order of checks asks for JSON."""
    members = set(operation.input.model_fields)
    path = operation.route.paths[0] if operation.route is not None else ""
    return operation.name in _BODILESS or (bool(members) and all(f"{{{name}" in path for name in members))


def _body(operation: AnyOperation, raw: bytes, params: dict[str, str]) -> dict[str, Any]:
    if operation.name in _BODILESS or (not raw.strip() and takes_empty_body(operation)):
        return {}
    return {name: value for name, value in parse_json(raw).items() if name not in params}


def _query(operation: AnyOperation, request: Request) -> dict[str, Any]:
    """The members that the operation has, from the query. Errors: 400 for one that is sent twice or is not UTF-8."""
    query = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape")
    except ValueError:
        raise invalid("query", "cannot be read") from None
    members = {info.alias or name for name, info in operation.input.model_fields.items()}
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            if name in given:
                raise invalid(name, "must not be sent more than once")
            if any("\udc80" <= char <= "\udcff" for char in value):
                raise invalid(name, "must be UTF-8")
            given[name] = value
    return given
