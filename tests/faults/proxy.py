"""An HTTP proxy between a client and the emulator that does to requests what a test has written down.

    with Proxy(aws.endpoint) as proxy:
        proxy.plan("PutObject", LOST, THROTTLED_S3)      # the next two of them; all others pass
        …
        assert proxy.seen("PutObject") == 3

Requests and answers go through byte for byte, `Host` too, so that signatures hold.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self
from urllib.parse import parse_qs, urlsplit

SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Canned:
    """An answer that the store did not give."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of one request.

    `delivered`: it reaches the store, before the client learns of anything; or `late`: once `release` is called.
    `answer`: what the client gets: the store's own answer (`pass`), its first half and the end of the connection
    (`half`), the end of the connection (`none`), nothing for as long as it waits (`silence`), or a canned one.
    `then` runs after the delivery and before the answer.
    """

    delivered: bool | Literal["late"] = True
    answer: Literal["pass", "half", "none", "silence"] | Canned = "pass"
    then: Callable[[], None] | None = None

    def after(self, then: Callable[[], None]) -> Fault:
        """The same with something that happens meanwhile."""
        return replace(self, then=then)


def dynamo(code: str, status: int = 400, **more: object) -> Canned:
    """An error as DynamoDB says it."""
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "canned", **more}
    return Canned(status, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(body).encode())


def s3(code: str, status: int) -> Canned:
    """An error as S3 says it."""
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>canned</Message></Error>'
    return Canned(status, {"Content-Type": "application/xml"}, body.encode())


PASS = Fault()
LOST = Fault(answer="none")
"""The store has done it; the answer is lost."""
SILENT = Fault(answer="silence")
"""The store has done it; the answer comes after the client's time-out."""
HALF = Fault(answer="half")
CUT = Fault(delivered=False, answer="none")
"""The connection ends before the store has the request."""
DEAF = Fault(delivered=False, answer="silence")
"""The request goes nowhere, and nobody says so."""
LATE = Fault(delivered="late", answer="none")
"""The connection ends; the store gets the request after its repetition."""


class Proxy:
    """A proxy on a free loopback port. A context manager: leaving it ends every connection."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        self._upstream = (parts.hostname, parts.port or 80)
        self._lock = threading.Lock()
        self._plans: dict[str, deque[Fault]] = {}
        self._always: dict[str, Fault] = {}
        self._seen: list[str] = []
        self._late: list[Callable[[], object]] = []
        self._over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def endpoint(self) -> str:
        """Where clients go."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def plan(self, operation: str, *faults: Fault) -> None:
        """What becomes of the next requests of an operation (`PutObject`, `TransactWriteItems`, …), in order."""
        with self._lock:
            self._plans.setdefault(operation, deque()).extend(faults)

    def always(self, operation: str, fault: Fault) -> None:
        """What becomes of every request of an operation that no plan speaks of."""
        with self._lock:
            self._always[operation] = fault

    def seen(self, operation: str) -> int:
        """How many requests of an operation have come."""
        with self._lock:
            return self._seen.count(operation)

    def counts(self) -> dict[str, int]:
        """How many requests of each operation have come."""
        with self._lock:
            return dict(Counter(self._seen))

    def left(self) -> int:
        """How many planned faults have not happened."""
        with self._lock:
            return sum(map(len, self._plans.values()))

    def reset(self) -> None:
        """Forget all plans and all that was seen, and let go of those who wait."""
        with self._lock:
            self._plans.clear()
            self._always.clear()
            self._seen.clear()
            self._late.clear()
            over, self._over = self._over, threading.Event()
        over.set()

    def release(self) -> None:
        """Deliver what is late."""
        with self._lock:
            late, self._late = self._late, []
        for deliver in late:
            deliver()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join(SECONDS)
        self._server.end()

    def _next(self, operation: str) -> Fault:
        with self._lock:
            self._seen.append(operation)
            planned = self._plans.get(operation)
            return planned.popleft() if planned else self._always.get(operation, PASS)

    def name(self, request: Request) -> str:
        """Under which name a request is planned and counted: its operation's, unless a kind of proxy says more."""
        return request.operation

    def deal(self, request: Request) -> Canned | None:
        """Do with a request what is planned: its answer, None where there is none. Called by the server's threads."""
        fault = self._next(self.name(request))
        answer: Canned | None = None
        if fault.delivered == "late":
            with self._lock:
                self._late.append(lambda: self._deliver(request))
        elif fault.delivered:
            answer = self._deliver(request)
        if fault.then is not None:
            fault.then()
        if isinstance(fault.answer, Canned):
            return fault.answer
        if fault.answer == "silence":
            self._over.wait(SECONDS)
        if fault.answer == "half" and answer is not None:
            return replace(answer, body=answer.body[: len(answer.body) // 2])
        return answer if fault.answer == "pass" else None

    def _deliver(self, request: Request) -> Canned:
        connection = http.client.HTTPConnection(*self._upstream, timeout=SECONDS)
        try:
            connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers:
                if name.lower() not in {"expect", "connection"}:
                    connection.putheader(name, value)
            connection.endheaders(request.body or None)
            answer = connection.getresponse()
            return Canned(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def operation(self) -> str:
        """The API's name of what is asked for."""
        for name, value in self.headers:
            if name.lower() == "x-amz-target":
                return value.rpartition(".")[2]
        parts = urlsplit(self.target)
        query = parse_qs(parts.query, keep_blank_values=True)
        if self.method == "POST":
            return "DeleteObjects" if "delete" in query else "Other"
        if "list-type" in query:
            return "ListObjectsV2"
        return f"{self.method.capitalize()}Object" if parts.path.count("/") > 1 else "Other"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        assert isinstance(request, socket.socket)
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        assert isinstance(request, socket.socket)
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what these tests are about."""

    def end(self) -> None:
        """Close what is open."""
        self.server_close()
        with self._guard:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = SECONDS
        disable_nagle_algorithm = True

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = proxy.deal(Request(self.command, self.path, tuple(self.headers.items()), body))
            if answer is None:
                # A reset, so that the client does not take it for an orderly end.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            headers = {name.lower(): value for name, value in answer.headers.items()}
            headers.setdefault("content-length", str(len(answer.body)))
            headers.pop("transfer-encoding", None)
            headers.pop("connection", None)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
                self.wfile.flush()
                if len(answer.body) < int(headers["content-length"]):
                    self.close_connection = True

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _do

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: a request's address holds its signature."""

    return Handler
