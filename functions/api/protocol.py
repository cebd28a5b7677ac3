"""HTTP/1.1 on a connection: uvicorn's protocol with bounds on what a client may send before it is admitted.

    nothing sent      closed after KEEP_ALIVE_S
    head              at most HEAD_BYTES and HEAD_S, else 400 or closed
    body              closed after BODY_S without a byte of it, unless the service itself is not reading
    refused body      read on for DRAIN_BYTES, so that its client reads the refusal, then closed
    after a body      trailers are read and let go: what they say never joins the head that was admitted
    unknown verb      a request like any other, for the routes to refuse: the parser knows few

So a client without a credential can make the service keep neither memory nor descriptors.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shared.errors import Code, Failure

KEEP_ALIVE_S = 120
"""Idle sockets live longer than any client's pool keeps them (exec.md A3: at least 60 s)."""
HEAD_BYTES = 64 * 1024
"""Request line and headers together, or trailers, or the extensions of one chunk."""
HEAD_S = 30
BODY_S = 60
DRAIN_BYTES = 256 << 20
"""Above the largest upload: who sends one with a wrong key still reads why it was refused."""

_VERB = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ")
_KNOWN = frozenset(
    b"ACL BIND CHECKOUT CONNECT COPY DELETE GET HEAD LINK LOCK M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL MOVE NOTIFY "
    b"OPTIONS PATCH POST PRI PROPFIND PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE TRACE UNBIND "
    b"UNLINK UNLOCK UNSUBSCRIBE".split()
)
_STAND_IN = b"UNLINK"
"""A verb that the parser takes and no route has."""
_REFUSAL = Failure(Code.INVALID_REQUEST, "The request is not valid HTTP.")


class _Refused(Exception):
    """Raised inside the parser, which makes a parser error of it."""


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, bounded; its answer to what is no HTTP has our body (exec.md A8.9)."""

    head_s: float = HEAD_S
    body_s: float = BODY_S
    idle_s: float = KEEP_ALIVE_S
    drain_bytes: int = DRAIN_BYTES

    _timer: asyncio.TimerHandle | None = None
    _head_open = False
    _body_open = False
    _head_size = 0
    _unread = 0
    _drained = 0
    _moved = False
    _touched = 0.0
    _verb: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm(self.idle_s, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._moved = False
        super().data_received(data if self._head_open or self._body_open else self._known(data))
        # What neither begins nor ends a message nor is a body lies in the parser's memory.
        self._unread = 0 if self._moved else self._unread + len(data)
        if self._unread > HEAD_BYTES and (self._head_open or self._body_open) and not self.transport.is_closing():
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._moved = self._head_open = True
        self._head_size = 0
        self._arm(self.head_s, self._close)

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if self._body_open:
            return
        # Another coding than `chunked` would have the coded bytes taken for the body.
        if name.lower() == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise _Refused
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self._verb is not None:
            self.scope["method"] = self._verb
            self._verb = None
        self._head_open, self._body_open = False, True
        self._head_size = self._drained = 0
        self._touched = self.loop.time()
        self._arm(self.body_s, self._look_at_body)

    def on_body(self, body: bytes) -> None:
        self._moved = True
        self._touched = self.loop.time()
        if self.cycle.response_complete:
            self._drained += len(body)
            if self._drained > self.drain_bytes:
                self._close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._moved, self._body_open = True, False
        self._disarm()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or too much of it, and end the connection."""
        self._disarm()
        body = json.dumps(_REFUSAL.body(), separators=(",", ":")).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"x-request-id: {secrets.token_hex(12)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()

    def _known(self, data: bytes) -> bytes:
        """The beginning of a request with a verb that the parser knows; the one that was sent is put back later."""
        found = _VERB.match(data)
        if found is None or found[1] in _KNOWN:
            return data
        self._verb = found[1].decode("ascii")
        return _STAND_IN + data[found.end(1) :]

    def _count(self, size: int) -> None:
        self._head_size += size + 4
        if self._head_size > HEAD_BYTES:
            raise _Refused

    def _look_at_body(self) -> None:
        quiet = self.loop.time() - self._touched
        if self.flow.read_paused or quiet < self.body_s:
            self._arm(max(self.body_s - quiet, 1), self._look_at_body)
        else:
            self._close()

    def _close(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _arm(self, seconds: float, then: Callable[[], None]) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
