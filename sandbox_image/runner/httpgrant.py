"""Reading and creating objects by `https:` and `http:` grants: addresses that the service has signed for one key.

The store is the service's own, so its bytes are believed as far as their digests are; its silence is not: every wait
is bounded, and a redirect is a failure, because it would send the signature elsewhere. An address reaches no error
text. Imported only by a run that has such a grant.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from typing import IO
from urllib.parse import urlsplit

PIECE = 256 << 10
"""Bytes of one piece of a reading, at most."""
SPOOL = 1 << 20
"""An object up to here is held in memory until its size is known; a larger one in an unnamed file."""
CONNECT_S, WAIT_S = 4.0, 10.0
"""What the connection, and each single answer of it, may take."""
_LEAST_RATE = 1 << 20
"""Bytes a second below which a whole transfer counts as stuck."""
_IDLE_S = 2.0
_KEPT = 16
"""Connections to one host that wait for their next use."""
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)


class Refused(OSError):
    """The store's own answer is no: the text is its status. Never tried again."""


class Unsure(OSError):
    """The store could not be reached, or what came back is no whole answer."""


class _Kept:
    """Connections that may be used again for reading, some for each host. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[str, str], list[tuple[float, http.client.HTTPConnection]]] = {}
        self._tls: ssl.SSLContext | None = None

    def take(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        """One that was used a moment ago, or a new one. The clock is the wall's: a frozen process ages."""
        with self._lock:
            free = self._free.get((scheme, netloc), [])
            since, connection = free.pop() if free else (0.0, None)
            old = []
            if connection is not None and not 0 <= time.time() - since < _IDLE_S:
                # The others were given back before it.
                old, connection = [connection, *(other for _, other in free)], None
                free.clear()
        for other in old:
            other.close()
        return connection or self.new(scheme, netloc)

    def new(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        """A new one, not connected yet."""
        if scheme == "http":
            return http.client.HTTPConnection(netloc, timeout=CONNECT_S, blocksize=PIECE)
        with self._lock:
            if self._tls is None:
                self._tls = ssl.create_default_context()
            context = self._tls
        return http.client.HTTPSConnection(netloc, timeout=CONNECT_S, blocksize=PIECE, context=context)

    def give_back(self, scheme: str, netloc: str, connection: http.client.HTTPConnection) -> None:
        """Keep one whose last answer was read to its end."""
        with self._lock:
            free = self._free.setdefault((scheme, netloc), [])
            free.append((time.time(), connection))
            other = free.pop(0)[1] if len(free) > _KEPT else None
        if other is not None:
            other.close()


_kept = _Kept()


def read(url: str, start: int, length: int) -> Iterator[bytes]:
    """The bytes of one range, exactly `length` of them, in pieces of at most PIECE.

    What breaks off is taken up once where it stopped. Errors: ValueError (no such grant), OSError, at any piece.
    """
    scheme, netloc, target = _parts(url)
    if start < 0 or length < 0:
        raise ValueError("start and length are not negative")
    until = time.monotonic() + 2 * WAIT_S + length / _LEAST_RATE
    at, end = start, start + length
    for last in (False, True):
        if at == end:
            return
        connection = _kept.new(scheme, netloc) if last else _kept.take(scheme, netloc)
        try:
            for piece in _range(connection, target, at, end - at, until):
                at += len(piece)
                yield piece
            _kept.give_back(scheme, netloc, connection)
            return
        except Refused:
            connection.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if last:
                raise Unsure(type(error).__name__) from error
        except BaseException:
            connection.close()
            raise


def _range(
    connection: http.client.HTTPConnection, target: str, start: int, length: int, until: float
) -> Iterator[bytes]:
    answer = _ask(connection, "GET", target, {"Range": f"bytes={start}-{start + length - 1}"}, None)
    if answer.status >= 500:
        raise Unsure(f"status {answer.status}")
    if answer.status == 206:
        found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if found is None or (int(found[1]), int(found[2])) != (start, start + length - 1):
            raise Refused("another range")
    elif answer.status != 200 or start:
        raise Refused(f"status {answer.status}")
    if answer.length != length:
        raise Refused("another length")
    left = length
    while left:
        if time.monotonic() > until:
            raise Unsure("too slow")
        piece = answer.read1(min(left, PIECE))
        if not piece:
            raise Unsure("it breaks off")
        left -= len(piece)
        yield piece
    answer.read()


def create(url: str, pieces: Iterable[bytes]) -> tuple[int, str]:
    """Create the object and say its size and SHA-256 (hex). Sent once: an answer that is lost is a failure.

    Errors: ValueError (no such grant), OSError (refused, as where the object exists; or unknown what became of it).
    What `pieces` raises is passed on, and then nothing was sent.
    """
    scheme, netloc, target = _parts(url)
    total, size = hashlib.sha256(), 0
    memory: bytearray = bytearray()
    spool: IO[bytes] | None = None
    try:
        for piece in pieces:
            total.update(piece)
            size += len(piece)
            if spool is None and size > SPOOL:
                spool = _unnamed()
                spool.write(memory)
                memory.clear()
            if spool is None:
                memory += piece
            else:
                spool.write(piece)
        if spool is not None:
            spool.seek(0)
        _put(_kept.new(scheme, netloc), target, spool or memory, size)
    finally:
        if spool is not None:
            spool.close()
    return size, total.hexdigest()


def _put(connection: http.client.HTTPConnection, target: str, body: IO[bytes] | bytearray, size: int) -> None:
    try:
        headers = {"Content-Length": str(size), "If-None-Match": "*"}
        answer = _ask(connection, "PUT", target, headers, body)
        if answer.status != 200:
            raise Refused(f"status {answer.status}")
    except http.client.HTTPException as error:
        raise Unsure(type(error).__name__) from error
    finally:
        connection.close()


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    headers: dict[str, str],
    body: IO[bytes] | bytearray | None,
) -> http.client.HTTPResponse:
    if connection.sock is None:
        connection.connect()
        _wait(connection.sock)
    connection.request(method, target, body=body, headers=headers)
    return connection.getresponse()


def _wait(sock: socket.socket | None) -> None:
    """A connection that stands is waited for longer than one that does not come about."""
    if sock is not None:
        sock.settimeout(WAIT_S)


def _unnamed() -> IO[bytes]:
    import tempfile  # noqa: PLC0415  (only a large output needs it)

    return tempfile.TemporaryFile("w+b")


def _parts(url: str) -> tuple[str, str, str]:
    """Scheme, host with port, path with query. ValueError for what is no address of a store."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise ValueError("not a grant of a store")
    return parts.scheme, parts.netloc, f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
