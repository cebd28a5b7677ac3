"""The gate of a JSON body, its rows in their order (agents.md 1.4)."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.types import Receive

from functions.api.bodies import Take
from functions.api.headers import content_length
from functions.api.jsonbody import MAX_DEPTH, check_values, pieces
from shared.agents_errors import Fault, Refusal
from shared.errors import Failure
from shared.limits import KIB, MIB

BODY_BYTES = 1 * MIB
LARGE_BODY_BYTES = 16 * MIB
"""A Session's creation, and a Template's."""
FILE_BODY_BYTES = ((50 * MIB + 2) // 3) * 4 + 16 * KIB
"""The creation of an environment file: 50 MiB in Base64, and 16 KiB."""

_MEDIA = re.compile(r"application/(?:[!#$%&'*+\-.^_`|~0-9a-z]+\+)?json", re.ASCII)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ECHO_BYTES = 256
_TYPE = "expected request with Content-Type: application/json"
_UNICODE = (
    "Invalid body: encountered a unicode decode error when parsing this JSON value. "
    "Please check the value to ensure it is valid unicode."
)
_JSON = (
    "Invalid body: failed to parse JSON value. Please check the value to ensure it is valid JSON. "
    "(Common errors include trailing commas, missing closing brackets, missing quotation marks, etc.)"
)


def _refuse(message: str) -> Refusal:
    return Refusal(Fault.INVALID, message)


def check_media(headers: Headers) -> None:
    """One Content-Type, of JSON. Errors: 400."""
    values = headers.getlist("content-type")
    media = values[0].partition(";")[0].strip().lower() if len(values) == 1 else ""
    if not _MEDIA.fullmatch(media):
        raise _refuse(_TYPE)


async def read_raw(headers: Headers, receive: Receive, take: Take, limit: int = BODY_BYTES) -> bytes:
    """Rows 1 and 2: the bytes of a request's body. Errors: 400; 413 above `limit` bytes; 429 where no room is left."""
    check_media(headers)
    announced = content_length(headers)
    if announced is not None and announced > limit:
        raise Refusal(Fault.TOO_LARGE)
    raw = bytearray()
    async for piece in pieces(receive):
        if len(raw) + len(piece) > limit:
            raise Refusal(Fault.TOO_LARGE)
        take(len(piece))
        raw += piece
    return bytes(raw)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Rows 3 to 6: the object; an empty body and `null` are `{}`. Errors: 400."""
    if not raw:
        return {}
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _refuse(_UNICODE) from None
    try:
        check_values(raw)
        data = json.loads(text, parse_constant=_constant, object_pairs_hook=_Pairs)
    except Failure:
        raise Refusal(Fault.LOCAL) from None
    except (RecursionError, ValueError):
        raise _refuse(_JSON) from None
    if _SURROGATE.search(raw):
        _check_text(data)
    made = _made(data, (), 0)
    if made is None:
        return {}
    if not isinstance(made, dict):
        raise _refuse(f"Invalid type: expected an object, but got {kind_of(made)} instead.")
    return made


class _Pairs(list[tuple[str, Any]]):
    """The members of an object as they came."""


def _constant(name: str) -> NoReturn:
    raise ValueError(name)


def _check_text(data: Any) -> None:
    """No text may hold a lone surrogate."""
    waiting = [data]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            try:
                one.encode("utf-8")
            except UnicodeEncodeError:
                raise _refuse(_JSON) from None
        elif isinstance(one, _Pairs):
            waiting += [part for pair in one for part in pair]
        elif isinstance(one, list):
            waiting += one


def _made(data: Any, path: tuple[str, ...], depth: int) -> Any:
    """Objects from their members, the first name that comes twice refused in the order of the text."""
    if depth > MAX_DEPTH:
        raise _refuse(_JSON)
    if isinstance(data, _Pairs):
        found: dict[str, Any] = {}
        for name, value in data:
            here = (*path, name)
            if name in found:
                raise _refuse(_twice(name, ".".join(here)))
            found[name] = _made(value, here, depth + 1)
        return found
    if isinstance(data, list):
        return [_made(one, path, depth + 1) for one in data]
    return data


def _twice(name: str, path: str) -> str:
    where = f" '{name}' at '{path}'" if may_echo(name) and may_echo(path) else ""
    return f"Invalid body: duplicate JSON key{where}. Duplicate JSON keys are not supported."


def may_echo(text: str) -> bool:
    """Whether a caller's text may stand in a message: at most 256 bytes, printable."""
    return text.isprintable() and len(text.encode("utf-8", "surrogatepass")) <= _ECHO_BYTES


def kind_of(value: Any) -> str:
    """What a JSON value is, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds: tuple[tuple[type, str], ...] = (
        (str, "a string"), (int, "an integer"), (float, "a number"), (list, "an array"), (dict, "an object"),
    )  # fmt: skip
    return next(name for kind, name in kinds if isinstance(value, kind))
