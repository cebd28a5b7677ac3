"""`workroom mcp`: the official client starts it as a command, for a data folder and for a service elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from shared.limits import Limits
from tests.wire.scripted import Scripted, program
from tests.wire.service import Service, open_test_room, serving

from .doors import words

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(open_test_room(tmp_path_factory.mktemp("stdio-data"), Limits(), Scripted())) as running:
        yield running


def talk(environ: dict[str, str], mode: str, *calls: tuple[str, dict[str, Any]]) -> tuple[set[str], list[Any]]:
    """The names of the tools, and the answers to the calls."""

    async def main() -> tuple[set[str], list[Any]]:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "functions.cli.main", "mcp"],
            env={"PATH": os.environ["PATH"], **environ},
            cwd=PROJECT,
        )
        with anyio.fail_after(90):
            async with Client(command, mode=mode) as client:
                listed = {tool.name for tool in (await client.list_tools()).tools}
                return listed, [await client.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(main)


def local(folder: Path) -> dict[str, str]:
    """The settings of a data folder on a machine without toolchains."""
    nowhere = str(folder / "nowhere")
    return {"WORKROOM_DATA": str(folder / "data"), "WORKROOM_ROOT": nowhere, "WORKROOM_JAIL": nowhere}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_data_folder_is_served(tmp_path: Path, mode: str) -> None:
    written = ("files_write", {"name": "a.txt", "content": "grüße"})
    listed, [answer] = talk(local(tmp_path), mode, written)
    assert {"exec_run", "files_write", "health_get"} <= listed
    assert not any(name.startswith("keys") for name in listed)
    session = answer.structured_content["session_id"]
    _, [read] = talk(local(tmp_path), mode, ("files_read", {"session_id": session, "file_id": "a.txt"}))
    assert words(read) == "grüße"


def test_an_executor_that_is_not_there_is_a_failed_call_with_its_own_words(tmp_path: Path) -> None:
    _, [answer, after] = talk(
        local(tmp_path), "auto", ("exec_run", {"lang": "py", "code": "print(1)"}), ("health_get", {})
    )
    assert answer.is_error
    assert words(answer).startswith("executor_unavailable: ")
    assert after.structured_content["status"] == "degraded"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_service_elsewhere_is_forwarded_to(service: Service, mode: str) -> None:
    environ = {"WORKROOM_URL": service.url, "WORKROOM_KEY": service.key}
    listed, answers = talk(
        environ,
        mode,
        ("exec_run", {"lang": "py", "code": program(stdout="there", code=4)}),
        ("exec_run", {"lang": "py", "code": program(fail="unavailable")}),
        ("files_list", {"session_id": "A" * 21}),
        ("exec_run", {"lang": "py", "code": "x", "extra": 1}),
    )
    assert "exec_run" in listed
    ran, failed, unknown, refused = answers
    assert not ran.is_error
    assert ran.structured_content["stdout"] == "there"
    assert ran.structured_content["code"] == 4
    assert (failed.is_error, unknown.is_error, refused.is_error) == (True, True, True)
    assert words(failed).startswith("executor_unavailable: ")
    assert words(unknown).startswith("not_found: ")
    assert "`extra`" in words(refused)


def test_two_keys_are_two_projects(service: Service) -> None:
    mine = {"WORKROOM_URL": service.url, "WORKROOM_KEY": service.key}
    theirs = {"WORKROOM_URL": service.url, "WORKROOM_KEY": service.other_key}
    _, [answer] = talk(mine, "auto", ("exec_run", {"lang": "py", "code": program(write={"a": "x"})}))
    asked = ("files_list", {"session_id": answer.structured_content["session_id"]})
    assert not talk(mine, "auto", asked)[1][0].is_error
    assert talk(theirs, "auto", asked)[1][0].is_error


def test_a_service_that_goes_away_is_a_failed_call(service: Service, tmp_path: Path) -> None:
    async def main() -> Any:
        room = open_test_room(tmp_path / "gone", Limits(), Scripted())
        with serving(room) as running:
            environ = {"PATH": os.environ["PATH"], "WORKROOM_URL": running.url, "WORKROOM_KEY": running.key}
            command = StdioServerParameters(
                command=sys.executable, args=["-m", "functions.cli.main", "mcp"], env=environ, cwd=PROJECT
            )
            client = Client(command)
            await client.__aenter__()
            await client.list_tools()
        try:
            return await client.call_tool("health_get", {})
        finally:
            await client.__aexit__(None, None, None)

    result = anyio.run(main)
    assert result.is_error
    assert words(result) == "unreachable: The service cannot be reached."
