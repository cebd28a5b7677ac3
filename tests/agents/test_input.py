"""Input of a Session over the wire: every row of agents.md 5.2, repetition by a key (1.7), and the order of checks."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from shared.operations.agents.session import need, swap
from tests.agents.engines import MODEL
from tests.agents.talking import (
    CANCEL,
    ENVIRONMENTS,
    HOSTED,
    SESSIONS,
    Talk,
    Things,
    check_error,
    check_missing,
    message,
)
from tests.wire.scripted import program
from tests.wire.service import Answer, expect_eventually

LOCAL = "Invalid resource identifier or request limits."
PENDING = "Earlier input to this Session is still pending."
KEY_CONFLICT = "This idempotency key was used with different input."
INPUT = "agent.session.input."
RESULT = {"type": INPUT + "tool_result", "turn_id": "turn_x", "call_id": "call_x", "success": True}


def said(*content: Any, **more: Any) -> dict[str, Any]:
    return {"type": INPUT + "message", "input": [{"role": "user", "content": list(content), **more}]}


def text(value: str) -> dict[str, str]:
    return {"type": "input_text", "text": value}


def ended(talk: Talk, session: str) -> list[tuple[str, str]]:
    """The messages of a Session in order, each with whose it is."""
    items = talk.data(f"{SESSIONS}/{session}/items?order=asc&limit=100")
    return [(row["role"], row["content"][0]["text"]) for row in items if row["type"] == "message"]


def turns(talk: Talk, session: str) -> list[str]:
    return [row["status"] for row in talk.data(f"{SESSIONS}/{session}/turns?order=asc")]


REFUSED: list[tuple[Any, str, str, str | None]] = [
    ({}, "Missing required parameter: 'events'.", "invalid_request_error", "events"),
    ({"events": None}, "Invalid type for 'events': expected an array, but got null instead.", "invalid_request_error",
     "events"),
    ({"events": {}}, "Invalid type for 'events': expected an array, but got an object instead.",
     "invalid_request_error", "events"),
    ({"events": [], "x": 1}, "Unknown parameter: 'x'.", "invalid_request_error", "x"),
    ({"events": [], "session_id": "x"}, "Unknown parameter: 'session_id'.", "invalid_request_error", "session_id"),
    ({"events": [CANCEL] * 65}, LOCAL, "invalid_request", None),
    ({"events": [1]}, "Invalid type for 'events[0]': expected an object, but got an integer instead.",
     "invalid_request_error", "events[0]"),
    ({"events": [{}]}, "Missing required parameter: 'events[0].type'.", "invalid_request_error", "events[0].type"),
    ({"events": [CANCEL, {**CANCEL, "x": 1}]}, "Unknown parameter: 'events[1].x'.", "invalid_request_error",
     "events[1].x"),
    ({"events": [{"type": INPUT + "message"}]}, "Missing required parameter: 'events[0].input'.",
     "invalid_request_error", "events[0].input"),
    ({"events": [{"type": INPUT + "message", "input": []}]}, LOCAL, "invalid_request", None),
    ({"events": [said()]}, LOCAL, "invalid_request", None),
    ({"events": [said(text(""), text(""))]}, LOCAL, "invalid_request", None),
    ({"events": [said({"type": "input_image", "image_url": ""})]}, LOCAL, "invalid_request", None),
    ({"events": [said(text("a"), role="assistant")]},
     "Invalid value for 'events[0].input[0].role': expected one of 'user'.", "invalid_request_error",
     "events[0].input[0].role"),
    ({"events": [{"type": INPUT + "mcp_approval_request_result"}]},
     "Unsupported value for 'events[0].type': 'agent.session.input.mcp_approval_request_result' is not available.",
     "invalid_request_error", "events[0].type"),
    ({"events": [{**RESULT, "success": 1}]},
     "Invalid type for 'events[0].success': expected a boolean, but got an integer instead.", "invalid_request_error",
     "events[0].success"),
    ({"events": [{"type": INPUT + "tool_result", "turn_id": "t", "call_id": "c"}]},
     "Missing required parameter: 'events[0].success'.", "invalid_request_error", "events[0].success"),
    ({"events": [said(text("x" * (512 * 1024)))]}, LOCAL, "invalid_request", None),
]  # fmt: skip


@pytest.mark.parametrize(("body", "words", "code", "param"), REFUSED)
def test_a_bad_request_is_told_before_the_session_is_looked_up(
    talk: Talk, things: Things, foreign: Things, body: Any, words: str, code: str, param: str | None
) -> None:
    before = talk.get(f"{SESSIONS}/{things.session}")
    for ident in (things.session, foreign.session, things.unknown().session, "x"):
        check_error(talk.post(f"{SESSIONS}/{ident}/events", body), 400, words, code, param=param)
    assert talk.get(f"{SESSIONS}/{things.session}") == before


def test_an_image_is_refused_by_a_program_where_the_session_is_the_callers(
    talk: Talk, things: Things, foreign: Things
) -> None:
    image = said(text("a"), {"type": "input_image", "image_url": "data:,"})
    check_error(
        talk.send(things.session, message("{}"), image), 400,
        "Unsupported value for 'events[1].input[0].content[1].type': the model 'program:py' takes text only.",
        param="events[1].input[0].content[1].type",
    )  # fmt: skip
    check_missing(talk.send(foreign.session, image))


def test_no_events_are_a_202_for_a_session_that_is_there(talk: Talk, things: Things, foreign: Things) -> None:
    answer = talk.send(things.session)
    assert (answer.status, answer.body) == (202, b"")
    check_missing(talk.send(foreign.session))
    check_missing(talk.send(things.unknown().session))


def test_a_message_on_an_idle_session_is_a_turn(talk: Talk) -> None:
    session = talk.create()["id"]
    turn = talk.done(session, stdout="out", show="args")
    assert turn["status"] == "completed"
    assert ended(talk, session) == [("user", program(stdout="out", show="args")), ("assistant", "[]")]


def test_the_messages_of_a_batch_are_one_program(talk: Talk) -> None:
    session = talk.create()["id"]
    batch = [
        {"type": INPUT + "message", "input": [
            {"role": "user", "content": [text('{"stdout":'), text('"a"')]},
            {"role": "user", "type": "message", "content": [text(',')]},
        ]},
        said(text('"code": 0}')),
    ]  # fmt: skip
    script = '{"stdout":\n"a"\n,\n"code": 0}'
    assert talk.send(session, *batch).status == 202
    talk.settled(session)
    items = talk.data(f"{SESSIONS}/{session}/items?order=asc")
    assert [row["type"] for row in items] == ["message", "message", "message", "command_execution", "message"]
    commands = [row["command"] for row in items if row["type"] == "command_execution"]
    assert commands == [script]


def test_cancel_on_an_idle_session_does_nothing(talk: Talk) -> None:
    session = talk.create()["id"]
    before = talk.get(f"{SESSIONS}/{session}")
    assert talk.send(session, CANCEL, CANCEL).status == 202
    assert talk.get(f"{SESSIONS}/{session}") == before
    assert turns(talk, session) == []


def test_cancel_ends_the_turn_and_its_program(talk: Talk) -> None:
    session = talk.create()["id"]
    turn = talk.running(session, write={"outputs/a": "a"}, print=["told"])
    talk.cancelled(session)
    shown = talk.get(f"{SESSIONS}/{session}/turns/{turn['id']}")
    assert (shown["status"], shown["error"], shown["usage"]) == ("cancelled", None, None)
    assert shown["completed_at"] >= shown["started_at"] >= shown["created_at"]
    expect_eventually(lambda: not talk.asker.service.executor.running)
    items = talk.data(f"{SESSIONS}/{session}/items?order=asc")
    assert {row["status"] for row in items[1:]} == {"incomplete"}
    assert talk.data(f"{SESSIONS}/{session}/artifacts") == []
    assert talk.done(session, show="files")["status"] == "completed"
    assert ended(talk, session)[-1] == ("assistant", "[]")


def test_a_message_during_a_turn_steers_it_and_a_second_one_is_too_early(talk: Talk) -> None:
    session = talk.create()["id"]
    talk.running(session, wait=2, stdout="first")
    assert talk.send(session, message(program(stdout="second"))).status == 202
    pending = talk.send(session, message(program(stdout="third")))
    check_error(pending, 409, PENDING, "conflict_error")
    assert pending.headers["x-should-retry"] == "false"
    talk.settled(session)
    assert turns(talk, session) == ["completed"]
    assert [words for who, words in ended(talk, session) if who == "assistant"] == ["first", "second"]


def test_a_batch_that_cancels_and_says_begins_anew(talk: Talk) -> None:
    session = talk.create()["id"]
    talk.running(session)
    batch = (message(program(stdout="taken back")), CANCEL, message(program(stdout="next")))
    assert talk.send(session, *batch).status == 202
    expect_eventually(lambda: turns(talk, session) == ["cancelled", "completed"], 30)
    assert [words for who, words in ended(talk, session) if who == "assistant"][-1] == "next"
    assert ("assistant", "taken back") not in ended(talk, session)


def test_a_batch_is_admitted_whole_or_not_at_all(talk: Talk) -> None:
    session = talk.create()["id"]
    before = talk.get(f"{SESSIONS}/{session}")
    unknown = "Unknown pending tool call: call_x"
    check_error(talk.send(session, message(program()), RESULT), 400, unknown)
    check_error(talk.send(session, RESULT, message(program())), 400, unknown)
    assert talk.get(f"{SESSIONS}/{session}") == before
    assert turns(talk, session) == []
    for call in ("é'", "c" * 256):
        check_error(talk.send(session, {**RESULT, "call_id": call}), 400, f"Unknown pending tool call: {call}")
    for call in ("é'\n", "c" * 257):
        # What is long or cannot be printed is not repeated (1.4).
        check_error(talk.send(session, {**RESULT, "call_id": call}), 400, "Unknown pending tool call.")


# -- repetition (1.7)


def test_the_same_batch_with_the_same_key_is_admitted_once(talk: Talk) -> None:
    session = talk.create()["id"]
    for _ in range(3):
        answer = talk.send(session, message(program(stdout="once")), key="k" * 128)
        assert (answer.status, answer.body) == (202, b"")
        talk.settled(session)
    assert turns(talk, session) == ["completed"]
    for other in ((message(program(stdout="twice")),), (message(program(stdout="once")), CANCEL), (CANCEL,)):
        refused = talk.send(session, *other, key="k" * 128)
        check_error(refused, 409, KEY_CONFLICT, "idempotency_conflict")
        assert refused.headers["x-should-retry"] == "false"
    assert talk.send(session, message(program(stdout="once")), key="").status == 202
    talk.settled(session)
    assert turns(talk, session) == ["completed", "completed"]


def test_a_key_is_of_its_session(talk: Talk) -> None:
    first, second = talk.create()["id"], talk.create()["id"]
    assert talk.send(first, message(program(stdout="a")), key="shared").status == 202
    assert talk.send(second, message(program(stdout="b")), key="shared").status == 202
    talk.settled(second)
    assert ended(talk, second)[-1] == ("assistant", "b")


def test_a_batch_whose_turn_runs_is_known_by_its_key(talk: Talk) -> None:
    """The key is looked up before the gates: what is pending or running is no conflict for the same batch."""
    session = talk.create()["id"]
    batch = message(program(wait=30))
    assert talk.send(session, batch, key="run").status == 202
    expect_eventually(lambda: turns(talk, session) == ["in_progress"], 30)
    assert talk.send(session, batch, key="run").status == 202
    steering = message(program(stdout="steered"))
    assert talk.send(session, steering, key="steer").status == 202
    assert talk.send(session, steering, key="steer").status == 202
    other = talk.send(session, steering, key="run")
    check_error(other, 409, KEY_CONFLICT, "idempotency_conflict")
    check_error(talk.send(session, steering, key="new"), 409, PENDING, "conflict_error")
    talk.cancelled(session)
    assert turns(talk, session) == ["cancelled"]


def test_twelve_at_once_with_one_key_are_one_turn(talk: Talk) -> None:
    session = talk.create()["id"]
    found: list[Answer] = []

    def send() -> None:
        found.append(talk.send(session, message(program(stdout="one")), key="race"))

    threads = [threading.Thread(target=send, daemon=True) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [answer.status for answer in found] == [202] * 12
    talk.settled(session)
    assert turns(talk, session) == ["completed"]


def test_the_order_of_the_checks(talk: Talk, things: Things, foreign: Things) -> None:
    """gate, key, request, Session, key's record, gates, each event"""
    session = talk.create()["id"]
    where = f"{SESSIONS}/{session}/events"
    assert talk.send(session, message(program(wait=30)), key="taken").status == 202
    expect_eventually(lambda: turns(talk, session) == ["in_progress"], 30)
    assert talk.send(session, message(program())).status == 202
    long = ("Idempotency-Key", "k" * 129)
    taken = ("Idempotency-Key", "taken")
    bad = {"events": None}
    words = "Invalid type for 'events': expected an array, but got null instead."
    check_error(talk.post(where, [], long), 400, "Invalid type: expected an object, but got an array instead.")
    check_error(talk.post(where, {"events": []}, long), 400, LOCAL, "invalid_request")
    for ident in (session, foreign.session, things.unknown().session):
        check_error(talk.post(f"{SESSIONS}/{ident}/events", bad, taken), 400, words, param="events")
    check_missing(talk.send(foreign.session, RESULT, key="taken"))
    check_error(talk.send(session, message("{}"), RESULT, key="taken"), 409, KEY_CONFLICT, "idempotency_conflict")
    check_error(talk.send(session, RESULT, message("{}"), key="other"), 409, PENDING, "conflict_error")
    check_error(talk.send(session, RESULT, key="other"), 400, "Unknown pending tool call: call_x")
    talk.cancelled(session)


