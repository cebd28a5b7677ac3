"""Multipart bodies as clients really write them, and as attackers do: built by hand, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx

BOUNDARY = "----boundary7MA4YWxk"
MULTIPART = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


@dataclass(frozen=True)
class Raw:
    """A part from its own header block and body."""

    head: bytes
    body: bytes


def field(name: str, value: str | bytes) -> Raw:
    """A field without a file name."""
    return Raw(
        f'Content-Disposition: form-data; name="{name}"'.encode(), value.encode() if isinstance(value, str) else value
    )


def file(name: bytes | str, body: bytes = b"x", part: str = "file") -> Raw:
    """A file, its name as it stands between the quotes."""
    raw = name.encode() if isinstance(name, str) else name
    head = b'Content-Disposition: form-data; name="' + part.encode() + b'"; filename="' + raw + b'"'
    return Raw(head + b"\r\nContent-Type: application/octet-stream", body)


def extended(value: bytes | str, body: bytes = b"x") -> Raw:
    """A file, its name in `filename*` as it stands."""
    raw = value.encode() if isinstance(value, str) else value
    return Raw(b'Content-Disposition: form-data; name="file"; filename*=' + raw, body)


def form(parts: Sequence[Raw]) -> bytes:
    """The body."""
    mark = b"--" + BOUNDARY.encode()
    return b"".join(mark + b"\r\n" + part.head + b"\r\n\r\n" + part.body + b"\r\n" for part in parts) + mark + b"--\r\n"


def send(client: httpx.Client, parts: Sequence[Raw], path: str = "/v1/upload") -> httpx.Response:
    """Send a form with a Content-Length."""
    return client.post(path, content=form(parts), headers=MULTIPART)


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    """A body in chunks: sent without a Content-Length."""
    for at in range(0, len(body), size):
        yield body[at : at + size]
