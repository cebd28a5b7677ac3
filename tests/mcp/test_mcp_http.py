"""The MCP door over a real socket, driven by the official client in both of its protocol eras."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest
from mcp.shared.exceptions import MCPError

from shared.settings import Settings

from .doors import Log, connected, declare, serving, words

MODES = ("auto", "legacy")


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def url(log: Log) -> Iterator[str]:
    with serving(declare(log)) as address:
        yield address


def ask(url: str, key: str, tool: str, arguments: dict[str, Any], mode: str = "auto") -> Any:
    """The result of a call, or the protocol error that it met."""

    async def main() -> Any:
        async with connected(url, key, mode) as client:
            try:
                return await client.call_tool(tool, arguments)
            except MCPError as error:
                return error

    return anyio.run(main)


def tools(url: str, mode: str = "auto") -> dict[str, Any]:
    async def main() -> Any:
        async with connected(url, "key-a", mode) as client:
            return await client.list_tools()

    return {tool.name: tool for tool in anyio.run(main).tools}


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects(value)
    if isinstance(schema, list):
        for value in schema:
            yield from objects(value)


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_connects_lists_and_calls(url: str, mode: str) -> None:
    assert set(tools(url, mode)) == {"files_write", "files_list", "exec_start", "runs_get"}
    result = ask(url, "key-a", "files_write", {"text": "grüße", "parts": [{"name": "p"}]}, mode)
    assert not result.is_error
    expected = {"text": "grüße", "project": "project-a", "parts": [{"name": "p", "size": None}]}
    assert result.structured_content == expected
    assert json.loads(words(result)) == expected


def test_a_listed_group_is_the_settings_choice_and_operator_operations_never_show(log: Log) -> None:
    with serving(declare(log), Settings(mcp_groups=("runs",))) as url:
        assert set(tools(url)) == {"runs_get"}
        assert ask(url, "key-a", "files_write", {"text": "x"}).message == "No tool has that name."
    with serving(declare(log)) as url:
        assert ask(url, "key-a", "keys_create", {"text": "x"}).message == "No tool has that name."
    assert log.ran == []


def test_input_schemas_are_closed_at_every_level_and_hold_no_reference(url: str) -> None:
    for tool in tools(url).values():
        assert "$ref" not in json.dumps([tool.input_schema, tool.output_schema])
        found = list(objects(tool.input_schema))
        assert found
        assert all(part["additionalProperties"] is False for part in found)
        assert tool.output_schema["type"] == "object"
    inner = tools(url)["files_write"].input_schema["properties"]["parts"]["items"]
    assert inner["properties"]["size"] == {"type": "integer", "description": "its size"}
    assert inner["required"] == ["name"]


def test_descriptions_and_hints_come_with_each_tool(url: str) -> None:
    found = tools(url)
    assert found["files_write"].description == "Echo the words.\n\nThe parts come back too."
    assert found["files_list"].annotations.read_only_hint is True
    assert found["files_write"].annotations.read_only_hint is False
    assert found["files_write"].annotations.destructive_hint is True
    assert all(tool.annotations.open_world_hint is False for tool in found.values())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "`text`"),
        ({"text": 1}, "`text`"),
        ({"text": "x", "txet": "y"}, "`txet`"),
        ({"text": "x", "parts": [{"name": "p", "mode": 7}]}, "`parts[0].mode`"),
        ({"text": "x", "parts": [{"name": 3}]}, "`parts[0].name`"),
        ({"text": "x" * 101}, "`text`"),
        ({"text": ["x"]}, "`text`"),
        ({"text": "x", "project": "project-b"}, "`project`"),
        ({"text": "x", "parts": {"name": "p"}}, "`parts`"),
    ],
)
def test_a_hostile_input_is_a_failed_call_that_names_the_member(
    url: str, log: Log, arguments: dict[str, Any], named: str
) -> None:
    result = ask(url, "key-a", "files_write", arguments)
    assert result.is_error
    assert words(result).startswith("invalid_request: ")
    assert named in words(result)
    assert log.ran == []


def test_null_is_as_absent(url: str) -> None:
    result = ask(url, "key-a", "files_write", {"text": "x", "parts": None})
    assert result.structured_content["parts"] == []


def test_a_rate_limit_a_refusal_and_a_crash_are_distinct_failed_calls(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        limited, invalid, crash = (
            ask(url, "key-a", "runs_get", {"how": how}) for how in ("limited", "invalid", "crash")
        )
    assert limited.is_error
    assert words(limited) == "rate_limited: Too many requests. Retry later. Retry after 7 s."
    assert invalid.is_error
    assert words(invalid) == "invalid_request: `how` is not to be asked"
    assert crash.is_error
    assert words(crash) == "internal_error: The service met an unexpected condition."
    assert "RuntimeError" in caplog.text
    assert "secret-text" not in caplog.text


def test_each_caller_acts_for_its_own_project(url: str) -> None:
    for key, project in (("key-a", "project-a"), ("key-b", "project-b")):
        assert ask(url, key, "files_write", {"text": "x"}).structured_content["project"] == project


@pytest.mark.parametrize("mode", MODES)
def test_without_an_admitted_caller_nothing_is_listed_and_nothing_runs(url: str, log: Log, mode: str) -> None:
    async def main() -> None:
        async with connected(url, "no-key", mode) as client:
            with pytest.raises(MCPError, match="needs an admitted caller"):
                await client.list_tools()
            result = await client.call_tool("files_write", {"text": "x"})
            assert result.is_error
            assert words(result) == "forbidden: This operation needs an admitted caller."

    anyio.run(main)
    assert log.ran == []


def test_a_bare_array_is_wrapped_and_bytes_that_are_no_text_are_replaced(url: str) -> None:
    for mode in MODES:
        result = ask(url, "key-a", "files_list", {"how": "invalid"}, mode)
        assert result.structured_content == {"result": ["plain", "line\nbreak", "�"]}


def post(url: str, body: bytes, **headers: str) -> httpx.Response:
    base = {"X-API-Key": "key-a", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    return httpx.post(url, content=body, headers={**base, **headers}, timeout=10)


def test_malformed_messages_are_errors_and_the_door_goes_on(url: str) -> None:
    for body in (b"", b"{", b"[]", b'"x"', b'{"jsonrpc":"2.0","id":1}', b"\xff\xfe", b"[" * 100_000, b'{"id":1e999}'):
        for era in ({}, {"MCP-Protocol-Version": "2026-07-28"}, {"MCP-Protocol-Version": "nonsense"}):
            answer = post(url, body, **era)
            assert 400 <= answer.status_code < 500, (body[:20], era)
            assert "Traceback" not in answer.text
    assert not ask(url, "key-a", "files_write", {"text": "still here"}).is_error


def test_a_body_above_the_limit_is_refused(url: str) -> None:
    assert post(url, b" " * (8 * 1024 * 1024 + 1)).status_code == 413


def test_a_body_of_very_many_values_is_refused_before_it_is_read(url: str) -> None:
    answer = post(url, b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[' + b"[]," * 2_000_000 + b"[]]}}")
    assert answer.status_code == 400
    assert answer.json()["message"] == "`body` must not hold more than 100000 values"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
def test_another_method_is_refused_and_opens_no_stream(url: str, method: str) -> None:
    answer = httpx.request(method, url, headers={"Accept": "text/event-stream"}, timeout=10)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_a_client_that_goes_away_stops_what_it_called(url: str, log: Log, version: str) -> None:
    params: dict[str, Any] = {"name": "exec_start", "arguments": {"text": "x"}}
    head = ""
    if version == "2026-07-28":
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        head = "Mcp-Method: tools/call\r\nMcp-Name: exec_start\r\n"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    host, port = url.split("/")[2].split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            (
                f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nX-API-Key: key-a\r\nContent-Type: application/json\r\n"
                f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\n{head}"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            ).encode()
        )
        assert log.started.wait(10)
        assert not log.stopped.is_set()
    assert log.stopped.wait(10)