# -- what the state of the Environment refuses


def test_an_expired_environment_takes_no_message(talk: Talk) -> None:
    own = Things.made(talk)
    found = need(talk.room, "first", own.session)

    def old(draft: Any) -> None:
        draft.head = replace(draft.head, used=draft.head.used - talk.room.limits.environment_ms - 1)

    swap(talk.room, found, old)
    refused = talk.send(own.session, message("{}"))
    check_error(refused, 409, "The environment is no longer available for new input.", "environment_unavailable")
    assert talk.get(f"{ENVIRONMENTS}/{own.environment}")["status"] == "expired"
    assert talk.send(own.session, CANCEL).status == 202
    assert talk.get(f"{SESSIONS}/{own.session}")["status"] == "idle"
    content = talk.ask("GET", f"{SESSIONS}/{own.session}/artifacts/{own.artifact}/content")
    assert (content.status, content.body) == (200, b"hello")
    assert [row["id"] for row in talk.data(f"{SESSIONS}/{own.session}/artifacts")] == [own.artifact]
    files = f"{ENVIRONMENTS}/{own.environment}/files"
    new = {"type": "inline", "data": "", "path": "/workspace/a"}
    for answer in (talk.ask("GET", files), talk.post(files, new)):
        check_error(answer, 503, "Execution is not available on this service.", "execution_unavailable")
    assert talk.ask("DELETE", f"{SESSIONS}/{own.session}").status == 200
    assert talk.ask("GET", f"{SESSIONS}/{own.session}/artifacts/{own.artifact}").status == 404


def test_a_message_to_an_environment_in_preparation_runs_behind_it(talk: Talk) -> None:
    hosted = {"type": "openai_hosted", "setup_commands": [{"command": program(wait=3, write={"made": "x"})}]}
    made = talk.create(environment=hosted)
    session = made["id"]
    assert talk.get(f"{ENVIRONMENTS}/{made['environment']['id']}")["status"] == "pending"
    assert talk.send(session, message(program(show="files"))).status == 202
    talk.settled(session)
    assert turns(talk, session) == ["completed"]
    assert json.loads(ended(talk, session)[-1][1]) == ["made"]


def test_images_reach_an_engine_that_takes_them(talk: Talk) -> None:
    answer = talk.post(SESSIONS, {**HOSTED, "agent": {"model": MODEL}})
    session = json.loads(answer.body)["id"]
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    assert talk.send(session, said(text('{"say": "seen"}'), image)).status == 202
    talk.settled(session)
    first = talk.data(f"{SESSIONS}/{session}/items?order=asc")[0]
    assert first["content"] == [text('{"say": "seen"}'), image]
