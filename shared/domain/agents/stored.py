"""Frames as a record keeps them and as they are sent (agents.md 5.3, 11.27).

What is large is not stored twice: a frame that shows an item, its text or the Session is stored lean, and made full
from the item, whose large members never change once they are there, or from the Session's own description.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.domain.agents import ids
from shared.domain.agents.events import FROM_SESSION, SESSION, SLICE, TURN, Frame

LEAN = 4_096
"""Bytes of a stored frame above which it names its item instead of showing it."""
_FROM_ITEM = "from_item"
_SMALL = 256
"""Bytes of an item's member up to which a lean frame keeps it as it was, such as the status."""


def stored(frames: Sequence[Frame], first: int, random: ids.Random, most: int = LEAN) -> list[Frame]:
    """The frames as one record keeps them: with their event ids, numbered from `first` on, and lean."""
    return [
        {
            "type": frame["type"],
            "event_id": ids.new("evt", random, ids.order(first + index)),
            **_lean(frame, most),
        }
        for index, frame in enumerate(frames)
    ]


def _lean(frame: Frame, most: int) -> Frame:
    """The frame as it is stored: one above `most` bytes that shows an item, or text of a finished one, names it."""
    small = {name: value for name, value in frame.items() if name != SLICE}
    if _size(frame) <= most:
        return small
    if "item" in frame:
        kept = {name: value for name, value in frame["item"].items() if _size(value) <= _SMALL}
        return {**frame, "item": {_FROM_ITEM: frame["item"]["id"], "with": kept}}
    if "part" in frame or "text" in frame:
        member = "part" if "part" in frame else "text"
        return {**frame, member: {_FROM_ITEM: frame["item_id"]}}
    if SLICE in frame:
        return {**small, "delta": {_FROM_ITEM: frame["item_id"], SLICE: frame[SLICE]}}
    return frame


def needs(frame: Frame) -> str | None:
    """The id of the item that a stored frame is to be filled from, if it is."""
    for member in ("item", "part", "text", "delta"):
        value = frame.get(member)
        if isinstance(value, dict) and _FROM_ITEM in value:
            found: str = value[_FROM_ITEM]
            return found
    return None


def full(frame: Frame, session: Mapping[str, Any], item: Mapping[str, Any] | None = None) -> Frame:
    """The frame as it is sent. `session` has the Session's members that do not change, `item` is what it `needs`."""
    sent = dict(frame)
    if sent.pop(FROM_SESSION, False):
        sent["session"] = {**session, **sent["session"]}
    if needs(frame) is not None:
        if item is None:
            raise ValueError("a frame without its item")
        if "item" in frame:
            sent["item"] = {**item, **frame["item"]["with"]}
        elif "part" in frame:
            sent["part"] = _part_of(item, frame)
        elif "delta" in frame:
            start, end = frame["delta"][SLICE]
            text = (item["output"] or "") if item["type"] == "command_execution" else _part_of(item, frame)["text"]
            sent["delta"] = text[start:end]
        else:
            sent["text"] = _part_of(item, frame)["text"]
    return sent


def _part_of(item: Mapping[str, Any], frame: Frame) -> Frame:
    """The part of a finished message or reasoning that a frame is about."""
    parts: list[Frame] = item["summary"] if "summary_index" in frame else item["content"]
    index: int = frame["summary_index"] if "summary_index" in frame else frame["content_index"]
    return parts[index]


def _size(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":")))


@dataclass(frozen=True, slots=True)
class Ending:
    """Where a stream ends. A creation stream ends behind the first idle Session that follows the end of a Turn, or
    behind a failed one; a live one only behind the `error` of a failed Environment (agents.md 5.3)."""

    creation: bool
    turn_over: bool = False
    over: bool = False

    def after(self, frame: Mapping[str, Any]) -> Ending:
        """The state behind one more frame."""
        kind = frame["type"]
        over_now = kind in (TURN + "completed", TURN + "failed", TURN + "cancelled")
        if not self.creation:
            return replace(self, over=self.over or kind == "error")
        ends = kind == SESSION + "failed" or (kind == SESSION + "idle" and self.turn_over)
        return replace(self, turn_over=self.turn_over or over_now, over=self.over or ends)
