"""Frames of the event stream, in the documented order (agents.md 5.3, 11.12).

A frame is JSON with `type` and `event_id`. One transaction's frames are one record, so that a reader's place always
stands between two transactions. No frame but `error` has a member `error` at its top: the SDK gives up at one.

Here they are made; `stored` numbers them and keeps what is large only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.domain.agents.head import EnvironmentStatus, Status
from shared.domain.agents.turns import TERMINAL

Frame = dict[str, Any]
SESSION = "agent.session."
TURN = "agent.session.turn."
FAILED_ENVIRONMENT = {
    "type": "environment_error",
    "code": "environment_connection_failed",
    "message": "The environment failed to connect.",
}
_KINDS = {
    "queued": "created",
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
DELTA = 16_384
"""Characters of one delta at most."""
SLICE = "slice"
"""A private member of a delta that repeats part of a finished item's text: from where to where."""
FROM_SESSION = "from_session"
"""A private member of a frame whose Session lacks the members that do not change."""


@dataclass(frozen=True, slots=True)
class Source:
    """Whose frames they are; `turn` is empty where they are of no Turn."""

    session: str
    turn: str = ""

    def members(self) -> Frame:
        """The members that every frame of a Turn has."""
        return {"session_id": self.session, "turn_id": self.turn or None}


def session_frame(
    kind: Literal["created", "in_progress", "idle", "requires_action", "failed"], session: Frame
) -> Frame:
    """`agent.session.<kind>`. `session` holds the members that change; the others are filled in by `stored.full`."""
    return {"type": SESSION + kind, "session": session, FROM_SESSION: True}


def status_frame(status: Status, session: Frame) -> Frame:
    """The session frame of a status."""
    return session_frame(status, session)


def turn_frame(turn: Frame) -> Frame:
    """The frame of a Turn that came into its status; a terminal one carries the usage. `turn` is the wire's.

    A Turn that waits has none: its Session's `requires_action` tells of it. Errors: KeyError.
    """
    frame: Frame = {
        "type": TURN + _KINDS[turn["status"]],
        "session_id": turn["session_id"],
        "turn_id": turn["id"],
        "turn": turn,
    }
    if turn["status"] in TERMINAL:
        frame["usage"] = turn["usage"]
    return frame


def item_added(source: Source, item: Frame, output_index: int | None) -> Frame:
    """An item; `output_index` is None for input."""
    return {"type": TURN + "item.added", **source.members(), "item": item, "output_index": output_index}


def item_done(source: Source, item: Frame, output_index: int) -> Frame:
    """An output item at its end."""
    return {"type": TURN + "item.done", **source.members(), "item": item, "output_index": output_index}


def begun(turn: Frame, session: Frame, input_items: Iterable[Frame]) -> list[Frame]:
    """A Turn comes into progress: its input, then the Session, then the Turn (its `created` went before)."""
    source = Source(turn["session_id"], turn["id"])
    added = [item_added(source, item, None) for item in input_items]
    return [*added, session_frame("in_progress", session), turn_frame(turn)]


def message_begun(source: Source, item: Frame, output_index: int) -> list[Frame]:
    """An assistant's message begins: in progress, without content, then an empty part."""
    empty = {**item, "status": "in_progress", "content": []}
    return [
        item_added(source, empty, output_index),
        _part(source, "added", item["id"], output_index, ""),
    ]


def text_delta(source: Source, item: str, output_index: int, delta: str) -> Frame:
    """More text of an assistant's message."""
    return {**_text(source, "output_text.delta", item, output_index), "delta": delta}


def message_ended(source: Source, item: Frame, output_index: int, sent: str) -> list[Frame]:
    """The end of a message whose text is `item`'s, of which `sent` was told in deltas: what is missing, then the ends.

    There is one delta at least, also where there is no text. A text that does not begin as it was told cannot be
    mended: the ends tell the true one.
    """
    text: str = item["content"][0]["text"]
    missing = len(sent) if text.startswith(sent) else len(text)
    frames = _deltas(text_delta, source, item["id"], output_index, text, missing)
    if not sent and not text:
        frames.append(text_delta(source, item["id"], output_index, ""))
    frames.append({**_text(source, "output_text.done", item["id"], output_index), "text": text})
    frames.append(_part(source, "done", item["id"], output_index, text))
    frames.append(item_done(source, item, output_index))
    return frames


