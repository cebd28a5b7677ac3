"""What the MCP server does with calls that are cancelled, and with more calls than it has threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import CapacityLimiter
from mcp.client import Client
from mcp.server.lowlevel import Server

from functions.api.mcp_server import make_server
from functions.api.mcp_tools import Tools
from shared.operations.base import Cancel
from shared.settings import MCP_GROUPS

from .doors import CALLERS, Log, bare_room, declare, words


def server(log: Log, threads: int) -> Server[dict[str, Any]]:
    """A server of one caller, as stdio has it."""
    tools = Tools(bare_room(), MCP_GROUPS, declare(log))
    return make_server(tools, CapacityLimiter(threads), lambda _: CALLERS["key-a"], lambda _: Cancel())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_cancelled_call_stops_its_program(mode: str) -> None:
    log = Log()

    async def main() -> None:
        async with Client(server(log, 4), mode=mode) as client:
            with anyio.move_on_after(0.5):
                await client.call_tool("exec_start", {"text": "x"})
            assert log.started.is_set()
            assert await anyio.to_thread.run_sync(log.stopped.wait, 10)
            result = await client.call_tool("files_write", {"text": "still here"})
            assert result.structured_content["text"] == "still here"

    anyio.run(main)


def test_one_call_more_than_there_are_threads_is_a_rate_limit() -> None:
    log = Log()

    async def main() -> None:
        async with Client(server(log, 1)) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "exec_start", {"text": "x"})
            assert await anyio.to_thread.run_sync(log.started.wait, 10)
            result = await client.call_tool("files_write", {"text": "x"})
            assert result.is_error
            assert words(result) == "rate_limited: Too many requests. Retry later. Retry after 2 s."
            log.stopped.set()

    anyio.run(main)
    assert log.ran == []


def test_the_service_starts_without_the_sdk() -> None:
    """The SDK costs a second and tens of megabytes: a service that nobody asks for MCP does not have it."""
    code = "import sys, functions.api.app; print('mcp' in sys.modules, 'mcp_types' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=Path(__file__).parents[2], timeout=60, check=True
    )
    assert done.stdout == b"False False\n"
