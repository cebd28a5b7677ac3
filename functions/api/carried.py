"""The bytes of a stored file as an answer: here, in pieces, or by 302 to where a front door's limit does not hold.

    more than the door carries, and the store makes grants ── 302, at most a minute
    otherwise ── pieces, one late ── digest right? the last piece : the answer breaks off

On another digest it breaks off below its Content-Length, which no client takes for the whole file (agents.md 11.41).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

from starlette.responses import Response, StreamingResponse

from functions.api.elsewhere import place_of
from functions.api.workers import Workers
from shared.errors import Code, Failure
from shared.operations.room import Room
from shared.operations.transfer import Download
from shared.store.ports import ObjectMissing

_ELSEWHERE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Place:
    """Whose file it is: the project and the session."""

    project: str
    session: str


async def carried(
    room: Room,
    workers: Workers,
    place: Place,
    found: Download,
    headers: Mapping[str, str],
    *,
    status: int = 200,
    start: int = 0,
    length: int | None = None,
) -> Response:
    """`length` bytes of a file from `start` on. `headers` are those of an answer with bytes, its length among them.

    Errors: 503 where they are gone; StoreUnavailable, DigestMismatch.
    """
    wanted = found.size - start if length is None else length
    elsewhere = await place_of(room, workers, place.project, place.session, found, wanted)
    if elsewhere is not None:
        return Response(b"", 302, {"Location": elsewhere, **_ELSEWHERE})
    source = found.pieces(room, start, wanted)
    try:
        first = await workers.quick(_next, source)
    except ObjectMissing:
        raise Failure(Code.STORE_UNAVAILABLE) from None
    return StreamingResponse(_stream(workers, source, first), status, headers)


async def _stream(workers: Workers, source: Iterator[bytes], first: bytes | None) -> AsyncIterator[bytes]:
    """The pieces, one late: the last is sent only when the digest of the whole has been seen to be right."""
    held = first
    try:
        while held is not None:
            piece = await workers.quick(_next, source)
            yield held
            held = piece
    finally:
        await workers.finish(_close, source)


def _next(source: Iterator[bytes]) -> bytes | None:
    return next(source, None)


def _close(source: Iterator[bytes]) -> None:
    close = getattr(source, "close", None)
    if close is not None:
        close()
