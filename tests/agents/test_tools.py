"""Turns that wait for functions of the caller's, through the SDK and its tool handlers (agents.md 5.2, 8, 11.37)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.beta import AgentSession

from shared.limits import Limits
from tests.agents.asking import BETA, JSON, Asker
from tests.agents.engines import MODEL, TABLE
from tests.wire.scripted import Scripted
from tests.wire.service import expect_eventually, open_test_room, serving

TOOL: Any = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
}


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    room = open_test_room(tmp_path_factory.mktemp("tools"), Limits(waiting_ms=3_000), Scripted())
    with serving(replace(room, engines=TABLE)) as running:
        yield Asker(running)


@pytest.fixture
def client(asker: Asker) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        api_key=asker.service.key,
        base_url=f"{asker.service.url}/v1",
        max_retries=0,
        timeout=30,
        _strict_response_validation=True,
    ) as made:
        yield made


def made(client: openai.OpenAI) -> AgentSession:
    return client.beta.agents.sessions.create(
        agent={"model": MODEL, "tools": [TOOL]}, environment={"type": "openai_hosted"}
    )


def say(client: openai.OpenAI, session: str, script: object) -> None:
    client.beta.agents.sessions.events.create(
        session,
        events=[
            {
                "type": "agent.session.input.message",
                "input": [{"role": "user", "content": [{"type": "input_text", "text": json.dumps(script)}]}],
            }
        ],
    )


def waiting(client: openai.OpenAI, calls: object) -> tuple[str, list[Any]]:
    """A Session whose Turn waits, and what it asks for."""
    session = made(client).id
    say(client, session, {"calls": calls})
    expect_eventually(lambda: client.beta.agents.sessions.retrieve(session).status == "requires_action")
    return session, list(client.beta.agents.sessions.retrieve(session).required_actions)


def answer(client: openai.OpenAI, session: str, action: Any, **more: Any) -> None:
    event: Any = {
        "type": "agent.session.input.tool_result",
        "turn_id": action.turn_id,
        "call_id": action.call_id,
        "success": True,
        "output": "3",
        **more,
    }
    client.beta.agents.sessions.events.create(session, events=[event])


def check_refused(code: str, text: str, work: Callable[[], object]) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as refused:
        work()
    assert (refused.value.code, refused.value.body["message"]) == (code, text)  # type: ignore[index]
    return refused.value


def last_message(client: openai.OpenAI, session: str) -> str:
    items = client.beta.agents.sessions.items.list(session, order="desc")
    item = next(item for item in items if item.type == "message")
    text: str = item.content[0].text  # type: ignore[union-attr]
    return text


def test_handlers_answer_the_calls_and_the_turn_goes_on(client: openai.OpenAI) -> None:
    session = made(client).id
    asked: list[dict[str, Any]] = []

    def add(arguments: dict[str, Any]) -> str:
        asked.append(arguments)
        return str(arguments["a"] + arguments["b"])

    script = json.dumps({"calls": [["add", {"a": 1, "b": 2}], ["add", {"a": 3, "b": 4}]]})
    with client.beta.agents.sessions.stream(session, input=script, tool_handlers={"add": add}) as stream:
        stream.with_result_collection()
        kinds = [event.type.removeprefix("agent.session.") for event in stream]
        result = stream.get_final_result()
    assert sorted(asked, key=lambda row: row["a"]) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert json.loads(result.output_text) == [[True, "3", None], [True, "7", None]]
    assert kinds.count("requires_action") == 1
    assert kinds.count("turn.completed") == 1
    assert kinds[-1] == "idle"
    items = [item.type for item in client.beta.agents.sessions.items.list(session, order="asc")]
    assert items == [
        "message", "function_call", "function_call", "function_call_output", "function_call_output", "message",
    ]  # fmt: skip


def test_a_handler_that_fails_is_told_as_that(client: openai.OpenAI) -> None:
    session = made(client).id

    def add(arguments: dict[str, Any]) -> str:
        raise ValueError(arguments)

    script = json.dumps({"calls": [["add", {"a": 1}]]})
    with client.beta.agents.sessions.stream(session, input=script, tool_handlers={"add": add}) as stream:
        result = stream.with_result_collection().get_final_result()
    assert json.loads(result.output_text) == [[False, None, "Tool handler failed."]]
    outputs = [item for item in client.beta.agents.sessions.items.list(session) if item.type == "function_call_output"]
    assert [(item.status, item.error) for item in outputs] == [("failed", "Tool handler failed.")]


def test_a_turn_may_wait_again_and_again(client: openai.OpenAI) -> None:
    session = made(client).id
    more = iter(['{"calls": [["add", {}]]}', '{"calls": [["add", [1]]]}', "done"])
    script = json.dumps({"calls": [["add", {}]]})
    with client.beta.agents.sessions.stream(
        session, input=script, tool_handlers={"add": lambda arguments: next(more)}
    ) as stream:
        events = []
        try:
            for event in stream:
                events.append(event)
        except ValueError:
            pass
    indices = [event.output_index for event in events if event.type == "agent.session.turn.item.done"]
    assert indices == list(range(len(indices)))
    assert len(indices) >= 2


def test_what_a_waiting_session_shows(client: openai.OpenAI) -> None:
    session, actions = waiting(client, [["add", {"a": 1}], ["add", "text"]])
    assert [(action.type, action.name, action.arguments) for action in actions] == [
        ("function_call", "add", {"a": 1}), ("function_call", "add", "text"),
    ]  # fmt: skip
    (turn,) = client.beta.agents.sessions.turns.list(session)
    assert turn.status == "waiting"
    assert {action.turn_id for action in actions} == {turn.id}
    answer(client, session, actions[0])
    remaining = client.beta.agents.sessions.retrieve(session)
    assert remaining.status == "requires_action"
    assert [action.call_id for action in remaining.required_actions if action.type == "function_call"] == [
        actions[1].call_id
    ]
    answer(client, session, actions[1], success=False, output=None, error="no")
    expect_eventually(lambda: client.beta.agents.sessions.retrieve(session).status == "idle")
    assert json.loads(last_message(client, session)) == [[True, "3", None], [False, None, "no"]]


def test_the_rows_of_results(client: openai.OpenAI) -> None:
    session, (first, second) = waiting(client, [["add", {}], ["add", {}]])
    other, (foreign,) = waiting(client, [["add", {}]])
    unknown = f"Unknown pending tool call: {foreign.call_id}"
    check_refused("invalid_request_error", unknown, lambda: answer(client, session, foreign))
    check_refused(
        "invalid_request_error", "Unknown pending tool call: nonsense",
        lambda: answer(client, session, first, call_id="nonsense"),
    )  # fmt: skip
    check_refused(
        "invalid_request_error", "The tool call belongs to a different Turn.",
        lambda: answer(client, session, first, turn_id=foreign.turn_id),
    )  # fmt: skip
    answer(client, session, first)
    answer(client, session, first)
    different = check_refused(
        "conflict_error", "The tool call already has a different result.",
        lambda: answer(client, session, first, output="4"),
    )  # fmt: skip
    assert different.status_code == 409
    answer(client, session, second)
    expect_eventually(lambda: client.beta.agents.sessions.retrieve(session).status == "idle")
    check_refused(
        "invalid_request_error", f"Unknown pending tool call: {first.call_id}", lambda: answer(client, session, first)
    )
    assert client.beta.agents.sessions.retrieve(other).status == "requires_action"


def test_a_waiting_turn_can_be_cancelled(client: openai.OpenAI) -> None:
    session, (action,) = waiting(client, [["add", {}]])
    client.beta.agents.sessions.events.create(session, events=[{"type": "agent.session.input.cancel"}])
    (turn,) = client.beta.agents.sessions.turns.list(session)
    assert turn.status == "cancelled"
    assert client.beta.agents.sessions.retrieve(session).required_actions == []
    with pytest.raises(openai.BadRequestError):
        answer(client, session, action)
    say(client, session, {"say": "on"})
    expect_eventually(lambda: client.beta.agents.sessions.retrieve(session).status == "idle")
    assert last_message(client, session) == "on"


def test_a_message_to_a_waiting_turn_is_its_next_input(client: openai.OpenAI) -> None:
    session, (action,) = waiting(client, [["add", {}]])
    say(client, session, {"say": "steered"})
    with pytest.raises(openai.ConflictError) as refused:
        say(client, session, {"say": "too early"})
    assert refused.value.body["message"] == "Earlier input to this Session is still pending."  # type: ignore[index]
    answer(client, session, action)
    expect_eventually(lambda: client.beta.agents.sessions.retrieve(session).status == "idle")
    assert len(list(client.beta.agents.sessions.turns.list(session))) == 1
    texts = [
        item.content[0].text  # type: ignore[union-attr]
        for item in client.beta.agents.sessions.items.list(session, order="asc")
        if item.type == "message" and item.role == "assistant"
    ]
    assert texts == ['[[true, "3", null]]', "steered"]


def test_a_turn_that_waits_too_long_fails(client: openai.OpenAI) -> None:
    session, (action,) = waiting(client, [["add", {}]])
    time.sleep(3.1)
    (turn,) = client.beta.agents.sessions.turns.list(session)
    assert turn.error is not None
    assert (turn.status, turn.error.code) == ("failed", "request_timeout")
    assert client.beta.agents.sessions.retrieve(session).status == "idle"
    with pytest.raises(openai.BadRequestError):
        answer(client, session, action)


def test_a_session_that_waits_is_not_deleted(client: openai.OpenAI) -> None:
    session, _ = waiting(client, [["add", {}]])
    with pytest.raises(openai.ConflictError) as refused:
        client.beta.agents.sessions.delete(session)
    assert refused.value.body["message"] == (  # type: ignore[index]
        "session must be durably idle or failed without required actions before deletion"
    )


def test_reasoning_is_an_item_and_frames(client: openai.OpenAI) -> None:
    session = made(client).id
    script = json.dumps({"think": ["first", "second"], "say": "done"})
    with client.beta.agents.sessions.stream(session, input=script) as stream:
        kinds = [event.type.removeprefix("agent.session.turn.") for event in stream]
    part = ["reasoning_summary_part.added", "reasoning_summary_text.delta",
            "reasoning_summary_text.done", "reasoning_summary_part.done"]  # fmt: skip
    begin = kinds.index(part[0])
    assert kinds[begin : begin + 9] == [*part, *part, "item.done"]
    (item,) = [item for item in client.beta.agents.sessions.items.list(session) if item.type == "reasoning"]
    assert [row.text for row in item.summary] == ["first", "second"]


def test_a_conversation_needs_no_environment(client: openai.OpenAI, asker: Asker) -> None:
    with client.beta.agents.sessions.create(
        agent={"model": MODEL}, environment={"type": "none"}, input='{"say": "hello"}', stream=True
    ) as stream:
        result = stream.with_result_collection().get_final_result()
    assert result.output_text == "hello"
    session = client.beta.agents.sessions.retrieve(result.turn.session_id)
    assert session.environment.type == "none"
    ident = json.loads(asker.ask("GET", f"/v1/agents/sessions/{session.id}", BETA).body)["environment"]["id"]
    retrieved = asker.ask("GET", f"/v1/agents/environments/{ident}", BETA)
    assert retrieved.status == 404
    listed = asker.ask("GET", f"/v1/agents/environments/{ident}/files", BETA)
    assert (listed.status, json.loads(listed.body)["error"]["code"]) == (503, "execution_unavailable")
    written = asker.ask(
        "POST", f"/v1/agents/environments/{ident}/files", BETA, JSON,
        body=b'{"type": "inline", "data": "", "path": "/workspace/a"}',
    )  # fmt: skip
    assert (written.status, json.loads(written.body)["error"]["code"]) == (503, "execution_unavailable")


def test_structured_output(client: openai.OpenAI, tmp_path: Path) -> None:
    import pydantic  # noqa: PLC0415

    class Answer(pydantic.BaseModel):
        value: int

    del tmp_path
    text = json.dumps({"say": json.dumps({"value": 7})})
    with client.beta.agents.sessions.create(
        agent={"model": MODEL}, environment={"type": "none"}, input=text, stream=True, output_type=Answer
    ) as stream:
        result = stream.with_result_collection().get_final_result()
    assert result.output_parsed == Answer(value=7)
    session = client.beta.agents.sessions.retrieve(result.turn.session_id)
    assert session.agent.text.format.type == "json_schema"
