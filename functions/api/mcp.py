"""The MCP door on HTTP: streamable HTTP, stateless, with JSON answers.

Every request stands alone: no session, no stream, nothing is kept between two requests, so any process can answer
the next one. The HTTP door admits the caller and hands it over in `scope["state"]["caller"]`; without one nothing is
listed and each operation refuses by itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.api.answers import compact
from functions.api.bodies import Take, holding
from functions.api.jsonbody import check_values
from shared.errors import Code, Failure
from shared.operations.base import Cancel, Operation
from shared.operations.room import Room
from shared.settings import Settings

if TYPE_CHECKING:
    from functions.api.mcp_server import Managers


class _Sdk:
    """The SDK, imported once, when it is first needed."""

    def __init__(self, room: Room, settings: Settings, declared: Mapping[str, Operation[Any, Any]] | None) -> None:
        self._arguments = (room, settings, declared)
        self._lock = threading.Lock()
        self._managers: Managers | None = None

    def managers(self) -> Managers:
        """What makes a request's manager; the first call takes about a second."""
        with self._lock:
            if self._managers is None:
                from functions.api.mcp_server import managers  # noqa: PLC0415

                self._managers = managers(*self._arguments)
            return self._managers


def mcp_app(room: Room, settings: Settings, declared: Mapping[str, Operation[Any, Any]] | None = None) -> ASGIApp:
    """What the HTTP door mounts at `/mcp`. It needs no lifespan.

    `scope["state"]` is a door's: `caller` is the admitted Caller, `bodies` counts what is held. A client that goes
    away stops what it called. `declared` are the operations where they are not the registry's.
    """
    sdk = _Sdk(room, settings, declared)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await _refuse(Failure(Code.METHOD_NOT_ALLOWED), send, {"Allow": "POST"})
            return
        with holding(scope) as take:
            await answer(scope, receive, send, take)

    async def answer(scope: Scope, receive: Receive, send: Send, take: Take) -> None:
        try:
            raw, receive = await _body(receive, room.limits.body_bytes, take)
            await anyio.to_thread.run_sync(check_values, raw)
        except Failure as failure:
            await _refuse(failure, send, {})
            return
        cancel = Cancel()
        scope["state"] = {**scope["state"], "cancel": cancel}
        manager = (await anyio.to_thread.run_sync(sdk.managers))()
        async with anyio.create_task_group() as tasks:
            async with manager.run():
                await manager.handle_request(scope, _watched(receive, tasks, cancel), send)
            tasks.cancel_scope.cancel()

    return app


async def _body(receive: Receive, limit: int, take: Take) -> tuple[bytes, Receive]:
    """The body, and a `receive` that gives it again. One above `limit` bytes comes back cut: the SDK refuses it.

    Errors: 429 where no room is left.
    """
    messages: deque[Message] = deque()
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= limit:
        message = await receive()
        messages.append(message)
        parts.append(message.get("body", b""))
        take(len(parts[-1]))
        size += len(parts[-1])
        more = message.get("more_body", False)

    async def again() -> Message:
        return messages.popleft() if messages else await receive()

    return b"".join(parts), again


def _watched(receive: Receive, tasks: anyio.abc.TaskGroup, cancel: Cancel) -> Receive:
    """`receive` that, once the body is read, waits for the client to go away and fires `cancel` then."""
    gone = anyio.Event()
    watching = False

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        await anyio.to_thread.run_sync(cancel)

    async def watched() -> Message:
        nonlocal watching
        if watching:
            await gone.wait()
            return {"type": "http.disconnect"}
        message = await receive()
        if message["type"] == "http.disconnect":
            watching = True
            gone.set()
        elif not message.get("more_body"):
            watching = True
            tasks.start_soon(watch)
        return message

    return watched


async def _refuse(failure: Failure, send: Send, headers: dict[str, str]) -> None:
    body = compact(failure.body())
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": failure.code.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
