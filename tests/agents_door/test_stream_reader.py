"""The reader of an event stream on a store: where it begins, what is in it, where it ends (agents.md 5.3, 11.12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.domain.agents import events, ids
from shared.domain.agents.events import Frame, Source
from shared.operations.agents import large
from shared.operations.agents.session import Found, need, swap
from shared.operations.agents.streams import Stream, open_stream
from shared.operations.room import Room
from shared.store.ports import Item, State, StoreUnavailable
from tests.agents_door.states import PROJECT, session, tell

LONG = "é" + "x" * 70_000


def note(text: str) -> Frame:
    """A frame that means nothing."""
    return {"type": "agent.session.note", "text": text}


def turn(status: str) -> Frame:
    """The frame of a Turn."""
    usage = {"usage": None} if status in ("completed", "failed", "cancelled") else {}
    return events.turn_frame({"id": "turn_1", "session_id": "sess_1", "status": status, **usage})


def idle() -> Frame:
    """The frame of an idle Session."""
    return events.session_frame("idle", {"status": "idle"})


def read(stream: Stream) -> list[Frame]:
    """All that there is now."""
    frames: list[Frame] = []
    while more := stream.more():
        frames += more
    return frames


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"].removeprefix("agent.session.") for frame in frames]


def live(room: Room, found: Found) -> Stream:
    return open_stream(room, PROJECT, found.session, creation=False)


@pytest.mark.parametrize("ident", ["", "x", "sess_", "sess_\x00", "sess_" + "0" * 33, "env_" + "0" * 33])
def test_a_session_that_is_not_there(room: Room, ident: str) -> None:
    with pytest.raises(Refusal) as refused:
        open_stream(room, PROJECT, ident, creation=False)
    assert refused.value.status == 404


def test_a_foreign_session_is_not_there(room: Room) -> None:
    with pytest.raises(Refusal) as refused:
        open_stream(room, "second", session(room).session, creation=False)
    assert refused.value.status == 404


def test_a_live_stream_begins_behind_what_is_committed_and_a_creation_stream_at_the_beginning(room: Room) -> None:
    found = session(room)
    tell(room, found, note("1"), note("2"))
    stream = live(room, found)
    tell(room, found, note("3"))
    tell(room, found, note("4"), note("5"))
    assert [frame["text"] for frame in read(stream)] == ["3", "4", "5"]
    assert stream.more() == []
    tell(room, found, note("6"))
    assert [frame["text"] for frame in read(stream)] == ["6"]
    whole = read(open_stream(room, PROJECT, found.session, creation=True))
    assert [frame["text"] for frame in whole] == list("123456")
    assert len({frame["event_id"] for frame in whole}) == 6
    assert [ids.sequence_of(frame["event_id"], "evt") for frame in whole] == [1, 2, 3, 4, 5, 6]


def test_what_is_told_in_hundreds_of_transactions_comes_once_and_in_order(room: Room) -> None:
    found = session(room)
    stream = live(room, found)
    for first in range(0, 300, 3):
        tell(room, found, *(note(str(number)) for number in range(first, first + 3)))
    assert [frame["text"] for frame in read(stream)] == [str(number) for number in range(300)]


def test_a_large_record_is_handed_out_in_parts(room: Room) -> None:
    found = session(room)
    stream = live(room, found)
    tell(room, found, *(note(str(number)) for number in range(1_000)))
    first = stream.more()
    assert 0 < len(first) < 1_000
    assert [frame["text"] for frame in first + read(stream)] == [str(number) for number in range(1_000)]


def test_a_session_frame_has_what_the_session_was_created_with(room: Room) -> None:
    found = session(room, metadata={"a": "b"}, text=LONG)
    stream = live(room, found)
    tell(room, found, idle())
    (frame,) = stream.more()
    assert set(frame) == {"type", "event_id", "session"}
    assert frame["session"] == {
        "id": found.session,
        "object": "agent.session",
        "agent": {"model": "program:py", "instructions": LONG},
        "created_at": found.head.created // 1000,
        "environment": {"type": "openai_hosted"},
        "metadata": {"a": "b"},
        "vault_ids": [],
        "status": "idle",
    }


def message(ident: str, text: str) -> dict[str, Any]:
    return {
        "id": ident, "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text}],
    }  # fmt: skip


def test_a_long_text_is_made_full_from_its_item(room: Room) -> None:
    found = session(room)
    stream = live(room, found)
    item = message("item_1", LONG)
    told = events.message_ended(Source(found.session, "turn_1"), item, 0, "")
    tell(room, found, *told, items={"item_1": item})
    frames = read(stream)
    assert kinds(frames)[-3:] == ["turn.output_text.done", "turn.content_part.done", "turn.item.done"]
    assert "".join(frame["delta"] for frame in frames[:-3]) == LONG
    assert (frames[-3]["text"], frames[-2]["part"]["text"], frames[-1]["item"]) == (LONG, LONG, item)
    assert not any("from_item" in str(frame)[:2_000] or "slice" in frame for frame in frames)


def test_one_answer_never_holds_the_texts_of_two_items(room: Room) -> None:
    found = session(room)
    stream = live(room, found)
    items = {f"item_{number}": message(f"item_{number}", LONG + str(number)) for number in range(3)}
    told = [events.item_done(Source(found.session, "turn_1"), item, 0) for item in items.values()]
    tell(room, found, note("before"), *told, note("after"), items=items)
    answers = []
    while more := stream.more():
        answers.append(more)
    assert [[frame.get("item", {}).get("id") for frame in more] for more in answers] == [
        [None], ["item_0"], ["item_1"], ["item_2", None],
    ]  # fmt: skip
    assert answers[2][0]["item"] == items["item_1"]


def test_an_item_that_grows_between_two_looks_is_read_anew(room: Room) -> None:
    found = session(room)
    stream = live(room, found)
    source = Source(found.session, "turn_1")
    command = {"id": "item_1", "type": "command_execution", "command": LONG, "output": None, "status": "in_progress"}
    tell(room, found, events.item_added(source, command, 0), items={"item_1": command})
    (added,) = read(stream)
    assert added["item"] == command
    ended = {**command, "output": LONG, "status": "completed"}
    partition = found.partition
    row = room.state.get(partition, "item/item_1")
    assert row is not None

    def decide(draft: Any) -> None:
        draft.put("item/item_1", large.placed(room, partition, ended), row.version)
        draft.tell(events.item_done(source, ended, 0))

    swap(room, need(room, PROJECT, found.session), decide)
    (done,) = read(stream)
    assert done["item"] == ended


def test_a_live_stream_goes_on_through_idle_and_failed_turns_and_ends_behind_error(room: Room) -> None:
    found = session(room)
    stream = live(room, found)
    tell(room, found, turn("completed"), idle())
    tell(room, found, turn("failed"), idle(), events.session_frame("requires_action", {}))
    through = ["turn.completed", "idle", "turn.failed", "idle", "requires_action"]
    assert (kinds(read(stream)), stream.over) == (through, False)
    failed = events.environment_failed({"status": "failed"}, "env_1", "openai_hosted", found.session)
    tell(room, found, *failed, note("never"))
    assert kinds(read(stream)) == ["environment.failed", "failed", "error"]
    assert stream.over
    tell(room, found, note("never"))
    assert stream.more() == []


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_creation_stream_ends_behind_the_idle_that_follows_its_turn(room: Room, end: str) -> None:
    found = session(room)
    tell(room, found, events.session_frame("created", {}), idle(), turn("queued"))
    tell(room, found, events.session_frame("requires_action", {}), turn(end), idle(), note("never"))
    stream = open_stream(room, PROJECT, found.session, creation=True)
    frames = kinds(read(stream))
    assert frames == ["created", "idle", "turn.created", "requires_action", f"turn.{end}", "idle"]
    assert stream.over


def test_a_creation_stream_ends_behind_a_failed_session_and_before_error(room: Room) -> None:
    found = session(room)
    tell(room, found, *events.environment_failed({}, "env_1", "openai_hosted", found.session))
    stream = open_stream(room, PROJECT, found.session, creation=True)
    assert kinds(read(stream)) == ["environment.failed", "failed"]
    assert stream.over


def gone(room: Room, found: Found) -> None:
    """Delete a Session as its operation does, and sweep it as the janitor does."""
    head = need(room, PROJECT, found.session)
    swap(room, head, lambda draft: setattr(draft, "head", replace(draft.head, gone=True)))
    room.state.delete_partition(found.partition)


def test_a_stream_is_over_when_its_session_is_gone(room: Room) -> None:
    found = session(room)
    stream = live(room, found)
    assert (stream.check(), stream.over) == (True, False)
    gone(room, found)
    assert stream.more() == []
    assert (stream.check(), stream.over) == (False, True)


def test_a_session_that_goes_while_its_frames_are_read_ends_the_stream(room: Room) -> None:
    found = session(room)
    stream = live(room, found)
    item = message("item_1", LONG)
    tell(room, found, note("1"), events.item_done(Source(found.session, "turn_1"), item, 0), items={"item_1": item})
    assert kinds(stream.more()) == ["note"]
    gone(room, found)
    assert stream.more() == []
    assert stream.over


class Shaky:
    """A state that cannot be reached while `broken` names the verb."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.broken: str | None = None

    def _try(self, verb: str) -> State:
        if self.broken == verb:
            raise StoreUnavailable(verb)
        return self._state

    def get(self, partition: str, sort: str) -> Item | None:
        return self._try("get").get(partition, sort)

    def query(self, partition: str, prefix: str = "", **more: Any) -> list[Item]:
        return self._try("query").query(partition, prefix, **more)

    def transact(self, actions: Any) -> list[int]:
        return self._try("transact").transact(actions)

    def delete_partition(self, partition: str) -> None:
        self._state.delete_partition(partition)

    def sweep(self, now: int) -> int:
        return self._state.sweep(now)


@pytest.fixture
def shaky(room: Room) -> tuple[Room, Shaky]:
    state = Shaky(room.state)
    return replace(room, state=state), state


@pytest.mark.parametrize("verb", ["get", "query"])
def test_a_store_that_fails_in_between_costs_no_frame(shaky: tuple[Room, Shaky], verb: str) -> None:
    room, state = shaky
    found = session(room)
    stream = live(room, found)
    item = message("item_1", LONG)
    done = events.item_done(Source(found.session, "turn_1"), item, 0)
    tell(room, found, note("1"), idle(), done, note("2"), items={"item_1": item})
    state.broken = verb
    frames: list[Frame] = []
    failures = 0
    while len(frames) < 4:
        try:
            frames += stream.more()
        except StoreUnavailable:
            failures += 1
            state.broken = None
        else:
            state.broken = verb if verb == "get" and not failures else None
    assert failures == 1
    assert kinds(frames) == ["note", "idle", "turn.item.done", "note"]
