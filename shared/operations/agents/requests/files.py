"""One file that is to stand in a workspace, as a Session's creation and Files.create name it (agents.md 2, 3.3).

Rows 4 to 8 of table 3.3, in their order. Nothing of a path or of the data is cleaned up: it is taken as it stands, or
refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.agents_errors import Refusal
from shared.domain.agents import envpaths
from shared.domain.agents.refusals import Refused
from shared.operations.agents.requests.reading import local, only, refusal

INLINE_BYTES = 5 * 1024 * 1024
"""Decoded bytes of one inline file."""
_CONTENT = {"inline": "data", "file_id": "file_id"}


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A file to be written. `path` is relative to the workspace. Either `data` or `file_id` is None.

    Whether a `file_id` is one, and of this project, is looked up by whoever writes.
    """

    path: str
    data: bytes | None = None
    file_id: str | None = None

    @property
    def kind(self) -> str:
        """The wire's `type`: "inline" or "file_id"."""
        return "inline" if self.file_id is None else "file_id"

    @property
    def shown(self) -> str:
        """The path as callers see it."""
        return envpaths.shown(self.path)


def read_file(value: object, *, path: str, index: int) -> FileRequest:
    """Read one file. `path` is that of the object in its body ("" for the body itself), `index` that of the sentences,
    `environment.files[<index>].…`, whose `param` is null (agents.md 11.4). Errors: 400."""
    if not isinstance(value, Mapping):
        raise local()
    only(value, ("type", "path", *_CONTENT.values()), path)
    kind, content = _content(value)
    where = value.get("path")
    if not isinstance(where, str):
        raise local()
    try:
        destination = envpaths.destination(where)
    except Refused as refused:
        raise _indexed(refused, index) from None
    if kind == "file_id":
        return FileRequest(destination, file_id=content)
    data = _decoded(content)
    if len(data) > INLINE_BYTES:
        raise refusal(f"environment.files[{index}].data exceeds the 5 MiB decoded limit")
    return FileRequest(destination, data=data)


def _content(value: Mapping[str, Any]) -> tuple[str, str]:
    """Row 5: the form, and its own member; that of the other form is not there, not even as null."""
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _CONTENT:
        raise local()
    content = value.get(_CONTENT[kind])
    others = [member for form, member in _CONTENT.items() if form != kind]
    if not isinstance(content, str) or any(member in value for member in others) or (kind == "file_id" and not content):
        raise local()
    return kind, content


def _decoded(text: str) -> bytes:
    """Standard Base64 in its one spelling: padded, no white space, no bits behind the end (agents.md 11.16)."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise local() from None
    if base64.b64encode(data) != text.encode("ascii"):
        raise local()
    return data


def _indexed(refused: Refused, index: int) -> Refusal:
    return refusal(refused.text.replace("files[0]", f"files[{index}]", 1))
