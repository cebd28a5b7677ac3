"""A JSON request body: read with a cap, exact UTF-8, no constants beyond JSON, bounded depth and number of values.

Errors are 400 and name `body` and the limit (exec.md A3: clients read 413 on a run as temporary, so it is 400).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from functions.api.bodies import Take
from shared.errors import Failure, invalid

MAX_DEPTH = 64
"""Nesting of arrays and objects; the deepest request of the contract has three levels."""
MAX_VALUES = 100_000
"""Members and elements together. Each costs a hundred bytes of memory and holds up every other request while it is
read; the largest request of the contract has a tenth of them."""
_CHUNK = 512 * 1024


async def pieces(receive: Receive) -> AsyncIterator[bytes]:
    """The body as it comes. Errors: ClientDisconnect when the client goes away before its end."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if body := message.get("body", b""):
            yield body
        more = message.get("more_body", False)


async def chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body in larger pieces than it comes in: one step into a thread for each. Errors: as `pieces`."""
    waiting = bytearray()
    async for piece in pieces(receive):
        waiting += piece
        if len(waiting) >= _CHUNK:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


async def read_body(receive: Receive, announced: int | None, limit: int, take: Take) -> bytes:
    """The whole body, refused as soon as it is known to be larger than `limit` bytes, or there is no room for it."""
    if announced is not None and announced > limit:
        raise _too_long(limit)
    parts: list[bytes] = []
    size = 0
    async for piece in pieces(receive):
        size += len(piece)
        if size > limit:
            raise _too_long(limit)
        take(len(piece))
        parts.append(piece)
    return b"".join(parts)


def _too_long(limit: int) -> Failure:
    return invalid("body", f"must not be longer than {limit} bytes")


def parse_json(raw: bytes) -> dict[str, Any]:
    """The object of a JSON body. Of two members with one name the last counts. Errors: 400 naming `body`."""
    check_values(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("body", "must be UTF-8") from None
    try:
        data = json.loads(text, parse_constant=_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise invalid("body", "must be JSON") from None
    if not isinstance(data, dict):
        raise invalid("body", "must be a JSON object")
    _check_depth(data)
    return data


def check_values(raw: bytes) -> None:
    """Refuse a text of too many values before anything is made of it. Errors: 400 naming `body`."""
    if len(raw) <= MAX_VALUES:
        return
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * MAX_VALUES:
        raise _too_many()
    # Every second part lies between strings.
    between = b"".join(plain.split(b'"')[::2])
    if sum(map(between.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise _too_many()


def _too_many() -> Failure:
    return invalid("body", f"must not hold more than {MAX_VALUES} values")


def _constant(name: str) -> NoReturn:
    raise ValueError(name)


def _too_deep() -> Failure:
    return invalid("body", f"must not be nested deeper than {MAX_DEPTH} levels")


def _check_depth(data: dict[str, Any]) -> None:
    level: list[Any] = [data]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()
