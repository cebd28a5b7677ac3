"""One answer of an event stream as ASGI sees it: what a slow client costs, and what each end does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from functions.api.agents.streaming import KEEPALIVE, EventResponse, Pace, Streams, event_bytes
from functions.api.workers import Workers
from shared.domain.agents.events import Frame
from shared.operations.agents.streams import Stream
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

FRAME: Frame = {"type": "agent.session.note", "event_id": "evt_1"}
Message = dict[str, Any]


class Scripted:
    """A stream whose looks give what they are told to; then nothing, until it is over."""

    partition = "p/first/s/sess_1"

    def __init__(self, *looks: list[Frame] | Exception, over: bool = False) -> None:
        self._looks = list(looks)
        self._ends = over
        self.looked = 0
        self.over = False

    def more(self) -> list[Frame]:
        self.looked += 1
        found = self._looks.pop(0) if self._looks else []
        if isinstance(found, Exception):
            raise found
        self.over = self._ends and not self._looks
        return found

    def check(self) -> bool:
        return True


class Wire:
    """A client: what it was sent, and whether it is still there."""

    def __init__(self, *, stalls_at: int | None = None) -> None:
        self.sent: list[Message] = []
        self.gone = asyncio.Event()
        self.stalled = asyncio.Event()
        self._stalls_at = stalls_at

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.sent if message["type"] == "http.response.body"]

    async def send(self, message: Message) -> None:
        self.sent.append(dict(message))
        if self._stalls_at is not None and len(self.bodies) >= self._stalls_at:
            self.stalled.set()
            await asyncio.Event().wait()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}


class Answer:
    """An answer under way."""

    def __init__(self, room: Room, stream: Scripted, wire: Wire, pace: Pace | None = None) -> None:
        self.left = 0
        self.workers = Workers(room.limits)
        pace = pace or Pace(first=0.001, longest=0.001)
        self._response = EventResponse(Streams(room, self.workers, pace), cast("Stream", stream), pace, 200)
        self._response.leave = self._leave
        self._wire = wire

    def _leave(self) -> None:
        self.left += 1

    async def run(self) -> None:
        await self._response({"type": "http"}, self._wire.receive, self._wire.send)  # type: ignore[arg-type]


def within(scene: Callable[[], Awaitable[None]]) -> None:
    """Run a scene, which is over in a moment or hangs."""

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scene()

    asyncio.run(bounded())


def test_an_end_of_the_stream_is_a_clean_end(room: Room) -> None:
    async def scene() -> None:
        wire = Wire()
        answer = Answer(room, Scripted([FRAME], [FRAME, FRAME], over=True), wire)
        await answer.run()
        assert wire.sent[0]["status"] == 200
        assert wire.bodies == [b"", *[event_bytes(FRAME)] * 3, b""]
        assert [message.get("more_body") for message in wire.sent[1:]] == [True] * 4 + [False]
        assert answer.left == 1

    within(scene)


def test_the_headers_are_sent_before_the_first_look(room: Room) -> None:
    async def scene() -> None:
        wire, stream = Wire(stalls_at=1), Scripted([FRAME])
        running = asyncio.ensure_future(Answer(room, stream, wire).run())
        await wire.stalled.wait()
        assert (len(wire.sent), stream.looked) == (2, 0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    within(scene)


def test_a_client_that_does_not_read_is_not_read_ahead_for_and_goes_like_any_other(room: Room) -> None:
    async def scene() -> None:
        wire, stream = Wire(stalls_at=2), Scripted(*[[FRAME, FRAME]] * 50)
        answer = Answer(room, stream, wire)
        running = asyncio.ensure_future(answer.run())
        await wire.stalled.wait()
        await asyncio.sleep(0.05)
        assert (stream.looked, len(wire.bodies)) == (1, 2)
        wire.gone.set()
        await running
        assert (stream.looked, len(wire.bodies), answer.left) == (1, 2, 1)

    within(scene)


def test_the_end_of_the_service_ends_a_stream_and_each_that_comes_after(room: Room) -> None:
    async def scene() -> None:
        wire = Wire()
        answer = Answer(room, Scripted(), wire)
        running = asyncio.ensure_future(answer.run())
        while not wire.bodies:
            await asyncio.sleep(0)
        answer.workers.end_streams()
        await running
        assert (wire.sent[-1]["more_body"], answer.left) == (False, 1)
        await answer.run()
        assert wire.sent[-1]["more_body"] is False

    within(scene)


def test_a_store_that_comes_back_is_no_end(room: Room) -> None:
    async def scene() -> None:
        wire = Wire()
        broken = StoreUnavailable("query")
        await Answer(room, Scripted(broken, broken, [FRAME], over=True), wire).run()
        assert wire.bodies == [b"", event_bytes(FRAME), b""]

    within(scene)


def test_a_store_that_stays_away_breaks_the_stream_off(room: Room) -> None:
    async def scene() -> None:
        wire = Wire()
        pace = Pace(first=0.001, longest=0.001, patience=0)
        answer = Answer(room, Scripted([FRAME], StoreUnavailable("query")), wire, pace)
        with pytest.raises(StoreUnavailable):
            await answer.run()
        assert wire.sent[-1]["more_body"] is True
        assert answer.left == 1

    within(scene)


def test_a_comment_is_sent_where_no_frame_is_and_only_there(room: Room) -> None:
    async def scene() -> None:
        wire = Wire()
        quiet = asyncio.ensure_future(Answer(room, Scripted(), wire, Pace(first=0.001, keepalive=0.01)).run())
        while wire.bodies.count(KEEPALIVE) < 3:
            await asyncio.sleep(0.001)
        wire.gone.set()
        await quiet
        assert set(wire.bodies) == {b"", KEEPALIVE}
        busy = Wire()
        await Answer(room, Scripted(*[[FRAME]] * 20, over=True), busy, Pace(keepalive=0)).run()
        assert KEEPALIVE not in busy.bodies

    within(scene)


def test_a_bell_that_rings_after_the_loop_has_ended_harms_nobody(room: Room) -> None:
    rung: list[Callable[[], None]] = []

    class Kept:
        """Bells that keep who listened."""

        def listen(self, partition: str, news: Callable[[], None]) -> Any:
            rung.append(news)
            return room.bells.listen(partition, news)

    async def scene() -> None:
        from dataclasses import replace  # noqa: PLC0415

        kept = replace(room, bells=cast("Any", Kept()))
        await Answer(kept, Scripted([FRAME], over=True), Wire()).run()

    within(scene)
    (news,) = rung
    assert news() is None
