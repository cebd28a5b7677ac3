"""MCP on standard input and output for a service elsewhere: each request is one POST to that service's `/mcp`.

A client that can only start commands reaches a shared service so. Nothing is interpreted here: the tools, their
schemas and their answers are the service's. A service that cannot be reached is a failed call, not a broken pipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from functions.api.mcp_server import sdk_server

Context = ServerRequestContext[dict[str, Any], Any]

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION,
}


class Unanswered(Exception):
    """The service refused the request, or did not answer as MCP: `code` as in `shared.errors`, and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(code)


def request(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON-RPC request. Each goes alone in its POST, so one id will do."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}


def result_of(status: int, body: object) -> dict[str, Any]:
    """The result in a service's answer. Errors: Unanswered; MCPError where the service answered one."""
    if not isinstance(body, dict):
        raise Unanswered("unreachable", f"The service answered {status} and no JSON object.")
    if isinstance(body.get("result"), dict):
        return dict(body["result"])
    error = body.get("error")
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        raise MCPError(code=error["code"], message=str(error.get("message", "")))
    raise Unanswered(str(error or "internal_error"), str(body.get("message") or f"The service answered {status}."))


def failed(code: str, message: str) -> CallToolResult:
    """A failure of the way to the service, as a tool's failed answer."""
    return CallToolResult(content=[TextContent(text=f"{code}: {message}")], is_error=True)


def make_forwarder(client: httpx.AsyncClient) -> Server[dict[str, Any]]:
    """An SDK server whose tools are those of the service that `client` (base address, credential) reaches."""

    async def ask(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = await client.post("/mcp", json=request(method, params), headers=HEADERS)
            body = answer.json()
        except httpx.HTTPError as error:
            raise Unanswered("unreachable", "The service cannot be reached.") from error
        except ValueError as error:
            raise Unanswered("unreachable", "The service did not answer JSON.") from error
        return result_of(answer.status_code, body)

    async def list_tools(_context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        try:
            return ListToolsResult.model_validate(await ask("tools/list", {}))
        except Unanswered as error:
            raise MCPError(code=INTERNAL_ERROR, message=f"{error.code}: {error.message}") from error

    async def call_tool(_context: Context, params: CallToolRequestParams) -> CallToolResult:
        try:
            found = await ask("tools/call", {"name": params.name, "arguments": params.arguments or {}})
            return CallToolResult.model_validate(found)
        except Unanswered as error:
            return failed(error.code, error.message)
        except ValidationError:
            return failed("unreachable", "The service answered what is no tool result.")

    return sdk_server(list_tools, call_tool)


async def forward_stdio(url: str, headers: Mapping[str, str]) -> None:
    """Serve MCP on standard input and output for the service at `url`, until the input ends."""
    async with httpx.AsyncClient(base_url=url, headers=dict(headers), timeout=httpx.Timeout(10, read=None)) as client:
        server = make_forwarder(client)
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())
