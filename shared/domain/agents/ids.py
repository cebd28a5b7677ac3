"""Identifiers of the Agents API: a prefix, an order where there is one, and 144 random bits (agents.md 11.17, 11.26).

A malformed id is a missing one: whoever gets an id from a caller asks `is_id` before anything is looked up, so that
no other text stands in a key of a store.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Literal, get_args

Prefix = Literal["sess", "env", "turn", "item", "art", "agent", "evt", "call", "write", "batch", "file"]
PREFIXES: tuple[Prefix, ...] = get_args(Prefix)

_DIGITS = "0123456789abcdefghijklmnopqrstuv"
"""In the order of their bytes, so that fixed-width numbers sort as texts do."""
_ORDER = 8
_STAMP = 9
_RANDOM = 24
_TEXT = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_NUMBER = re.compile(r"[0-9a-v]+", re.ASCII)
_ORDERED: dict[Prefix, int] = {
    "sess": _STAMP, "env": _STAMP, "agent": _STAMP, "file": _STAMP,
    "turn": _ORDER, "item": _ORDER, "art": _ORDER, "evt": _ORDER,
}  # fmt: skip
Random = Callable[[int], bytes]
"""Gives that many random bytes, such as `os.urandom`."""


def order(sequence: int) -> str:
    """A number of a Session's sequence in 8 characters that sort as the numbers do. Errors: ValueError."""
    return _number(sequence, _ORDER)


def stamp(ms: int) -> str:
    """A time (epoch milliseconds) in 9 characters that sort as the times do. Errors: ValueError."""
    return _number(ms, _STAMP)


def _number(value: int, width: int) -> str:
    if not 0 <= value < 32**width:
        raise ValueError("a number out of the range of an id")
    digits = ""
    for _ in range(width):
        digits = _DIGITS[value % 32] + digits
        value //= 32
    return digits


def new(prefix: Prefix, random: Random, place: str = "") -> str:
    """A new id. `place` is `stamp(…)` or `order(…)` where ids of that prefix sort. Errors: ValueError."""
    if len(place) != _ORDERED.get(prefix, 0) or (place and _NUMBER.fullmatch(place) is None):
        raise ValueError("an id without its place in the order")
    tail = base64.urlsafe_b64encode(random(18)).decode("ascii")
    if len(tail) != _RANDOM:
        raise ValueError("a source of random bytes that gives another number of them")
    return _head(prefix) + place + tail


def is_id(text: str, prefix: Prefix) -> bool:
    """Whether a text can be an id of that prefix; of another text nothing exists."""
    head = _head(prefix)
    width = _ORDERED.get(prefix, 0)
    return (
        len(text) == len(head) + width + _RANDOM
        and text.startswith(head)
        and _TEXT.fullmatch(text) is not None
        and (width == 0 or _NUMBER.fullmatch(text[len(head) : len(head) + width]) is not None)
    )


def sequence_of(text: str, prefix: Prefix) -> int | None:
    """The number that an id begins with, or None for what is no such id."""
    width = _ORDERED.get(prefix, 0)
    if width == 0 or not is_id(text, prefix):
        return None
    start = len(_head(prefix))
    return int(text[start : start + width], 32)


def environment_of(session: str) -> str:
    """The id of a Session's Environment: the two share what follows the prefix, so that no table joins them."""
    return "env_" + session.removeprefix("sess_")


def session_of(environment: str) -> str | None:
    """The id of the Session that an Environment would belong to, or None for what is no Environment's id."""
    return "sess_" + environment.removeprefix("env_") if is_id(environment, "env") else None


def _head(prefix: Prefix) -> str:
    """`file-` is the wire's own (11.25); every other prefix ends with an underscore."""
    return "file-" if prefix == "file" else f"{prefix}_"
