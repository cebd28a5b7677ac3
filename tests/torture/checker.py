"""One checker for the whole event log of a Session (agents.md 5.3): order, ids, ends, deltas, indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Frame = dict[str, Any]
_S = "agent.session."
_T = "agent.session.turn."
_ENDS = {_T + "completed", _T + "failed", _T + "cancelled"}
_TEXT = "output_text.delta"


def check_log(frames: Sequence[Frame], *, over: bool = True) -> None:
    """Validate a log from the Session's creation on. `over`: no Turn may be unfinished at its end."""
    check_ids(frames)
    check_ends(frames, over=over)
    turns = dict.fromkeys(frame["turn_id"] for frame in frames if frame.get("turn_id"))
    for turn in turns:
        check_turn([frame for frame in frames if frame.get("turn_id") == turn], over=over)


def check_ids(frames: Sequence[Frame]) -> None:
    ids = [frame["event_id"] for frame in frames]
    assert len(set(ids)) == len(ids), "an event id twice"
    places = [ident[:12] for ident in ids]
    assert places == sorted(places), "event ids do not increase"
    assert len(set(places)) == len(places), "two frames of one number"
    assert frames[0]["type"] == _S + "created"
    assert not any(frame.get("error") for frame in frames if frame["type"] != "error")


def check_ends(frames: Sequence[Frame], *, over: bool) -> None:
    """A terminal frame is once per Turn and directly followed by idle; Turns never overlap."""
    active: str | None = None
    for index, frame in enumerate(frames):
        kind = frame["type"]
        if kind == _T + "created":
            assert active is None, "two Turns at once"
            active = frame["turn_id"]
        if kind in _ENDS:
            assert frame["turn_id"] == active, "an end of a Turn that is not active"
            assert frame["turn"]["status"] == kind.removeprefix(_T)
            after = frames[index + 1]["type"] if index + 1 < len(frames) else None
            assert after in (_S + "idle", _S + "failed"), f"{after} behind a Turn's end"
            assert frames[index + 1]["session"]["status"] == after.removeprefix(_S)
            active = None
    assert not over or active is None, "a Turn without an end"


def check_turn(frames: Sequence[Frame], *, over: bool) -> None:
    kinds = [frame["type"] for frame in frames]
    assert kinds[0] == _T + "created"
    assert kinds.count(_T + "created") == 1
    ends = [kind for kind in kinds if kind in _ENDS]
    assert len(ends) == (1 if over else len(ends))
    assert len(ends) <= 1, "two ends of one Turn"
    assert not ends or kinds[-1] in _ENDS, "a frame behind a Turn's end"
    if _T + "completed" in ends:
        assert _T + "in_progress" in kinds
    begun = kinds.index(_T + "in_progress") if _T + "in_progress" in kinds else len(kinds)
    waited = any(frame.get("item", {}).get("type") == "function_call_output" for frame in frames)
    assert waited or kinds.count(_T + "in_progress") <= 1
    opened: list[str] = []
    closed: dict[str, Frame] = {}
    for place, frame in enumerate(frames):
        if frame["type"] == _T + "item.added" and frame["output_index"] is not None:
            assert place > begun, "output before the Turn is in progress"
            assert frame["item"]["id"] not in opened, "an item added twice"
            assert frame["output_index"] == len(opened), "output indices are not consecutive"
            opened.append(frame["item"]["id"])
        ident = frame.get("item_id") or (frame["item"]["id"] if frame["type"] == _T + "item.done" else None)
        if ident is not None:
            assert ident in opened, f"{frame['type']} of an item that was not added"
            assert opened.index(ident) == frame["output_index"], "another output index"
            assert ident not in closed, f"{frame['type']} behind item.done"
        if frame["type"] == _T + "item.done":
            closed[frame["item"]["id"]] = frame["item"]
    if ends:
        assert set(closed) == set(opened), "an item without item.done"
    for ident in opened:
        own = [frame for frame in frames if frame.get("item_id") == ident or frame.get("item", {}).get("id") == ident]
        check_item(own, closed.get(ident))


def check_item(frames: Sequence[Frame], done: Frame | None) -> None:
    kind = frames[0]["item"]["type"]
    names = [frame["type"].removeprefix(_T) for frame in frames]
    told = "".join(frame["delta"] for frame in frames if "delta" in frame)
    if kind == "message":
        assert frames[0]["item"]["content"] == []
        assert names[1] == "content_part.added"
        assert frames[1]["part"] == {"type": "output_text", "text": ""}
        if done is None:
            return
        text = "".join(part["text"] for part in done["content"])
        if done["status"] == "completed":
            deltas = len(names) - 5
            assert deltas >= 1
            assert names[2:] == [_TEXT] * deltas + ["output_text.done", "content_part.done", "item.done"]
            assert frames[-3]["text"] == frames[-2]["part"]["text"] == text
            if "[… " not in text and "truncated" not in text:
                assert told == text, "deltas are not the text"
        else:
            assert done["status"] == "incomplete"
            assert names[2:-1] == [_TEXT] * (len(names) - 3)
            assert told.startswith(text) or text.startswith(told)
    elif kind == "command_execution" and done is not None:
        assert done["status"] in ("completed", "failed", "incomplete")
        output = done["output"] or ""
        if "[… cut …]" not in output and "truncated" not in output:
            assert told == output if done["status"] != "incomplete" else output in ("", told)


def check_items(items: Sequence[Frame], frames: Sequence[Frame]) -> None:
    """What is listed is what was told, and nothing is in progress."""
    added = [frame["item"]["id"] for frame in frames if frame["type"] == _T + "item.added"]
    assert [item["id"] for item in items] == added, "the list of items is not what was told"
    done = {frame["item"]["id"]: frame["item"] for frame in frames if frame["type"] == _T + "item.done"}
    for item in items:
        assert item["status"] != "in_progress"
        if item["id"] in done:
            assert item == done[item["id"]]


def check_rows(turns: Sequence[Frame], frames: Sequence[Frame]) -> None:
    """Each Turn is as its end told of it, its times in order; an error only where it failed."""
    ends = {frame["turn_id"]: frame["turn"] for frame in frames if frame["type"] in _ENDS}
    assert list(ends) == [turn["id"] for turn in turns][: len(ends)]
    for turn in turns:
        assert ends[turn["id"]] == turn
        times = [turn[name] for name in ("created_at", "started_at", "completed_at") if turn[name] is not None]
        assert times == sorted(times)
        assert (turn["error"] is not None) == (turn["status"] == "failed")
    created = [turn["created_at"] for turn in turns]
    assert created == sorted(created)
