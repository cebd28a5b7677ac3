"""What a model reads of a tool's answer: text, and the images that a run produced.

A run is told in words (standard output as it is, then standard error, then what became of it and which files it
left); every other answer is its JSON. Names and output are the program's own: a name that could be taken for
something else is quoted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_types import ImageContent, TextContent

from functions.api.mcp_schema import text
from shared.errors import Failure
from shared.operations.base import Call
from shared.operations.room import Room
from shared.store.ports import DigestMismatch, StoreUnavailable

Content = TextContent | ImageContent
Value = Mapping[str, Any]

_RUN = "exec.run"
_READ = "files.read"
_IMAGES = (
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF8"),
    ("image/webp", b"RIFF"),
)
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def content_of(room: Room, call: Call, name: str, value: Value) -> list[Content]:
    """The content of the operation `name`'s answer, whose structured content is `value`."""
    if name == _RUN:
        return [*_run_text(value), *_run_images(room, call, value)]
    if name == _READ:
        return _read_content(value)
    return [TextContent(text=json.dumps(value, ensure_ascii=False, indent=1))]


def image_type(data: bytes) -> str | None:
    """The media type of image bytes by what they begin with, or None. A name is no evidence."""
    for kind, start in _IMAGES:
        if data.startswith(start) and (kind != "image/webp" or data[8:12] == b"WEBP"):
            return kind
    return None


def _run_text(value: Value) -> Iterator[TextContent]:
    if value["stdout"]:
        yield TextContent(text=value["stdout"])
    if value["stderr"]:
        yield TextContent(text=f"stderr:\n{value['stderr']}")
    yield TextContent(text="\n".join(_run_lines(value)))


def _run_lines(value: Value) -> Iterator[str]:
    code, signal, status = value.get("code"), value.get("signal"), value.get("status")
    end = f"signal {signal}" if code is None else f"exit code {code}"
    yield f"session {value['session_id']}, {end}" + (f", status {status}" if status else "")
    if value.get("message"):
        yield str(value["message"])
    made = [file for file in value["files"] if not file.get("inherited")]
    if made:
        yield "files:"
    for file in made:
        size = file.get("size")
        yield f"- {quoted(file['name'])}" + (f" ({size} bytes)" if size is not None else "") + f" id {file['id']}"
    if value.get("deleted_files"):
        yield "deleted files: " + ", ".join(quoted(name) for name in value["deleted_files"])


def quoted(name: str) -> str:
    """A name as it is where it is plain, else as a JSON string: a line break in it forges no line."""
    plain = name.isprintable() and name == name.strip() and not any(mark in name for mark in '",()')
    return name if plain else json.dumps(name)


def _run_images(room: Room, call: Call, value: Value) -> Iterator[Content]:
    left = room.limits.mcp_image_bytes
    for file in value["files"]:
        if file.get("inherited") or not str(file["name"]).lower().endswith(_SUFFIXES):
            continue
        size = file.get("size")
        if size is None or size > left:
            yield TextContent(text=f"{quoted(file['name'])} is not shown: images of one answer are limited")
            continue
        data = _bytes(room, call, str(file.get("storage_session_id") or value["session_id"]), str(file["id"]), left)
        kind = image_type(data) if data else None
        if data and kind:
            left -= len(data)
            yield ImageContent(data=base64.b64encode(data).decode("ascii"), mime_type=kind)


def _bytes(room: Room, call: Call, session_id: str, file_id: str, most: int) -> bytes | None:
    """The bytes of a produced file; None when another run has taken or grown it, or the store fails: the run stands."""
    from shared.operations.transfer import open_file  # noqa: PLC0415

    try:
        found = open_file(room, call, session_id, file_id)
        return b"".join(found.pieces(room)) if found.size <= most else None
    except (Failure, DigestMismatch, StoreUnavailable):
        return None


def _read_content(value: Value) -> list[Content]:
    content = value["content"]
    if value.get("encoding") != "base64":
        return [TextContent(text=text(content))] if content else [TextContent(text="(the file is empty)")]
    kind = image_type(base64.b64decode(content[:64]))
    if kind is not None:
        return [ImageContent(data=content, mime_type=kind)]
    return [TextContent(text=content)]
