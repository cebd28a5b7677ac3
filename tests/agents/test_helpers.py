"""The helpers of the official client (agents.md 8), and the order of a Turn's frames that they rely on (5.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from openai.lib.beta.agents._files import AgentFileStagingError

from tests.agents.talking import ENVIRONMENTS, SESSIONS, Talk, Things, check_error
from tests.wire.scripted import program

AGENT: Any = {"model": "program:py"}
HOSTED: Any = {"type": "openai_hosted"}
streams = pytest.mark.doors("local", why="only the service itself carries event streams")


def test_a_file_is_uploaded_and_staged(sdk: openai.OpenAI, talk: Talk, tmp_path: Path) -> None:
    local = tmp_path / "a.txt"
    local.write_bytes(b"hello")
    environment = talk.create()["environment"]["id"]
    files = sdk.beta.agents.environments.files
    staged = files.upload(environment, file=local, path="/workspace/in/a.txt")
    assert (staged.file.path, staged.file.size_bytes) == ("/workspace/in/a.txt", 5)
    assert sdk.files.retrieve(staged.uploaded_file_id).bytes == 5
    assert [row.path for row in files.list(environment, path="/workspace/in")] == ["/workspace/in/a.txt"]
    with pytest.raises(AgentFileStagingError) as refused:
        files.upload(environment, file=local, path="/workspace/in/a.txt")
    assert isinstance(refused.value.__cause__, openai.BadRequestError)
    assert sdk.files.retrieve(refused.value.uploaded_file_id).bytes == 5
    with pytest.raises(AgentFileStagingError) as missing:
        files.upload("env_nothing", file=local, path="/workspace/b.txt")
    assert isinstance(missing.value.__cause__, openai.NotFoundError)


def test_a_directory_is_prepared_for_a_new_session(sdk: openai.OpenAI, talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "sub/b.txt", "c.bin"):
        (tmp_path / name).write_text(name)
    files = sdk.beta.agents.environments.files
    prepared = files.prepare_directory(tmp_path, destination="/workspace/in", include=["**/*.txt"])
    assert len(prepared.uploaded_file_ids) == 2
    more = files.prepare({"/workspace/c": tmp_path / "c.bin"})
    environment: Any = {**HOSTED, "files": [*prepared.files, *more.files]}
    made = sdk.beta.agents.sessions.create(agent=AGENT, environment=environment, input=program(show="files"))
    talk.settled(made.id)
    (turn,) = sdk.beta.agents.sessions.turns.list(made.id)
    assert turn.status == "completed"
    info = sdk.beta.agents.environments.retrieve(made.environment.id)  # type: ignore[union-attr]
    assert info.status == "connected"
    paths = sorted(row.path for row in info.files)
    assert paths == ["/workspace/c", "/workspace/in/a.txt", "/workspace/in/sub/b.txt"]
    listed = files.list(info.id, path="/workspace/in", limit=1, order="asc")
    assert [row.path for row in listed] == ["/workspace/in/a.txt"]


@streams
def test_a_turn_in_the_documented_order_and_its_artifacts(sdk: openai.OpenAI, talk: Talk, tmp_path: Path) -> None:
    sessions = sdk.beta.agents.sessions
    session = talk.create()["id"]
    script = program(print=["one ", "two"], write={"outputs/a.txt": "hello"})
    with sessions.stream(session, input=script) as stream:
        stream.with_result_collection()
        events = list(stream)
        result = stream.get_final_result()
    assert result.output_text == "one two"
    assert len({event.event_id for event in events}) == len(events)
    kinds = [event.type.removeprefix("agent.session.") for event in events]
    assert kinds[:4] == ["turn.created", "turn.item.added", "in_progress", "turn.in_progress"]
    assert kinds[-2:] == ["turn.completed", "idle"]
    (item,) = [e.item for e in events if e.type == "agent.session.turn.item.done" and e.item.type == "message"]
    own = [
        event.type.removeprefix("agent.session.turn.") for event in events
        if getattr(event, "item_id", None) == item.id or getattr(getattr(event, "item", None), "id", None) == item.id
    ]  # fmt: skip
    deltas = own.count("output_text.delta")
    assert deltas >= 1
    assert own == [
        "item.added", "content_part.added", *["output_text.delta"] * deltas, "output_text.done", "content_part.done",
        "item.done",
    ]  # fmt: skip
    told = "".join(e.delta for e in events if e.type == "agent.session.turn.output_text.delta")
    assert told == "one two"
    found = sessions.artifacts.for_result(result)
    assert found.content("/workspace/outputs/a.txt").read() == b"hello"
    artifact = found.download("/workspace/outputs/a.txt", to=tmp_path / "down")
    assert ((tmp_path / "down").read_bytes(), artifact.turn_id) == (b"hello", result.turn_id)
    with pytest.raises(ValueError, match="rtifact"):
        found.content("/workspace/outputs/none")


@streams
def test_an_unchanged_file_is_no_artifact_of_the_later_turn(sdk: openai.OpenAI, talk: Talk) -> None:
    sessions = sdk.beta.agents.sessions
    session = talk.create()["id"]
    script = program(write={"outputs/a.txt": "hello"})
    talk.done(session, write={"outputs/a.txt": "hello"})
    with sessions.stream(session, input=script) as stream:
        result = stream.with_result_collection().get_final_result()
    with pytest.raises(ValueError, match="rtifact"):
        sessions.artifacts.for_result(result).content("/workspace/outputs/a.txt")


@streams
def test_a_creation_stream_tells_everything_and_ends(sdk: openai.OpenAI) -> None:
    sessions = sdk.beta.agents.sessions
    with sessions.create(agent=AGENT, environment=HOSTED, input=program(stdout="hi"), stream=True) as stream:
        stream.with_result_collection()
        events = list(stream)
        result = stream.get_final_result()
    kinds = [event.type.removeprefix("agent.session.") for event in events]
    assert kinds[:3] == ["created", "environment.connected", "turn.created"]
    assert kinds[-2:] == ["turn.completed", "idle"]
    assert kinds.count("idle") == 1
    assert (result.output_text, result.turn.status) == ("hi", "completed")
    assert len({event.event_id for event in events}) == len(events)


@streams
def test_a_failed_turn_is_an_error_of_the_result(sdk: openai.OpenAI, talk: Talk) -> None:
    from openai.lib.beta.agents._result import AgentTurnResultError  # noqa: PLC0415

    session = talk.create()["id"]
    with sdk.beta.agents.sessions.stream(session, input=program(fail="broken")) as stream:
        stream.with_result_collection()
        with pytest.raises(AgentTurnResultError) as failed:
            stream.get_final_result()
    assert failed.value.reason == "failed"
    assert talk.get(f"{SESSIONS}/{session}")["status"] == "idle"


@pytest.mark.doors("http-api", "function-url", why="the service itself does carry event streams")
def test_a_door_without_streams_refuses_before_anything_is_made(talk: Talk, things: Things) -> None:
    before = talk.data(f"{SESSIONS}?limit=1")
    words = "Streaming is not available at this address. Use the streaming address of the service."
    body = {"agent": AGENT, "environment": HOSTED, "input": program(), "stream": True}
    check_error(talk.post(SESSIONS, body, ("Idempotency-Key", "stream")), 400, words, param="stream")
    check_error(talk.ask("GET", f"{SESSIONS}/{things.session}/events"), 400, words)
    assert talk.data(f"{SESSIONS}?limit=1") == before
    assert talk.post(SESSIONS, {**body, "stream": False}, ("Idempotency-Key", "stream")).status == 201
    assert talk.get(f"{ENVIRONMENTS}/{things.environment}")["status"] == "connected"
