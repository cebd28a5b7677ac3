"""A batch of input events (agents.md 5.2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.domain.agents import admission
from shared.operations.agents.requests.events import Batch, Cancel, Message, Result, read_events
from tests.unit.agents_requests.refusing import expect_local, expect_refused

P = "agent.session.input."
TEXT = {"type": "input_text", "text": "hi"}
SAID = {"role": "user", "content": [TEXT]}
RESULT = {"type": P + "tool_result", "turn_id": "t", "call_id": "c", "success": True}
TYPES = ", ".join(
    f"'{P}{name}'"
    for name in (
        "message", "cancel", "tool_result", "mcp_approval_request_result", "computer_use_approval_request_result",
    )
)  # fmt: skip


def message(*items: Any) -> dict[str, Any]:
    return {"type": P + "message", "input": list(items)}


def events(*rows: Any) -> dict[str, Any]:
    return {"events": list(rows)}


def kinds(path: str, expected: str, got: str) -> tuple[str, str]:
    return f"Invalid type for '{path}': expected {expected}, but got {got} instead.", path


def lacks(path: str) -> tuple[str, str]:
    return f"Missing required parameter: '{path}'.", path


def odd(path: str) -> tuple[str, str]:
    return f"Unknown parameter: '{path}'.", path


ROWS: list[tuple[dict[str, Any], tuple[str, str | None]]] = [
    ({}, lacks("events")),
    ({"events": None}, kinds("events", "an array", "null")),
    ({"events": {}}, kinds("events", "an array", "an object")),
    ({"events": None, "foo": 1}, odd("foo")),
    (events(1), kinds("events[0]", "an object", "an integer")),
    (events({}), lacks("events[0].type")),
    (events({"type": "x"}), (f"Invalid value for 'events[0].type': expected one of {TYPES}.", "events[0].type")),
    *(
        (
            events({"type": P + name}),
            (f"Unsupported value for 'events[0].type': '{P}{name}' is not available.", "events[0].type"),
        )
        for name in ("mcp_approval_request_result", "computer_use_approval_request_result")
    ),
    (events({"type": P + "cancel", "turn_id": "t"}), odd("events[0].turn_id")),
    (events({"type": P + "message"}), lacks("events[0].input")),
    (events({**message(SAID), "x": 1}), odd("events[0].x")),
    (events({"type": P + "message", "input": "hi"}), kinds("events[0].input", "an array", "a string")),
    (events(message(SAID), message({**SAID, "type": "x"})),
     ("Invalid value for 'events[1].input[0].type': expected one of 'message'.", "events[1].input[0].type")),
    (events(message({"role": "user", "content": [{"type": "output_text", "text": "x"}]})),
     ("Invalid value for 'events[0].input[0].content[0].type': expected one of 'input_text', 'input_image'.",
      "events[0].input[0].content[0].type")),
    (events({**RESULT, "turn_id": None}), lacks("events[0].turn_id")),
    (events({**RESULT, "call_id": 1}), kinds("events[0].call_id", "a string", "an integer")),
    (events({**RESULT, "success": None}), lacks("events[0].success")),
    (events({**RESULT, "success": 1}), kinds("events[0].success", "a boolean", "an integer")),
    (events({**RESULT, "output": {}}), kinds("events[0].output", "a string or an array", "an object")),
    (events({**RESULT, "output": [{"type": "input_text"}]}), lacks("events[0].output[0].text")),
    (events({**RESULT, "error": 1}), kinds("events[0].error", "a string", "an integer")),
    (events({**RESULT, "x": 1}), odd("events[0].x")),
]  # fmt: skip


@pytest.mark.parametrize(("body", "said"), ROWS, ids=[f"{n}-{row[1][1]}" for n, row in enumerate(ROWS)])
def test_each_fault_has_its_sentence_and_param(body: dict[str, Any], said: tuple[str, str | None]) -> None:
    expect_refused(lambda: read_events(body), *said)


EMPTY = {"type": "input_text", "text": ""}
LOCALS: list[dict[str, Any]] = [
    events(*[{"type": P + "cancel"}] * 65),
    events(message()),
    events(message({"role": "user", "content": []})),
    events(message({"role": "user", "content": [EMPTY, EMPTY]})),
    events(message(SAID, {"role": "user", "content": [EMPTY]})),
    events(message({"role": "user", "content": [{"type": "input_text", "text": "é" * 262_144}]})),
    events({**RESULT, "output": "x" * 524_288}),
]


@pytest.mark.parametrize("body", LOCALS, ids=range(len(LOCALS)))
def test_limits_and_input_that_says_nothing(body: dict[str, Any]) -> None:
    expect_local(lambda: read_events(body))


IMAGE = {"type": "input_image", "image_url": "data:,"}
FULL = events(
    message(SAID, {"type": "message", "role": "user", "content": [EMPTY, IMAGE]}),
    {"type": P + "cancel"},
    {**RESULT, "output": [TEXT, IMAGE], "error": "no"},
    {**RESULT, "output": None},
)


def test_a_batch_is_read_in_order_stored_and_read_again() -> None:
    batch = read_events(FULL)
    assert batch.events == (
        Message((SAID, {"role": "user", "content": [EMPTY, IMAGE]})),
        Cancel(),
        Result("t", "c", True, [TEXT, IMAGE], "no"),
        Result("t", "c", True),
    )
    again = Batch.of(json.loads(json.dumps(batch.to_json())))
    assert again == batch
    assert again.digest() == batch.digest()
    results = [event.digest() for event in batch.events if isinstance(event, Result)]
    assert batch.rules() == [
        admission.Message(2), admission.Cancel(),
        admission.Result("t", "c", results[0]), admission.Result("t", "c", results[1]),
    ]  # fmt: skip


def test_no_events_and_as_many_as_there_may_be() -> None:
    assert read_events(events()) == Batch()
    assert len(read_events(events(*[{"type": P + "cancel"}] * 64)).events) == 64


def test_stored_input_of_exactly_512_kib_is_taken() -> None:
    def sized(count: int) -> dict[str, Any]:
        return events(message({"role": "user", "content": [{"type": "input_text", "text": "x" * count}]}))

    around = len(json.dumps(read_events(sized(1)).to_json(), separators=(",", ":"))) - 1
    assert read_events(sized(524_288 - around)).events
    expect_local(lambda: read_events(sized(524_289 - around)))


@pytest.mark.parametrize(
    "other",
    [
        events(*reversed(FULL["events"])),
        events(*FULL["events"][:-1]),
        events(*FULL["events"][:-1], {**RESULT, "success": False}),
        events(*FULL["events"][:-1], {**RESULT, "call_id": "d"}),
        events(*FULL["events"][:-1], {**RESULT, "output": ""}),
        events(message(SAID), message({"role": "user", "content": [EMPTY, IMAGE]}), *FULL["events"][1:]),
    ],
    ids=range(6),
)
def test_another_batch_has_another_digest(other: dict[str, Any]) -> None:
    assert read_events(other).digest() != read_events(FULL).digest()


def test_a_batch_is_the_same_however_its_members_are_ordered_and_defaults_are_said() -> None:
    one = read_events(events({**RESULT, "output": None, "error": None}, message({**SAID, "type": "message"})))
    two = read_events(events(dict(reversed(RESULT.items())), message(SAID)))
    assert one.digest() == two.digest()


def test_a_results_digest_is_over_success_output_and_error_only() -> None:
    first = Result("t", "c", True, "a", None)
    assert Result("u", "d", True, "a", None).digest() == first.digest()
    for other in (Result("t", "c", False, "a"), Result("t", "c", True, None, "a"), Result("t", "c", True, [TEXT])):
        assert other.digest() != first.digest()
