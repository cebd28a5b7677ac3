"""Rows of agents.md that need a clock, a broken executor or the asynchronous client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import openai
import pytest

from shared.limits import Limits
from tests.agents.asking import Asker
from tests.agents.talking import SESSIONS, Talk, check_error
from tests.agents.test_sessions import body_of, key
from tests.fakes import Clock
from tests.wire.scripted import Scripted, program
from tests.wire.service import open_test_room, serving

HOSTED = {"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}}
CONFLICT = "This idempotency key was used with different input."


def test_11_20_a_creations_key_is_kept_for_a_day(tmp_path: Path) -> None:
    clock = Clock()
    limits = Limits()
    with serving(open_test_room(tmp_path, limits, Scripted(), clock=clock)) as service:
        talk = Talk(Asker(service), service.key)
        first = body_of(talk.post(SESSIONS, HOSTED, key("k")), 201)
        other = {**HOSTED, "metadata": {"a": "b"}}
        clock.forward(limits.record_ms - 1)
        assert body_of(talk.post(SESSIONS, HOSTED, key("k")), 201)["id"] == first["id"]
        check_error(talk.post(SESSIONS, other, key("k")), 409, CONFLICT, "idempotency_conflict")
        clock.forward(1)
        second = body_of(talk.post(SESSIONS, other, key("k")), 201)
        assert second["id"] != first["id"]
        assert body_of(talk.post(SESSIONS, other, key("k")), 201)["id"] == second["id"]
        check_error(talk.post(SESSIONS, HOSTED, key("k")), 409, CONFLICT, "idempotency_conflict")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("unavailable", "sandbox_error"),
        ("broken", "sandbox_error"),
        ("timeout", "sandbox_error"),
        ("throttled", "server_overloaded"),
    ],
)
def test_11_32_only_a_broken_executor_fails_a_turn(talk: Talk, kind: str, code: str) -> None:
    session = talk.create()["id"]
    turn = talk.done(session, fail=kind)
    assert (turn["status"], turn["error"]["code"]) == ("failed", code)
    shown = talk.get(f"{SESSIONS}/{session}")
    assert (shown["status"], shown["error"]) == ("idle", None)
    assert talk.done(session, stdout="goes on")["status"] == "completed"


def test_a_saved_agent_is_changed_by_the_client(sdk: openai.OpenAI) -> None:
    agents = sdk.beta.agents
    made = agents.create(model="program:py", name="first", instructions="one")
    changed = agents.update(made.id, name="second")
    assert (changed.id, changed.name, changed.instructions) == (made.id, "second", "one")
    assert agents.retrieve(made.id) == changed
    session = agents.sessions.create(agent_id=made.id, environment={"type": "openai_hosted"})
    assert (session.agent.id, session.agent.name) == (made.id, "second")


def test_sessions_are_found_by_their_metadata_by_the_client(sdk: openai.OpenAI) -> None:
    sessions = sdk.beta.agents.sessions
    wanted = {"team": "a&b=é", "n": "1"}
    made = sessions.create(agent={"model": "program:py"}, environment={"type": "openai_hosted"}, metadata=wanted)
    sessions.create(agent={"model": "program:py"}, environment={"type": "openai_hosted"}, metadata={"team": "c"})
    assert [row.id for row in sessions.list(metadata=wanted)] == [made.id]
    assert [row.id for row in sessions.list(metadata={"team": "a&b=é"})] == [made.id]
    changed = sessions.update(made.id, metadata={"team": "d"})
    assert changed.metadata == {"team": "d"}
    assert [row.id for row in sessions.list(metadata=wanted)] == []


def test_the_asynchronous_client_does_a_whole_script(talk: Talk, tmp_path: Path) -> None:
    local = tmp_path / "in.txt"
    local.write_bytes(b"given")

    async def script() -> None:
        async with openai.AsyncOpenAI(
            api_key=talk.key,
            base_url=f"{talk.asker.service.url}/v1",
            max_retries=0,
            timeout=30,
            _strict_response_validation=True,
        ) as client:
            agents = client.beta.agents
            session = await agents.sessions.create(agent={"model": "program:py"}, environment={"type": "openai_hosted"})
            environment = session.environment.id  # type: ignore[union-attr]
            await agents.environments.files.upload(environment, file=local, path="/workspace/in.txt")
            page = await agents.environments.files.list(environment)
            assert [(row.path, row.size_bytes) for row in page.data] == [("/workspace/in.txt", 5)]
            text = program(write={"outputs/out.txt": "made"}, stdout="said")
            if talk.asker.service.door == "local":
                async with agents.sessions.stream(session.id, input=text) as stream:
                    result = await stream.with_result_collection().get_final_result()
                assert result.output_text == "said"
            else:
                # The other doors have no streams here: a client polls.
                said = {"role": "user", "content": [{"type": "input_text", "text": text}]}
                event = {"type": "agent.session.input.message", "input": [said]}
                await agents.sessions.events.create(session.id, events=[event])  # type: ignore[list-item]
                while [turn.status async for turn in agents.sessions.turns.list(session.id)] != ["completed"]:
                    await asyncio.sleep(0.02)
            artifacts = [row async for row in agents.sessions.artifacts.list(session.id)]
            assert [row.path for row in artifacts] == ["/workspace/outputs/out.txt"]
            content = await agents.sessions.artifacts.content(artifacts[0].id, session_id=session.id)
            assert await content.aread() == b"made"
            with pytest.raises(openai.NotFoundError):
                await agents.sessions.retrieve("sess_nobody")
            assert (await agents.sessions.delete(session.id)).deleted

    asyncio.run(asyncio.wait_for(script(), 60))
    assert talk.get(f"{SESSIONS}?limit=1")["object"] == "list"
