"""Frames in the documented order, stored lean and sent whole (agents.md 5.3, 11.2, 11.12, 11.27)."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.agents import events, ids
from shared.domain.agents.events import Frame, Source
from shared.domain.agents.stored import LEAN, Ending, full, needs, stored

SOURCE = Source("sess_1", "turn_1")
STATIC = {"id": "sess_1", "object": "agent.session", "metadata": {"k": "v" * 9_000}}
ITEM = {"id": "item_2", "turn_id": "turn_1", "type": "message", "role": "assistant", "status": "completed"}
USER: Frame = {
    "id": "item_1", "turn_id": "turn_1", "type": "message", "role": "user", "status": "completed",
    "content": [{"type": "input_text", "text": "hi"}],
}  # fmt: skip


def message(text: str) -> Frame:
    return {**ITEM, "content": [{"type": "output_text", "text": text}]}


def command(output: str | None, **more: Any) -> Frame:
    made = {
        "id": "item_3", "turn_id": "turn_1", "type": "command_execution", "command": "echo", "cwd": None,
        "output": output, "exit_code": 0, "duration_ms": 5, "status": "completed",
    }  # fmt: skip
    return {**made, **more}


def turn(status: str) -> Frame:
    return {"id": "turn_1", "session_id": "sess_1", "status": status, "usage": None, "error": None}


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"].removeprefix("agent.session.") for frame in frames]


def session(status: str = "idle") -> Frame:
    return {"status": status}


def test_5_3_a_turn_begins_in_the_documented_order() -> None:
    frames = [events.turn_frame(turn("queued")), *events.begun(turn("in_progress"), session("in_progress"), [USER])]
    assert kinds(frames) == ["turn.created", "turn.item.added", "in_progress", "turn.in_progress"]
    assert frames[1] == {
        "type": "agent.session.turn.item.added", "session_id": "sess_1", "turn_id": "turn_1", "item": USER,
        "output_index": None,
    }  # fmt: skip
    assert set(frames[0]) == {"type", "session_id", "turn_id", "turn"}


def test_5_3_an_assistant_s_message_in_the_documented_order() -> None:
    frames = [*events.message_begun(SOURCE, message("ab"), 1), events.text_delta(SOURCE, "item_2", 1, "a")]
    frames += events.message_ended(SOURCE, message("ab"), 1, "a")
    assert kinds(frames) == [
        "turn.item.added", "turn.content_part.added", "turn.output_text.delta", "turn.output_text.delta",
        "turn.output_text.done", "turn.content_part.done", "turn.item.done",
    ]  # fmt: skip
    place = {"session_id": "sess_1", "turn_id": "turn_1", "item_id": "item_2", "output_index": 1, "content_index": 0}
    assert (frames[0]["item"]["status"], frames[0]["item"]["content"]) == ("in_progress", [])
    assert frames[1] == {
        "type": "agent.session.turn.content_part.added", **place, "part": {"type": "output_text", "text": ""},
    }  # fmt: skip
    assert frames[2] == {"type": "agent.session.turn.output_text.delta", **place, "delta": "a"}
    assert frames[4] == {"type": "agent.session.turn.output_text.done", **place, "text": "ab"}
    assert frames[5]["part"] == {"type": "output_text", "text": "ab"}
    assert (frames[6]["item"], frames[6]["output_index"]) == (message("ab"), 1)


@given(st.text(max_size=40), st.integers(0, 40), st.booleans())
def test_5_3_the_deltas_make_the_text_and_there_is_one_at_least(text: str, at: int, big: bool) -> None:
    text = text * 2_000 if big else text
    sent = text[:at]
    told = [sent] if sent else []
    told += [frame["delta"] for frame in events.message_ended(SOURCE, message(text), 0, sent) if "delta" in frame]
    assert "".join(told) == text
    assert told
    assert max(map(len, told)) <= 16_384


def test_a_text_that_was_told_wrongly_is_told_right_by_its_ends() -> None:
    frames = events.message_ended(SOURCE, message("right"), 0, "wrong")
    assert kinds(frames) == ["turn.output_text.done", "turn.content_part.done", "turn.item.done"]
    assert frames[0]["text"] == "right"


def test_5_3_a_command_tells_what_it_prints() -> None:
    frames = events.command_ended(SOURCE, command("one\ntwo\n"), 0, "one\n")
    assert [frame["type"] for frame in frames] == [
        "agent.output.command_execution_output.delta",
        "agent.session.turn.item.done",
    ]
    assert {name: frames[0][name] for name in ("session_id", "turn_id", "item_id", "output_index", "delta")} == {
        "session_id": "sess_1", "turn_id": "turn_1", "item_id": "item_3", "output_index": 0, "delta": "two\n",
    }  # fmt: skip
    assert kinds(events.command_ended(SOURCE, command(None), 0, "")) == ["turn.item.done"]


def test_5_3_reasoning_in_order_part_by_part() -> None:
    item = {
        "id": "item_4", "type": "reasoning", "status": "completed",
        "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": ""}],
    }  # fmt: skip
    frames = events.reasoning(SOURCE, item, 2)
    part = ["part.added", "text.delta", "text.done", "part.done"]
    assert kinds(frames) == [
        "turn.item.added", *(f"turn.reasoning_summary_{kind}" for kind in part * 2), "turn.item.done",
    ]  # fmt: skip
    assert [frame["summary_index"] for frame in frames[1:-1]] == [0] * 4 + [1] * 4
    assert (frames[0]["item"]["summary"], frames[2]["delta"], frames[6]["delta"]) == ([], "a", "")


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled"])
def test_5_3_11_2_a_turn_ends_and_then_the_session_is_idle(outcome: str) -> None:
    frames = events.turn_ended(turn(outcome), session(), [(command(None, status="in_progress"), 0)])
    assert kinds(frames) == ["turn.item.done", f"turn.{outcome}", "idle"]
    assert frames[0]["item"]["status"] == "incomplete"
    assert frames[1]["usage"] is None
    assert not any(frame.get("error") for frame in frames)


def test_a_waiting_turn_has_no_frame_of_its_own() -> None:
    with pytest.raises(KeyError):
        events.turn_frame(turn("waiting"))
    call = {"id": "item_5", "type": "function_call", "call_id": "c", "status": "completed"}
    frames = events.calls_wait(SOURCE, session("requires_action"), [(call, 3)])
    assert kinds(frames) == ["turn.item.added", "turn.item.done", "requires_action"]
    assert (frames[0]["item"]["status"], frames[1]["item"]["status"]) == ("in_progress", "completed")


@pytest.mark.parametrize("waited", [True, False])
def test_2_11_12_a_failed_environment_tells_its_error_last(waited: bool) -> None:
    both = (turn("in_progress"), turn("failed")) if waited else None
    frames = events.environment_failed(session("failed"), "env_1", "openai_hosted", "sess_1", both)
    middle = ["turn.in_progress", "turn.failed"] if waited else []
    assert kinds(frames) == ["environment.failed", *middle, "failed", "error"]
    assert frames[0] == {
        "type": "agent.session.environment.failed", "session_id": "sess_1", "turn_id": None,
        "environment": {
            "id": "env_1", "type": "openai_hosted", "status": "failed",
            "error": {
                "type": "environment_error", "code": "environment_connection_failed",
                "message": "The environment failed to connect.",
            },
        },
    }  # fmt: skip
    assert frames[-1]["error"]["code"] == "sandbox_error"
    assert [bool(frame.get("error")) for frame in frames] == [False] * (len(frames) - 1) + [True]


def test_2_a_connected_environment() -> None:
    frame = events.environment_frame(Source("sess_1"), "env_1", "openai_hosted", "connected")
    assert frame["type"] == "agent.session.environment.connected"
    assert frame["environment"] == {"id": "env_1", "type": "openai_hosted", "status": "connected", "error": None}


def everything(text: str) -> tuple[list[Frame], dict[str, Frame]]:
    """One frame of each kind, with the items as they are when a reader comes."""
    reasoned = {
        "id": "item_4", "type": "reasoning", "status": "completed",
        "summary": [{"type": "summary_text", "text": "s" + text}, {"type": "summary_text", "text": text}],
    }  # fmt: skip
    user = {**USER, "content": [{"type": "input_text", "text": text}]}
    ran = command("out" + text, command=text)
    frames = [
        events.session_frame("created", {"status": "idle"}),
        events.turn_frame(turn("queued")),
        *events.begun(turn("in_progress"), session("in_progress"), [user]),
        events.item_added(SOURCE, command(None, command=text, exit_code=None, status="in_progress"), 0),
        *events.message_begun(SOURCE, message(text), 1),
        *events.command_ended(SOURCE, ran, 0, "o"),
        *events.message_ended(SOURCE, message(text), 1, ""),
        *events.reasoning(SOURCE, reasoned, 2),
        *events.turn_ended(turn("completed"), session()),
    ]
    items: list[Frame] = [user, ran, message(text), reasoned]
    return frames, {item["id"]: item for item in items}


def sent(frame: Frame) -> Frame:
    """What stands on the wire of a frame as it was made, but for its event id."""
    wire = {name: value for name, value in frame.items() if name not in ("slice", "from_session")}
    return {**wire, "session": {**STATIC, **frame["session"]}} if "session" in frame else wire


@pytest.mark.parametrize("text", ["", "short", "é🤣" * 3_000, "x" * 100_000])
def test_11_27_what_is_stored_lean_is_sent_whole(text: str) -> None:
    frames, items = everything(text)
    kept = json.loads(json.dumps(stored(frames, 41, os.urandom)))
    assert all(len(json.dumps(frame, separators=(",", ":"))) <= LEAN + 200 for frame in kept)
    for at, (frame, made) in enumerate(zip(kept, frames, strict=True)):
        wanted = needs(frame)
        got = full(frame, STATIC, None if wanted is None else items[wanted])
        event_id = got.pop("event_id")
        assert ids.sequence_of(event_id, "evt") == 41 + at
        assert got == sent(made)
    if len(text) < 100:
        assert all(needs(frame) is None for frame in kept)
    else:
        assert {needs(frame) for frame in kept} - {None} == set(items)


def test_event_ids_sort_as_the_frames_do_and_are_never_the_same() -> None:
    kept = stored([events.turn_frame(turn("queued"))] * 40, 1, os.urandom)
    found = [frame["event_id"] for frame in kept]
    assert found == sorted(set(found))
    assert list(kept[0])[:2] == ["type", "event_id"]


def test_a_lean_frame_is_not_sent_without_its_item() -> None:
    (frame,) = stored([events.item_done(SOURCE, message("x" * 9_000), 0)], 1, os.urandom)
    with pytest.raises(ValueError, match="item"):
        full(frame, STATIC)


def ended_at(creation: bool, frames: list[Frame]) -> int | None:
    state = Ending(creation)
    for at, frame in enumerate(frames):
        state = state.after(frame)
        if state.over:
            return at
    return None


def test_5_3_a_creation_stream_ends_behind_the_first_idle_after_the_turn() -> None:
    begin = [events.session_frame("created", {}), events.session_frame("idle", {}), events.turn_frame(turn("queued"))]
    middle = [events.session_frame("requires_action", {}), events.session_frame("in_progress", {})]
    over = [*events.turn_ended(turn("failed"), {}), events.turn_frame(turn("queued"))]
    assert ended_at(True, [*begin, *middle, *over]) == 6
    assert ended_at(False, [*begin, *middle, *over]) is None
    failure = events.environment_failed({}, "env_1", "openai_hosted", "sess_1")
    assert ended_at(True, failure) == 1
    assert ended_at(False, failure) == 2


SDK: dict[str, str] = {
    "agent.session.turn.created": "AgentSessionTurnCreatedEvent",
    "agent.session.turn.item.added": "AgentSessionTurnItemAddedEvent",
    "agent.session.turn.item.done": "AgentSessionTurnItemDoneEvent",
    "agent.session.turn.content_part.added": "AgentSessionTurnContentPartAddedEvent",
    "agent.session.turn.content_part.done": "AgentSessionTurnContentPartDoneEvent",
    "agent.session.turn.output_text.delta": "AgentSessionTurnOutputTextDeltaEvent",
    "agent.session.turn.output_text.done": "AgentSessionTurnOutputTextDoneEvent",
    "agent.session.turn.reasoning_summary_part.added": "AgentSessionTurnReasoningSummaryPartAddedEvent",
    "agent.session.turn.reasoning_summary_part.done": "AgentSessionTurnReasoningSummaryPartDoneEvent",
    "agent.session.turn.reasoning_summary_text.delta": "AgentSessionTurnReasoningSummaryTextDeltaEvent",
    "agent.session.turn.reasoning_summary_text.done": "AgentSessionTurnReasoningSummaryTextDoneEvent",
    "agent.session.turn.completed": "AgentSessionTurnCompletedEvent",
    "agent.session.environment.failed": "AgentSessionEnvironmentFailedEvent",
    "agent.output.command_execution_output.delta": "AgentOutputCommandExecutionOutputDeltaEvent",
    "error": "AgentSessionErrorEvent",
}


def test_5_3_every_frame_is_of_the_sdk_s_shape() -> None:
    beta = pytest.importorskip("openai.types.beta")
    frames, _ = everything("text")
    frames += events.environment_failed({}, "env_1", "openai_hosted", "sess_1")
    checked = set()
    for frame in frames:
        name = SDK.get(frame["type"])
        if name is None:
            continue
        fields = getattr(beta, name).model_fields
        members = set(sent(frame)) | {"event_id"}
        assert members <= set(fields), frame["type"]
        assert {field for field, info in fields.items() if info.is_required()} <= members, frame["type"]
        checked.add(frame["type"])
    assert checked == set(SDK)
