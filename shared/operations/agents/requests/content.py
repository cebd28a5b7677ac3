"""User messages and their parts, as a Session's creation, an event and a function's result carry them (agents.md 5.2).

What is read is what is stored: the members that the contract has, in one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.operations.agents.requests.reading import (
    as_array,
    as_object,
    as_text,
    json_bytes,
    local,
    one_of,
    only,
    required,
)

UserMessage = dict[str, Any]
"""`{"role": "user", "content": [part, …]}`; a part is `{type, text}` or `{type, image_url}`."""
INPUT_BYTES = 512 * 1024
"""Stored input of one request, as compact JSON in UTF-8."""

_MEMBERS = {"input_text": "text", "input_image": "image_url"}


def read_messages(value: object, path: str) -> tuple[UserMessage, ...]:
    """An array of user messages, each of which says something. Errors: 400."""
    rows = as_array(value, path)
    if not rows:
        raise local()
    return tuple(_message(row, f"{path}[{index}]") for index, row in enumerate(rows))


def read_parts(value: object, path: str) -> list[dict[str, str]]:
    """An array of parts, which may be empty. Errors: 400."""
    return [_part(row, f"{path}[{index}]") for index, row in enumerate(as_array(value, path))]


def text_message(text: str) -> UserMessage:
    """What a string stands for: one message with one part. Errors: 400 for an empty one."""
    if not text:
        raise local()
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


def check_size(stored: object) -> None:
    """At most 512 KiB of input. Errors: 400."""
    if json_bytes(stored) > INPUT_BYTES:
        raise local()


def _message(value: object, path: str) -> UserMessage:
    data = as_object(value, path)
    only(data, ("content", "role", "type"), path)
    one_of(required(data, "role", path), ("user",), f"{path}.role")
    if "type" in data:
        one_of(data["type"], ("message",), f"{path}.type")
    parts = read_parts(required(data, "content", path), f"{path}.content")
    if not _says_something(parts):
        raise local()
    return {"role": "user", "content": parts}


def _part(value: object, path: str) -> dict[str, str]:
    data: Mapping[str, Any] = as_object(value, path)
    kind = one_of(required(data, "type", path), tuple(_MEMBERS), f"{path}.type")
    member = _MEMBERS[kind]
    only(data, ("type", member), path)
    text = as_text(required(data, member, path), f"{path}.{member}")
    if kind == "input_image" and not text:
        raise local()
    return {"type": kind, member: text}


def _says_something(parts: Sequence[Mapping[str, str]]) -> bool:
    """A text that is not empty, or an image."""
    return any(part["type"] == "input_image" or part["text"] for part in parts)
