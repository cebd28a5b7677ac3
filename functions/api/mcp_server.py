"""The MCP door with the official SDK: a server that lists and calls the tools, for HTTP and for stdio.

Importing the SDK takes about a second and tens of megabytes: `functions.api.mcp` imports this module when the first
MCP request comes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
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

from functions.api.mcp_tools import AnyOperation, Tools, failed
from shared.errors import Code, Failure
from shared.identity import Caller
from shared.operations.base import Cancel
from shared.operations.room import Room
from shared.settings import Settings

Context = ServerRequestContext[dict[str, Any], Any]
Managers = Callable[[], StreamableHTTPSessionManager]

_RETRY_S = 2

INSTRUCTIONS = (
    "Workroom runs whole programs in thirteen languages. exec_run answers a session_id: pass it to the next call to "
    "find the files of the session again, below /mnt/data. There is no network and standard input is empty."
)


def sdk_server(
    list_tools: Callable[[Context, PaginatedRequestParams | None], Awaitable[ListToolsResult]],
    call_tool: Callable[[Context, CallToolRequestParams], Awaitable[CallToolResult]],
) -> Server[dict[str, Any]]:
    """The SDK's server around these two. What the SDK logs and traces stays with it.

    Its records and spans may hold a request's or an answer's content (cases.md K20).
    """
    sdk = logging.getLogger("mcp")
    sdk.propagate = False
    if not sdk.handlers:
        sdk.addHandler(logging.NullHandler())
    server = Server(
        "workroom",
        version=version("workroom"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.clear()
    return server


def make_server(
    tools: Tools,
    threads: CapacityLimiter,
    caller_of: Callable[[Context], Caller | None],
    cancel_of: Callable[[Context], Cancel],
) -> Server[dict[str, Any]]:
    """An SDK server that lists and calls the tools. Calls run in `threads`; one more than those is a rate limit."""

    async def list_tools(context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        if caller_of(context) is None:
            raise MCPError(code=INVALID_REQUEST, message=Failure(Code.FORBIDDEN).message)
        return ListToolsResult(tools=tools.listing)

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in tools:
            raise MCPError(code=INVALID_PARAMS, message="No tool has that name.")
        if threads.available_tokens <= 0:
            return failed(Failure(Code.RATE_LIMITED, retry_after=_RETRY_S))
        cancel = cancel_of(context)
        try:
            return await anyio.to_thread.run_sync(
                tools.call, caller_of(context), params.name, params.arguments, cancel, _request_id(context),
                abandon_on_cancel=True, limiter=threads,
            )  # fmt: skip
        except anyio.get_cancelled_exc_class():
            cancel()
            raise

    return sdk_server(list_tools, call_tool)


def _threads(room: Room) -> CapacityLimiter:
    return CapacityLimiter(room.limits.run_queue + 32)


def managers(room: Room, settings: Settings, declared: Mapping[str, AnyOperation] | None) -> Managers:
    """What makes the SDK's manager of one HTTP request: none is shared, so nothing is kept between two."""
    server = make_server(Tools(room, settings.mcp_groups, declared), _threads(room), _scope_caller, _scope_cancel)
    return lambda: StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=room.limits.body_bytes
    )


def _state(context: Context) -> dict[str, Any]:
    state: dict[str, Any] = context.request.scope["state"] if context.request is not None else {}
    return state


def _request_id(context: Context) -> str:
    return str(getattr(_state(context).get("entry"), "request_id", "stdio"))


def _scope_caller(context: Context) -> Caller | None:
    caller = _state(context).get("caller")
    return caller if isinstance(caller, Caller) else None


def _scope_cancel(context: Context) -> Cancel:
    cancel = _state(context).get("cancel")
    return cancel if isinstance(cancel, Cancel) else Cancel()


async def serve_stdio(room: Room, caller: Caller, settings: Settings) -> None:
    """Serve MCP on standard input and output for one caller, until the input ends."""
    tools = Tools(room, settings.mcp_groups)
    server = make_server(tools, _threads(room), lambda _: caller, lambda _: Cancel())
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
