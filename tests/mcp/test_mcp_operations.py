"""The real operations as tools, through the real door: the official client runs programs, for two projects."""

from __future__ import annotations

import base64
import json
import logging
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest
from jsonschema import Draft202012Validator

from functions.api.mcp_content import image_type, quoted
from functions.api.mcp_tools import tool_name
from shared.limits import Limits
from shared.operations.all import operations
from shared.settings import MCP_GROUPS, Settings
from tests.wire.scripted import Scripted, program
from tests.wire.service import Service, expect_eventually, open_test_room, serving

from .doors import connected, words
from .test_mcp_http import ask, objects, post

HINTS = {
    # read only, destructive, idempotent
    "exec_run": (False, True, False),
    "exec_start": (False, True, False),
    "exec_programmatic": (False, False, False),
    "exec_programmatic_cancel": (False, False, True),
    "files_list": (True, False, True),
    "files_stat": (True, False, True),
    "files_read": (True, False, True),
    "files_write": (False, True, True),
    "files_delete": (False, True, True),
    "uploads_create": (False, False, False),
    "uploads_complete": (False, True, False),
    "runs_get": (True, False, True),
    "health_get": (True, False, True),
    "sources_get": (True, False, True),
    "sources_list": (True, False, True),
    "sources_delete": (False, True, True),
    "sources_begin_upload": (False, False, False),
    "sources_complete_upload": (False, False, True),
    "sources_cancel_upload": (False, True, True),
    "agents_create": (False, False, False),
    "agents_get": (True, False, True),
    "agents_list": (True, False, True),
    "agents_update": (False, True, True),
    "agents_delete": (False, True, True),
    "sessions_create": (False, False, False),
    "sessions_get": (True, False, True),
    "sessions_list": (True, False, True),
    "sessions_update": (False, True, True),
    "sessions_delete": (False, True, True),
    "events_create": (False, True, False),
    "turns_get": (True, False, True),
    "turns_list": (True, False, True),
    "turns_items": (True, False, True),
    "items_list": (True, False, True),
    "subagents_list": (True, False, True),
    "artifacts_get": (True, False, True),
    "artifacts_list": (True, False, True),
    "artifacts_delete": (False, True, True),
    "environments_get": (True, False, True),
    "environments_list_files": (True, False, True),
    "environments_create_file": (False, False, False),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    limits = Limits(mcp_image_bytes=1_000, typed_file_bytes=10_000)
    with serving(open_test_room(tmp_path_factory.mktemp("mcp-data"), limits, Scripted())) as running:
        yield running


@pytest.fixture
def url(service: Service) -> str:
    return f"{service.url}/mcp"


def run(url: str, service: Service, key: str | None = None, *, session: str | None = None, **script: Any) -> Any:
    """The answer of a scripted program."""
    arguments = {"lang": "py", "code": program(**script)}
    if session is not None:
        arguments["session_id"] = session
    return ask(url, key or service.key, "exec_run", arguments)


def listing(url: str, key: str) -> dict[str, Any]:
    async def main() -> Any:
        async with connected(url, key) as client:
            return await client.list_tools()

    return {tool.name: tool for tool in anyio.run(main).tools}


def test_every_caller_operation_is_a_tool_and_no_other(url: str, service: Service) -> None:
    callers = {tool_name(one) for one in operations().values() if one.audience == "caller"}
    assert set(listing(url, service.key)) == callers == set(HINTS)


def test_every_tool_is_described_hinted_and_closed(url: str, service: Service) -> None:
    for name, tool in listing(url, service.key).items():
        declared = operations()[name.replace("_", ".", 1)]
        assert tool.description.startswith(declared.summary)
        named = re.findall(r"`([a-z]+[._][a-z_]+)`", tool.description)
        assert not {word for word in named if word in operations()}, "a tool is named as tools are"
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == HINTS[name]
        assert hints.open_world_hint is False
        assert "$ref" not in json.dumps([tool.input_schema, tool.output_schema])
        assert tool.input_schema["additionalProperties"] is False
        assert all(part["additionalProperties"] is False for part in objects(tool.input_schema) if "properties" in part)
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
        for part in objects(tool.input_schema):
            assert all("description" in member for member in part.get("properties", {}).values()), name


def test_the_groups_that_a_deployment_lists(tmp_path_factory: pytest.TempPathFactory) -> None:
    room = open_test_room(tmp_path_factory.mktemp("groups"), Limits(), Scripted())
    with serving(room, Settings(port=0, dev_key=False, mcp_groups=("exec",))) as running:
        names = set(listing(f"{running.url}/mcp", running.key))
    assert names == {name for name in HINTS if name.startswith("exec_")}
    assert set(MCP_GROUPS) == {name.partition("_")[0] for name in HINTS}


def test_a_run_answers_its_output_then_its_errors_then_its_files(url: str, service: Service) -> None:
    result = run(url, service, stdout="rows: 2\n", stderr="careful\n", write={"out/a.txt": "abc", "forged\n- b": "x"})
    assert not result.is_error
    texts = [block.text for block in result.content]
    assert texts[0] == "rows: 2\n"
    assert texts[1] == "stderr:\ncareful\n"
    session = result.structured_content["session_id"]
    ids = {file["name"]: file["id"] for file in result.structured_content["files"]}
    assert sorted(texts[2].split("\n")) == sorted(
        [
            f"session {session}, exit code 0",
            "files:",
            f"- out/a.txt (3 bytes) id {ids['out/a.txt']}",
            f'- "forged\\n- b" (1 bytes) id {ids[chr(10).join(["forged", "- b"])]}',
        ]
    )
    assert result.structured_content["stdout"] == "rows: 2\n"
    assert result.structured_content["code"] == 0


def test_a_session_goes_on(url: str, service: Service) -> None:
    first = run(url, service, write={"kept": "x"}).structured_content["session_id"]
    again = run(url, service, session=first, show="files", delete=["kept"])
    assert again.structured_content["stdout"] == '["kept"]'
    assert "deleted files: kept" in words(again)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"code": 1, "stderr": "Traceback"}, "exit code 1"),
        ({"signal": 9}, "signal SIGKILL"),
        ({"signal": 9, "reason": "time"}, "status TO"),
        ({"signal": 9, "reason": "memory"}, "signal SIGKILL"),
    ],
)
def test_a_program_that_fails_is_no_mcp_error(url: str, service: Service, script: dict[str, Any], said: str) -> None:
    result = run(url, service, **script)
    assert not result.is_error
    assert said in words(result)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"fail": "unavailable"}, "executor_unavailable: "),
        ({"fail": "broken"}, "executor_failed: "),
        ({"fail": "timeout"}, "executor_timeout: "),
        ({"raise": "secret-text"}, "internal_error: "),
    ],
)
def test_an_executor_that_fails_is_an_mcp_error_with_its_own_words(
    url: str, service: Service, script: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        result = run(url, service, **script)
    assert result.is_error
    assert words(result).startswith(said)
    assert "secret-text" not in words(result)
    assert "secret-text" not in caplog.text


def png(size: int) -> bytes:
    """A valid PNG of exactly `size` bytes: one grey pixel and a private chunk to fill."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\x80"))
    start, end = b"\x89PNG\r\n\x1a\n" + head, chunk(b"IEND", b"")
    return start + chunk(b"prVt", b"x" * (size - len(start) - len(end) - 12)) + end


def store(url: str, service: Service, name: str, body: bytes) -> tuple[str, str]:
    """Session and id of a file that was written through the door."""
    given = {"name": name, "content": base64.b64encode(body).decode(), "encoding": "base64"}
    answer = ask(url, service.key, "files_write", given).structured_content
    return answer["session_id"], answer["files"][0]["id"]


def test_an_image_that_is_read_comes_as_an_image_and_a_name_makes_none(url: str, service: Service) -> None:
    session, file = store(url, service, "up/a.bin", png(400))
    read = ask(url, service.key, "files_read", {"session_id": session, "file_id": file})
    assert [(block.type, block.mime_type) for block in read.content] == [("image", "image/png")]
    assert base64.b64decode(read.content[0].data) == png(400)
    session, file = store(url, service, "up/b.png", b"no image")
    assert words(ask(url, service.key, "files_read", {"session_id": session, "file_id": file})) == "no image"


def test_produced_images_are_shown_within_the_limit(url: str, service: Service) -> None:
    gif = "GIF89a" + "x" * 394
    made = {"a.gif": gif, "b.gif": gif, "c.gif": gif, "d.GIF": "GIF89a", "not.png": "no image", "e.txt": gif}
    result = run(url, service, write=made)
    images = [block for block in result.content if block.type == "image"]
    assert [base64.b64decode(image.data).decode() for image in images] == [gif, gif, "GIF89a"]
    assert {image.mime_type for image in images} == {"image/gif"}
    assert "c.gif is not shown" in words(result)
    assert len(result.structured_content["files"]) == len(made)


def test_base64_content_comes_back_as_it_was(url: str, service: Service) -> None:
    body = base64.b64encode(bytes(range(256))).decode()
    given = {"name": "in/a.bin", "content": body, "encoding": "base64"}
    session = ask(url, service.key, "files_write", given).structured_content["session_id"]
    read = ask(url, service.key, "files_read", {"session_id": session, "file_id": "in/a.bin"}).structured_content
    assert (read["content"], read["encoding"], read["size"]) == (body, "base64", 256)
    listed = ask(url, service.key, "files_list", {"session_id": session}).structured_content["result"]
    assert [row["metadata"]["original-filename"] for row in listed] == ["in/a.bin"]


def test_text_that_looks_like_base64_is_taken_at_its_word(url: str, service: Service) -> None:
    session = ask(url, service.key, "files_write", {"name": "a", "content": "QUJD"}).structured_content["session_id"]
    assert words(ask(url, service.key, "files_read", {"session_id": session, "file_id": "a"})) == "QUJD"
    wrong = ask(url, service.key, "files_write", {"name": "a", "content": "no base64!", "encoding": "base64"})
    assert wrong.is_error
    assert "`content`" in words(wrong)


def test_a_foreign_session_is_as_unknown_in_every_tool(url: str, service: Service) -> None:
    session = run(url, service, write={"mine": "secret"}).structured_content["session_id"]
    for tool, more in (
        ("files_list", {}),
        ("files_stat", {"file_id": "mine"}),
        ("files_read", {"file_id": "mine"}),
        ("files_delete", {"file_id": "mine"}),
        ("files_write", {"name": "mine", "content": "theirs"}),
        ("exec_run", {"lang": "py", "code": program(show="files")}),
    ):
        foreign, unknown = (
            ask(url, service.other_key, tool, {"session_id": one, **more}) for one in (session, "A" * 21)
        )
        assert foreign.is_error
        assert words(foreign) == words(unknown)
        assert words(foreign).startswith("not_found: ")
    read = ask(url, service.key, "files_read", {"session_id": session, "file_id": "mine"})
    assert words(read) == "secret"


@pytest.mark.parametrize("key", ["", "wr_wrong", "wr_" + "A" * 42])
def test_without_a_valid_key_the_door_answers_401_and_nothing_runs(url: str, service: Service, key: str) -> None:
    before = service.executor.started
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "exec_run", "arguments": {"lang": "py", "code": program(stdout="x")}}
    answer = post(url, json.dumps(call).encode(), **{"X-API-Key": key})
    assert answer.status_code == 401
    assert service.executor.started == before


def test_a_client_that_goes_away_stops_its_program(url: str, service: Service) -> None:
    before = len(service.executor.stopped)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "exec_run", "arguments": {"lang": "py", "code": program(wait=20)}}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            url,
            json=call,
            headers={"X-API-Key": service.key, "Accept": "application/json, text/event-stream"},
            timeout=httpx.Timeout(10, read=1),
        )
    assert service.executor.begun.acquire(timeout=10)
    for _ in range(1000):
        if len(service.executor.stopped) > before:
            break
        anyio.run(anyio.sleep, 0.01)
    assert len(service.executor.stopped) == before + 1


def test_an_image_is_what_its_bytes_are() -> None:
    assert image_type(png(200)) == "image/png"
    assert image_type(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert image_type(b"GIF89a") == "image/gif"
    assert image_type(b"RIFF\0\0\0\0WEBPVP8 ") == "image/webp"
    assert image_type(b"RIFF\0\0\0\0WAVEfmt ") is None
    assert image_type(b"") is None


@pytest.mark.parametrize("name", ["a\nb", " a", 'a"b', "a\u202eb", "a, b", "\x1b[2J"])
def test_a_name_that_could_be_taken_for_something_else_is_quoted(name: str) -> None:
    assert json.loads(quoted(name)) == name
    assert quoted(name).isprintable()


def test_a_plain_name_is_as_it_is() -> None:
    assert quoted("out/ü 1.png") == "out/ü 1.png"


def test_a_session_of_an_agent_through_its_tools(url: str, service: Service) -> None:
    made = ask(url, service.key, "agents_create", {"model": "program:py", "name": "one"}).structured_content
    renamed = ask(url, service.key, "agents_update", {"agent_id": made["id"], "name": None})
    assert renamed.structured_content["name"] is None
    asked = {"agent_id": made["id"], "environment": {"type": "openai_hosted"}, "input": program(stdout="out")}
    tool = listing(url, service.key)["sessions_create"]
    Draft202012Validator(tool.input_schema).validate(asked)
    session = ask(url, service.key, "sessions_create", asked).structured_content["id"]
    named = {"session_id": session}
    expect_eventually(lambda: ask(url, service.key, "sessions_get", named).structured_content["status"] == "idle")
    items = ask(url, service.key, "items_list", {**named, "order": "asc"}).structured_content["data"]
    assert [item["output"] for item in items if item["type"] == "command_execution"] == ["out"]
    foreign = ask(url, service.other_key, "sessions_get", named)
    assert foreign.is_error
    assert words(foreign).startswith("not_found: ")
    assert words(ask(url, service.other_key, "agents_update", {"agent_id": made["id"]})).startswith("not_found: ")
    wrong = ask(url, service.key, "agents_update", {"agent_id": made["id"], "no": "member"})
    assert words(wrong).startswith("invalid_request: ")
