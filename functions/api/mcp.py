"""The MCP door: streamable HTTP (stateless, JSON answers) and stdio, both with the official SDK.

Every HTTP request stands alone: no session, no stream, nothing is kept between two requests, so any process can
answer the next one. The HTTP door admits the caller and hands it over in `scope["state"]["caller"]`; without one
nothing is listed and each operation refuses by itself.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import anyio
from anyio import CapacityLimiter
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.api.mcp_tools import Tools
from shared.errors import Code, Failure
from shared.identity import Caller
from shared.operations.base import Cancel
from shared.operations.room import Room
from shared.settings import Settings

Context = ServerRequestContext[dict[str, Any], Any]

INSTRUCTIONS = (
    "Workroom runs whole programs in thirteen languages. exec_run answers a session_id: pass it to the next call to "
    "find the files of the session again, below /mnt/data. There is no network and standard input is empty."
)


def quiet_sdk() -> None:
    """Keep the SDK's own log to itself: its records may hold a request's or an answer's content (cases.md K20)."""
    sdk = logging.getLogger("mcp")
    sdk.propagate = False
    if not sdk.handlers:
        sdk.addHandler(logging.NullHandler())


def make_server(
    tools: Tools,
    threads: CapacityLimiter,
    caller_of: Callable[[Context], Caller | None],
    cancel_of: Callable[[Context], Cancel],
) -> Server[dict[str, Any]]:
    """An SDK server that lists and calls the tools; calls run in threads, at most as many as `threads` lets."""

    async def list_tools(context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        if caller_of(context) is None:
            raise MCPError(code=INVALID_REQUEST, message=Failure(Code.FORBIDDEN).message)
        return ListToolsResult(tools=tools.listing)

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in tools:
            raise MCPError(code=INVALID_PARAMS, message="No tool has that name.")
        cancel = cancel_of(context)
        try:
            return await anyio.to_thread.run_sync(
                tools.call, caller_of(context), params.name, params.arguments, cancel,
                abandon_on_cancel=True, limiter=threads,
            )  # fmt: skip
        except anyio.get_cancelled_exc_class():
            cancel()
            raise

    quiet_sdk()
    server = Server(
        "workroom",
        version=version("workroom"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.clear()  # spans of a tracer would carry names of the caller's
    return server


def _threads(room: Room) -> CapacityLimiter:
    return CapacityLimiter(room.limits.run_queue + 32)


def mcp_app(room: Room, settings: Settings, tools: Tools | None = None) -> ASGIApp:
    """What the HTTP door mounts at `/mcp`. It needs no lifespan.

    `scope["state"]["caller"]` is the admitted Caller. A client that goes away stops what it called.
    """
    tools = tools or Tools(room, settings.mcp_groups)
    server = make_server(tools, _threads(room), _scope_caller, _scope_cancel)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await _refuse(Failure(Code.METHOD_NOT_ALLOWED), send, {"Allow": "POST"})
            return
        cancel = Cancel()
        state = scope["state"] = {**scope.get("state", {}), "cancel": cancel}
        state.setdefault("caller", None)
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=room.limits.body_bytes
        )
        async with anyio.create_task_group() as tasks:
            async with manager.run():
                await manager.handle_request(scope, _watched(receive, tasks, cancel), send)
            tasks.cancel_scope.cancel()

    return app


def _state(context: Context) -> dict[str, Any]:
    state: dict[str, Any] = context.request.scope["state"] if context.request is not None else {}
    return state


def _scope_caller(context: Context) -> Caller | None:
    caller = _state(context).get("caller")
    return caller if isinstance(caller, Caller) else None


def _scope_cancel(context: Context) -> Cancel:
    cancel = _state(context).get("cancel")
    return cancel if isinstance(cancel, Cancel) else Cancel()


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
    body = json.dumps(failure.body()).encode()
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": failure.code.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def serve_stdio(room: Room, caller: Caller, settings: Settings) -> None:
    """Serve MCP on standard input and output for one caller, until the input ends."""
    tools = Tools(room, settings.mcp_groups)
    server = make_server(tools, _threads(room), lambda _: caller, lambda _: Cancel())
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
