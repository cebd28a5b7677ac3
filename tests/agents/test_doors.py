"""One Session made, spoken to and read at each of the other doors: MCP tools, the command, the direct function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.cli.main import main
from functions.direct import app
from functions.environment import HERE
from shared.limits import Limits
from tests.events.samples import SETTINGS, Context
from tests.mcp.test_mcp_http import ask
from tests.wire.scripted import Scripted, program
from tests.wire.service import Service, expect_eventually, open_test_room, serving

Do = Callable[..., tuple[bool, Any]]
"""Runs an operation by its name: whether it was done, and its answer or its error."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(open_test_room(tmp_path / "data", Limits(), Scripted())) as running:
        yield running


@pytest.fixture
def mcp(service: Service) -> Do:
    def do(name: str, **given: Any) -> tuple[bool, Any]:
        answer = ask(f"{service.url}/mcp", service.key, name.replace(".", "_"), given)
        return not answer.is_error, answer.structured_content

    return do


@pytest.fixture
def cli(service: Service, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Do:
    monkeypatch.setenv("WORKROOM_URL", service.url)
    monkeypatch.setenv("WORKROOM_KEY", service.key)

    def do(name: str, **given: Any) -> tuple[bool, Any]:
        capfdbinary.readouterr()
        code = main(("call", name, json.dumps(given)))
        out = capfdbinary.readouterr().out
        return code == 0, json.loads(out) if out.strip() else None

    return do


@pytest.fixture
def direct(service: Service) -> Iterator[Do]:
    def do(name: str, **given: Any) -> tuple[bool, Any]:
        answer: Any = app.handler({"operation": name, "input": given, "credential": service.key}, Context())
        return answer["status"] < 300, answer["body"]

    with HERE.using(service.room, SETTINGS):
        yield do


@pytest.mark.parametrize("way", ["mcp", "cli", "direct"])
def test_a_session_from_creation_to_deletion(request: pytest.FixtureRequest, way: str) -> None:
    do: Do = request.getfixturevalue(way)

    def done(name: str, **given: Any) -> Any:
        well, answer = do(name, **given)
        assert well, answer
        return answer

    made = done("sessions.create", agent={"model": "program:py"}, environment={"type": "openai_hosted"})
    session = made["id"]
    assert (made["object"], made["status"]) == ("agent.session", "idle")
    script = program(stdout="said", write={"outputs/a.txt": "hello"})
    content = [{"type": "input_text", "text": script}]
    message = {"type": "agent.session.input.message", "input": [{"role": "user", "content": content}]}
    done("events.create", session_id=session, events=[message])
    expect_eventually(lambda: done("sessions.get", session_id=session)["status"] == "idle", 30)
    (turn,) = done("turns.list", session_id=session)["data"]
    assert (turn["status"], turn["error"]) == ("completed", None)
    said = done("turns.items", session_id=session, turn_id=turn["id"], limit=1)["data"][0]
    assert said["content"] == [{"type": "output_text", "text": "said"}]
    (artifact,) = done("artifacts.list", session_id=session)["data"]
    assert done("artifacts.get", session_id=session, artifact_id=artifact["id"]) == artifact
    assert (artifact["path"], artifact["size_bytes"]) == ("/workspace/outputs/a.txt", 5)
    files = done("environments.list_files", environment_id=made["environment"]["id"], path="/workspace/outputs")
    assert [row["path"] for row in files["data"]] == ["/workspace/outputs/a.txt"]
    assert not do("sessions.get", session_id=session + "x")[0]
    assert not do("sessions.create", agent={"model": "none"}, environment={"type": "openai_hosted"})[0]
    assert [row["id"] for row in done("sessions.list")["data"]] == [session]
    assert done("sessions.delete", session_id=session)["deleted"] is True
    assert not do("artifacts.get", session_id=session, artifact_id=artifact["id"])[0]
