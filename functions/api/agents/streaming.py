"""Event streams over HTTP: `text/event-stream`, its pace and its places (agents.md 5.3).

    place? 429 ── cursor fixed ── headers ──┬── frames, or a pause that news cut short; ": keepalive" where it is long
                                            └── ends: the stream is over | the client has gone | the service ends

A frame is sent before the next is made, and a look at the store follows only when all are sent: a client that reads
slowly holds a bounded part, and no thread. The end of the service ends a stream as its own end does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from functions.api.agents.params import path_params
from functions.api.mcp_schema import clean
from functions.api.typed import Handler, caller_of
from functions.api.workers import Workers
from shared.agents_errors import Fault, Refusal
from shared.domain.agents.events import Frame
from shared.operations.agents.streams import Stream, open_stream
from shared.operations.base import Call
from shared.operations.room import Gate, Room
from shared.settings import Settings
from shared.store.ports import StoreUnavailable

CREATION = "sessions.create"
"""The operation that answers with a stream where its body's `stream` is true."""
KEEPALIVE = b": keepalive\n\n"
_CREATED = 201
_PIECE = 64 * 1024
_GROWTH = 1.5
_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""What some clients take for the end of a line, as JSON may write it. JSON itself escapes the rest."""
_ELSEWHERE = "Streaming is not available at this address. Use the streaming address of the service."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds: the first pause after a frame and the longest, between looks at the Session, until a comment is sent
    where no frame was, and for which a store may not be reached before the stream breaks off."""

    first: float = 0.02
    longest: float = 0.25
    check: float = 1.0
    keepalive: float = 15.0
    patience: float = 30.0


LOCAL = Pace()
AWS = Pace(first=0.2, longest=1.0)


def pace_of(settings: Settings) -> Pace:
    """How often a store is asked: news come by a bell within one process, by looking from another."""
    return AWS if settings.store == "aws" else LOCAL


def event_bytes(frame: Frame) -> bytes:
    """A frame on the wire. No text of it can end a line."""
    data = json.dumps(clean(frame), ensure_ascii=False, separators=(",", ":")).translate(_BREAKS)
    return f"event: {frame['type']}\ndata: {data}\n\n".encode()


class Streams:
    """The event streams of one application. Without a `pace` its door carries none."""

    def __init__(self, room: Room, workers: Workers, pace: Pace | None) -> None:
        self.room = room
        self.workers = workers
        self._pace = pace
        self._places = Gate(room.limits.streams, room.limits.project_streams)

    async def live(self, project: str, session: str) -> Response:
        """What comes from now on: the cursor stands before the first byte is sent. Errors: 400, 404, 429."""
        pace = self._carried(None)
        with self._place(project) as kept:
            stream = await self.workers.quick(open_stream, self.room, project, session, creation=False)
            return kept(EventResponse(self, stream, pace, 200))

    async def created(self, project: str, create: Callable[[], Awaitable[BaseModel]]) -> Response:
        """Create a Session and tell of it from its beginning. Errors: those of `create`; before it, 400 and 429."""
        pace = self._carried("stream")
        with self._place(project) as kept:
            session: str = getattr(await create(), "id")  # noqa: B009
            stream = await self.workers.quick(open_stream, self.room, project, session, creation=True)
            return kept(EventResponse(self, stream, pace, _CREATED))

    def _carried(self, param: str | None) -> Pace:
        if self._pace is None:
            raise Refusal(Fault.INVALID, _ELSEWHERE, param=param)
        return self._pace

    @contextlib.contextmanager
    def _place(self, project: str) -> Iterator[Callable[[EventResponse], EventResponse]]:
        """A place, which the response gives back that is made in the block, else the block itself. Errors: 429."""
        self._places.take(project)
        kept = False

        def keep(response: EventResponse) -> EventResponse:
            nonlocal kept
            kept = True
            response.leave = lambda: self._places.leave(project)
            return response

        try:
            yield keep
        finally:
            if not kept:
                self._places.leave(project)


class EventResponse(Response):
    """An answer that sends a stream to its end. `leave` is called once, when it is over."""

    def __init__(self, streams: Streams, stream: Stream, pace: Pace, status: int) -> None:
        self.status_code = status
        self.background = None
        self.leave: Callable[[], None] = lambda: None
        self._room = streams.room
        self._workers = streams.workers
        self._stream = stream
        self._pace = pace
        # `X-Accel-Buffering` keeps a proxy in front from collecting frames.
        self.init_headers({"Cache-Control": "no-store", "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._workers.streaming() as end:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                if await self._until(receive, send, end):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.leave()

    async def _until(self, receive: Receive, send: Send, end: asyncio.Event) -> bool:
        """Send until there is an end; whether there is still somebody to be told of it. Errors: StoreUnavailable."""
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        ending = asyncio.ensure_future(end.wait())
        tasks: tuple[asyncio.Future[Any], ...] = (sending, gone, ending)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            left = gone.done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error
        return not left

    async def _send(self, send: Send) -> None:
        """Frames as they come, up to the stream's end."""
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()

        def news() -> None:
            # The loop may have ended while the bell was being rung.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake.set)

        with self._room.bells.listen(self._stream.partition, news):
            pause = self._pace.first
            told = checked = reached = loop.time()
            while not self._stream.over:
                rung = wake.is_set()
                wake.clear()
                try:
                    frames = await self._workers.quick(self._stream.more)
                    for frame in frames:
                        await _send_bytes(send, event_bytes(frame))
                    if not frames and (rung or loop.time() - checked >= self._pace.check):
                        await self._workers.quick(self._stream.check)
                        checked = loop.time()
                    reached = loop.time()
                except StoreUnavailable:
                    if loop.time() - reached >= self._pace.patience:
                        raise
                    frames = []
                now = loop.time()
                if frames:
                    pause, told = self._pace.first, now
                    continue
                if now - told >= self._pace.keepalive:
                    await send({"type": "http.response.body", "body": KEEPALIVE, "more_body": True})
                    told = now
                if not self._stream.over:
                    await _rest(wake, min(pause, told + self._pace.keepalive - now))
                    pause = min(pause * _GROWTH, self._pace.longest)


async def _send_bytes(send: Send, data: bytes) -> None:
    """Send in pieces: what was handed to a connection is copied, and lies there until its client reads."""
    for start in range(0, len(data), _PIECE):
        await send({"type": "http.response.body", "body": data[start : start + _PIECE], "more_body": True})


async def _rest(wake: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wake.wait()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def stream_handler(streams: Streams) -> Handler:
    """`GET …/sessions/{session_id}/events`. Its query and `Last-Event-ID` are not looked at."""

    async def handle(request: Request) -> Response:
        return await streams.live(Call(caller_of(request)).project, path_params(request)["session_id"])

    return handle
