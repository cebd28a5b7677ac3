"""`POST /agents/sessions/{session_id}/events`: one ordered batch of input events (agents.md 5.2).

What is read is what is stored: a batch becomes one immutable record (agents.md 11.27), and two requests are the same
where their batches have one digest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.domain.agents import admission
from shared.domain.ids import digest
from shared.operations.agents.requests.content import UserMessage, check_size, read_messages, read_parts
from shared.operations.agents.requests.reading import (
    as_array,
    as_flag,
    as_object,
    as_text,
    at,
    bad_type,
    local,
    missing,
    one_of,
    only,
    required,
    unsupported,
)

EVENTS = 64
_INPUT = "agent.session.input."
_TYPES = ("message", "cancel", "tool_result", "mcp_approval_request_result", "computer_use_approval_request_result")

Output = str | list[dict[str, str]] | None
"""What a function gave: a text, parts, or nothing."""


@dataclass(frozen=True, slots=True)
class Message:
    """`agent.session.input.message`: user messages, at least one."""

    items: tuple[UserMessage, ...]

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {"type": "message", "items": list(self.items)}


@dataclass(frozen=True, slots=True)
class Cancel:
    """`agent.session.input.cancel`."""

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {"type": "cancel"}


@dataclass(frozen=True, slots=True)
class Result:
    """`agent.session.input.tool_result`. The ids are as they were sent: whether they name a call is looked up."""

    turn_id: str
    call_id: str
    success: bool
    output: Output = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "type": "tool_result",
            "turn_id": self.turn_id,
            "call_id": self.call_id,
            "success": self.success,
            "output": self.output,
            "error": self.error,
        }

    def digest(self) -> str:
        """Over success, output and error: what tells one result of a call from another."""
        return digest("result", _canonical([self.success, self.output, self.error]))


Event = Message | Cancel | Result


@dataclass(frozen=True, slots=True)
class Batch:
    """The events of one request, in order; there may be none."""

    events: tuple[Event, ...] = ()

    def to_json(self) -> list[dict[str, Any]]:
        """As it is stored."""
        return [event.to_json() for event in self.events]

    @classmethod
    def of(cls, stored: Sequence[Mapping[str, Any]]) -> Batch:
        """A batch as it was stored."""
        return cls(tuple(_stored(row) for row in stored))

    def digest(self) -> str:
        """Over all of it, in order: what an Idempotency-Key is compared by."""
        return digest("batch", _canonical(self.to_json()))

    def rules(self) -> list[admission.Event]:
        """The events as `admission.admit` takes them."""
        return [_rule(event) for event in self.events]


def read_events(data: Mapping[str, Any]) -> Batch:
    """Read the body. Checks, in order: unknown members, the array, its length, each event, the size of all.

    Errors: 400.
    """
    only(data, ("events",), "")
    if "events" not in data:
        raise missing("events")
    rows = as_array(data["events"], "events")
    if len(rows) > EVENTS:
        raise local()
    batch = Batch(tuple(_event(row, f"events[{index}]") for index, row in enumerate(rows)))
    check_size(batch.to_json())
    return batch


def _event(value: object, path: str) -> Event:
    data = as_object(value, path)
    types = tuple(_INPUT + name for name in _TYPES)
    kind = one_of(required(data, "type", path), types, at(path, "type")).removeprefix(_INPUT)
    if kind == "message":
        only(data, ("type", "input"), path)
        return Message(read_messages(required(data, "input", path), at(path, "input")))
    if kind == "cancel":
        only(data, ("type",), path)
        return Cancel()
    if kind == "tool_result":
        return _result(data, path)
    raise unsupported(at(path, "type"), f"'{_INPUT}{kind}' is not available.")


def _result(data: Mapping[str, Any], path: str) -> Result:
    only(data, ("type", "turn_id", "call_id", "success", "output", "error"), path)
    turn, call = (as_text(required(data, name, path), at(path, name)) for name in ("turn_id", "call_id"))
    success = as_flag(required(data, "success", path), at(path, "success"))
    error = data.get("error")
    return Result(
        turn,
        call,
        success,
        _output(data.get("output"), at(path, "output")),
        None if error is None else as_text(error, at(path, "error")),
    )


def _output(value: object, path: str) -> Output:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Sequence):
        raise bad_type(path, "a string or an array", value)
    return read_parts(value, path)


def _stored(row: Mapping[str, Any]) -> Event:
    if row["type"] == "message":
        return Message(tuple(row["items"]))
    if row["type"] == "cancel":
        return Cancel()
    return Result(row["turn_id"], row["call_id"], row["success"], row["output"], row["error"])


def _rule(event: Event) -> admission.Event:
    if isinstance(event, Message):
        return admission.Message(len(event.items))
    if isinstance(event, Cancel):
        return admission.Cancel()
    return admission.Result(event.turn_id, event.call_id, event.digest())


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
