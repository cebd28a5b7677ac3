"""`Range` of a download: one range of bytes or none (RFC 9110, 14). Several ranges are answered with the whole."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.datastructures import Headers

_RANGE = re.compile(r"bytes=[ \t]*(\d{0,19})-(\d{0,19})[ \t]*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes to send: `length` of them from `start`; `partial` answers 206."""

    start: int
    length: int
    partial: bool


def requested(headers: Headers, size: int, tag: str) -> Span | None:
    """What a request asks for, None where no byte of it exists (416). A `Range` that is no such thing is ignored."""
    whole = Span(0, size, False)
    values = headers.getlist("range")
    found = _RANGE.fullmatch(values[0]) if len(values) == 1 else None
    if found is None or headers.get("if-range", tag) != tag:
        return whole
    first, last = found[1], found[2]
    if not first:
        if not last:
            return whole
        length = min(int(last), size)
        return Span(size - length, length, True) if length else None
    start, end = int(first), int(last) if last else size - 1
    if last and end < start:
        return whole
    if start >= size:
        return None
    return Span(start, min(end, size - 1) - start + 1, True)