def _deltas(
    delta: Callable[[Source, str, int, str], Frame], source: Source, item: str, output_index: int, text: str, begin: int
) -> list[Frame]:
    """The text of a finished item from `begin` on, in deltas that know their place in it."""
    pieces = _pieces(text, begin)
    return [{**delta(source, item, output_index, piece["delta"]), SLICE: piece[SLICE]} for piece in pieces]


def _pieces(text: str, begin: int) -> list[Frame]:
    """A text from `begin` on, in pieces of bounded size."""
    ends = [(start, min(start + DELTA, len(text))) for start in range(begin, len(text), DELTA)]
    return [{"delta": text[start:end], SLICE: [start, end]} for start, end in ends]


def command_ended(source: Source, item: Frame, output_index: int, sent: str) -> list[Frame]:
    """The end of a command, of whose output `sent` was told in deltas."""
    text: str = item["output"] or ""
    missing = len(sent) if text.startswith(sent) else len(text)
    deltas = _deltas(command_delta, source, item["id"], output_index, text, missing)
    return [*deltas, item_done(source, item, output_index)]


def calls_wait(source: Source, session: Frame, calls: Iterable[tuple[Frame, int]]) -> list[Frame]:
    """Function calls whose results are waited for: each added and done, then the Session says so (5.1)."""
    frames: list[Frame] = []
    for item, index in calls:
        frames += [item_added(source, {**item, "status": "in_progress"}, index), item_done(source, item, index)]
    return [*frames, session_frame("requires_action", session)]


def command_delta(source: Source, item: str, output_index: int, delta: str) -> Frame:
    """More output of a command."""
    return {
        "type": "agent.output.command_execution_output.delta",
        **source.members(),
        "item_id": item,
        "output_index": output_index,
        "delta": delta,
    }


def reasoning(source: Source, item: Frame, output_index: int) -> list[Frame]:
    """A reasoning item from beginning to end, each part of its summary in turn."""
    frames = [item_added(source, {**item, "status": "in_progress", "summary": []}, output_index)]
    for index, part in enumerate(item["summary"]):
        place = {**source.members(), "item_id": item["id"], "output_index": output_index, "summary_index": index}
        pieces = _pieces(part["text"], 0) or [{"delta": ""}]
        frames += [
            {"type": TURN + "reasoning_summary_part.added", **place, "part": {**part, "text": ""}},
            *({"type": TURN + "reasoning_summary_text.delta", **place, **piece} for piece in pieces),
            {"type": TURN + "reasoning_summary_text.done", **place, "text": part["text"]},
            {"type": TURN + "reasoning_summary_part.done", **place, "part": part},
        ]
    return [*frames, item_done(source, item, output_index)]


def turn_ended(turn: Frame, session: Frame, unfinished: Iterable[tuple[Frame, int]] = ()) -> list[Frame]:
    """The end of a Turn: what it leaves incomplete, the Turn, the Session: idle again also when it failed (11.2)."""
    source = Source(turn["session_id"], turn["id"])
    left = [item_done(source, {**item, "status": "incomplete"}, index) for item, index in unfinished]
    return [*left, turn_frame(turn), session_frame("idle", session)]


def environment_frame(
    source: Source, environment: str, kind: str, status: EnvironmentStatus, error: Mapping[str, str] | None = None
) -> Frame:
    """`agent.session.environment.<status>`."""
    state = {"id": environment, "type": kind, "status": status, "error": None if error is None else dict(error)}
    return {"type": f"{SESSION}environment.{status}", **source.members(), "environment": state}


def environment_failed(
    session: Frame, environment: str, kind: str, session_id: str, turn: tuple[Frame, Frame] | None = None
) -> list[Frame]:
    """An Environment that could not be prepared: it, the Turn that waited, the Session, and `error` last (11.12).

    `turn` is the Turn in progress and failed.
    """
    frames = [environment_frame(Source(session_id), environment, kind, "failed", FAILED_ENVIRONMENT)]
    if turn is not None:
        frames += [turn_frame(turn[0]), turn_frame(turn[1])]
    error = {"type": "server_error", "code": "sandbox_error", "message": FAILED_ENVIRONMENT["message"], "param": None}
    frames += [session_frame("failed", session), {"type": "error", "session_id": session_id, "error": error}]
    return frames


def _text(source: Source, kind: str, item: str, output_index: int) -> Frame:
    return {
        "type": TURN + kind,
        **source.members(),
        "item_id": item,
        "output_index": output_index,
        "content_index": 0,
    }


def _part(source: Source, kind: str, item: str, output_index: int, text: str) -> Frame:
    return {
        **_text(source, f"content_part.{kind}", item, output_index),
        "part": {"type": "output_text", "text": text},
    }
