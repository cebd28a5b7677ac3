"""Using a grant whose address is `http:`, as an executor or a client of the service does; stdlib only."""

from __future__ import annotations

import hashlib
import http.client
import tempfile
from collections.abc import Iterable, Mapping
from typing import IO
from urllib.parse import urlsplit

from shared.store.ports import ObjectExists

SECONDS = 20.0


def ask(
    method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes | IO[bytes] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """One request, with these headers and `Host` only: status, headers with lower-case names, body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=SECONDS)
    try:
        connection.putrequest(method, f"{parts.path}?{parts.query}", skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def fetch(url: str, start: int = 0, length: int | None = None) -> bytes:
    """A range of the object."""
    last = "" if length is None else start + length - 1
    status, _, body = ask("GET", url, {"Range": f"bytes={start}-{last}"})
    assert status == 206
    return body


def create(url: str, chunks: Iterable[bytes]) -> tuple[int, str]:
    """Create the object: size and digest. ObjectExists where the key is taken."""
    digest = hashlib.sha256()
    with tempfile.TemporaryFile() as spool:
        for chunk in chunks:
            spool.write(chunk)
            digest.update(chunk)
        size = spool.tell()
        spool.seek(0)
        while True:
            status, _, _ = ask("PUT", url, {"If-None-Match": "*", "Content-Length": str(size)}, spool)
            if status != 409:
                break
            spool.seek(0)
    if status == 412:
        raise ObjectExists
    assert status == 200
    return size, digest.hexdigest()
