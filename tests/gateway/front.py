"""A front door of AWS on a loopback port: each HTTP request becomes an event, each answer comes from the handler.

    client -- HTTP --> this -- JSON text --> an environment of the function -- JSON text --> this -- HTTP --> client

As on Lambda, an environment has one call at a time: a second one at the same time gets an environment of its own,
and nothing but what JSON can hold passes between. Above 6 MB a request is 413 and an answer an error of the gateway.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from functions.api.gateway import ANSWER_BYTES
from tests.gateway.shapes import Kind, event_of

REQUEST_BYTES = 6_291_456
"""6 MB: the largest event of a synchronous call."""
GATEWAY_S = 30
"""After this an HTTP API answers 503 and no longer waits."""

Handler = Callable[[Any, Any], dict[str, Any]]


class Context:
    """What the runtime hands the handler beside the event."""

    function_name = "workroom-api"
    function_version = "1"
    memory_limit_in_mb = "512"
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:workroom-api:live"
    aws_request_id = "8f507cfc-xmpl-4697-b07a-ac58fc914c95"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds that are left of the call."""
        return GATEWAY_S * 1000


class Environments:
    """Environments of a function: made when a call comes and all others are taken."""

    def __init__(self, make: Callable[[], Handler]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[Handler] = []
        self.made = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[Handler]:
        """An environment for one call."""
        with self._lock:
            found = self._idle.pop() if self._idle else None
            self.made += found is None
        handler = found or self._make()
        try:
            yield handler
        finally:
            with self._lock:
                self._idle.append(handler)

    def invoke(self, event: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and body of the answer that a client gets."""
        text = json.dumps(event, ensure_ascii=False).encode()
        if len(text) > REQUEST_BYTES:
            return 413, [], b'{"message":"Request Entity Too Large"}'
        with self.one() as handler:
            sent = json.dumps(handler(json.loads(text), Context()), allow_nan=False)
        if len(sent.encode()) > ANSWER_BYTES:
            return 502, [], b'{"message":"Internal Server Error"}'
        return _answer(json.loads(sent))


def _answer(made: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
    assert set(made) <= {"statusCode", "headers", "cookies", "body", "isBase64Encoded"}
    assert type(made["statusCode"]) is int
    assert all(isinstance(value, str) for value in made["headers"].values())
    headers = [*made["headers"].items(), *(("set-cookie", cookie) for cookie in made.get("cookies", []))]
    raw = made.get("body", "")
    return (
        made["statusCode"],
        headers,
        base64.b64decode(raw, validate=True) if made["isBase64Encoded"] else raw.encode(),
    )


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        """Read a request, whatever its method, and answer it."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            self.raw_requestline = self.rfile.readline(65_537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self._serve()

    def _serve(self) -> None:
        # As it was sent: `self.path` has lost a slash of two.
        target = self.requestline.split()[1]
        if not target.startswith("/"):
            parts = urlsplit(target)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = [(name, value.strip()) for name, value in self.headers.items()]
        event = event_of(self.server.kind, self.command, target, headers, self._body())
        status, named, body = self.server.environments.invoke(event)
        lines = [f"HTTP/1.1 {status} -"]
        lines += [f"{name}: {value}" for name, value in named if name.lower() != "content-length"]
        announced = dict(named).get("content-length") if self.command == "HEAD" else None
        lines.append(f"content-length: {announced or len(body)}")
        if self.close_connection:
            lines.append("connection: close")
        self.wfile.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("content-length", "0")))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, kind: Kind, environments: Environments) -> None:
        self.kind = kind
        self.environments = environments
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections that are kept."""
        with self._lock:
            kept = list(self._open)
        for one in kept:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def gateway(kind: Kind, environments: Environments) -> Iterator[tuple[str, int]]:
    """Serve a function on a loopback port."""
    server = _Server(kind, environments)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="gateway", daemon=True)
    thread.start()
    try:
        yield "127.0.0.1", server.server_address[1]
    finally:
        server.shutdown()
        server.hang_up()
        server.server_close()
        thread.join(20)
        assert not thread.is_alive(), "the gateway did not end"
