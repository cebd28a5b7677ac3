"""What a client can do to the service with bytes alone, before or without a credential: heads and trailers without
an end, silence, two readings of one request."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.api.protocol import HEAD_BYTES, Protocol
from shared.limits import MIB, Limits
from tests.wire.scripted import Scripted, program
from tests.wire.service import Service, open_test_room, read_answer, serving
from tests.wire.test_serve import forget_peak, peak, process

pytestmark = pytest.mark.doors("local", why="behind a gateway no byte of a client reaches this process as it was sent")
START = b"GET /v1/health HTTP/1.1\r\nHost: h\r\n"
FLOODS = {
    "one header": (START + b"X-A: ", b"a" * MIB),
    "many headers": (START, b"x-a: b\r\n" * (MIB // 8)),
    "target": (b"GET /", b"a" * MIB),
    "method": (b"", b"G" * MIB),
    "extension of a chunk": (
        b"POST /v1/exec HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=",
        b"a" * MIB,
    ),
    "trailer": (b"POST /v1/exec HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx-a: ", b"a" * MIB),
    "trailers": (
        b"POST /v1/exec HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"x: y\r\n" * 170_000,
    ),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_head_without_an_end_is_cut_off(service: Service, kind: str) -> None:
    first, more = FLOODS[kind]
    sent = 0
    with service.connect() as sock, contextlib.suppress(OSError):
        sock.sendall(first)
        while sent < 64:
            sock.sendall(more)
            sent += 1
    assert sent < 32


def test_floods_of_heads_leave_no_memory_behind(tmp_path: Path) -> None:
    with process(tmp_path) as (child, _, url):
        port = int(url.rpartition(":")[2])
        forget_peak(child.pid)
        before = peak(child.pid)
        for first, more in list(FLOODS.values()) * 3:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as sock, contextlib.suppress(OSError):
                sock.sendall(first)
                for _ in range(40):
                    sock.sendall(more)
        assert peak(child.pid) - before < 20 * MIB


def test_a_head_up_to_the_limit_is_read_and_one_above_is_refused(service: Service) -> None:
    for size, status in ((HEAD_BYTES - 200, 200), (HEAD_BYTES, 400)):
        answer = service.send(START + b"Connection: close\r\nX-A: " + b"a" * size + b"\r\n\r\n")
        assert answer.status == status


def post(service: Service, *headers: str) -> bytes:
    lines = ["POST /v1/exec HTTP/1.1", "Host: h", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunked(body: bytes, trailers: bytes = b"") -> bytes:
    return b"%x;a=b\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers)


BODY = b'{"lang":"py","code":"%s"}' % program(stdout="hi").replace('"', '\\"').encode()


def test_trailers_never_become_headers(service: Service) -> None:
    key = f"X-API-Key: {service.key}"
    plain = post(service, key, "Transfer-Encoding: chunked")
    for trailer in (
        b"X-API-Key: other\r\n",
        b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n",
        b"Prefer: respond-async\r\n",
    ):
        assert service.send(plain + chunked(BODY, trailer)).status == 200
    admitted = post(service, "Transfer-Encoding: chunked") + chunked(BODY, f"{key}\r\n".encode())
    assert service.send(admitted).status == 401


@pytest.mark.parametrize("coding", ["gzip, chunked", "identity", "chunked, chunked", "x"])
def test_a_body_in_another_coding_is_refused(service: Service, coding: str) -> None:
    head = post(service, f"X-API-Key: {service.key}", f"Transfer-Encoding: {coding}")
    assert service.send(head + chunked(BODY)).status == 400


def test_a_body_of_two_lengths_is_refused(service: Service) -> None:
    key = f"X-API-Key: {service.key}"
    for lengths in (("Content-Length: 3", "Transfer-Encoding: chunked"), ("Content-Length: 3", "Content-Length: 4")):
        assert service.send(post(service, key, *lengths) + chunked(BODY)).status == 400


def test_many_pipelined_requests_are_all_answered_in_order(service: Service) -> None:
    one = b"GET /v1/health HTTP/1.1\r\nHost: h\r\nX-Pad: " + b"p" * 400 + b"\r\n\r\n"
    with service.connect() as sock:
        sock.sendall(one * 999 + b"GET /v1/no HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200") == 999
    assert answer.rindex(b"HTTP/1.1 401") > answer.rindex(b"HTTP/1.1 200")


@pytest.fixture
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(Protocol, "head_s", 0.4)
    monkeypatch.setattr(Protocol, "body_s", 0.4)
    monkeypatch.setattr(Protocol, "idle_s", 0.8)
    with serving(open_test_room(tmp_path, Limits(), Scripted())) as running:
        yield running


@pytest.mark.parametrize("kind", ["silence", "head", "dripping head", "body", "unread body"])
def test_a_connection_that_does_not_get_on_is_closed(impatient: Service, kind: str) -> None:
    key = f"X-API-Key: {impatient.key}"
    first = {
        "silence": b"",
        "head": START,
        "dripping head": START,
        "body": post(impatient, key, "Content-Length: 9") + b"{",
        "unread body": post(impatient, "Content-Length: 9").replace(b"close", b"keep-alive") + b"{",
    }[kind]
    with impatient.connect() as sock:
        sock.settimeout(0.1)
        sock.sendall(first)
        begun = time.monotonic()
        while time.monotonic() < begun + 5:
            with contextlib.suppress(TimeoutError, BrokenPipeError):
                if kind == "dripping head":
                    sock.sendall(b"a: b\r\n")
                try:
                    if sock.recv(4096) == b"":
                        break
                except ConnectionResetError:
                    break
        assert 0.2 < time.monotonic() - begun < 3


def test_a_run_that_takes_long_and_a_slow_body_that_gets_on_are_no_silence(impatient: Service) -> None:
    body = b'{"lang":"py","code":"%s"}' % program(wait=1.2, stdout="hi").replace('"', '\\"').encode()
    with impatient.connect() as sock:
        sock.sendall(post(impatient, f"X-API-Key: {impatient.key}", f"Content-Length: {len(body)}"))
        for at in range(0, len(body), len(body) // 5):
            time.sleep(0.2)
            sock.sendall(body[at : at + len(body) // 5])
        assert read_answer(sock).status == 200


def test_a_refused_body_is_not_read_for_ever(impatient: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "drain_bytes", 4 * MIB)
    for key, status in (("", b"401"), (f"X-API-Key: {impatient.key}", b"413")):
        lines = ["POST /v1/upload HTTP/1.1", "Host: h", f"Content-Length: {10**12}", key]
        with impatient.connect() as sock:
            head = "\r\n".join(filter(None, lines)) + "\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n"
            sock.sendall(head.encode())
            assert sock.recv(4096).split(b" ", 2)[1] == status
            sent = 0
            with contextlib.suppress(OSError):
                while sent < 64:
                    sock.sendall(bytes(MIB))
                    sent += 1
            assert 3 <= sent < 32


@pytest.mark.parametrize("verb", ["FOO", "get", "x" * 32, "!#$%&'*+.^_`|~-0"])
def test_an_unknown_verb_is_a_method_that_the_address_does_not_take(service: Service, verb: str) -> None:
    """It is admitted, its body is read, and the connection goes on."""
    head = f"{verb} /v1/exec HTTP/1.1\r\nHost: h\r\nX-API-Key: {service.key}\r\nContent-Length: 3\r\n\r\nabc".encode()
    beta = f"Authorization: Bearer {service.key}\r\nOpenAI-Beta: agents=v1\r\n"
    with service.connect() as sock:
        for _ in range(3):
            sock.sendall(head)
            answer = read_answer(sock)
            assert (answer.status, answer.headers["allow"]) == (405, "POST")
            sock.sendall(f"{verb} /v1/agents/sessions HTTP/1.1\r\nHost: h\r\n{beta}\r\n".encode())
            answer = read_answer(sock)
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
            sock.sendall(f"GET /v1/health HTTP/1.1\r\nHost: h\r\nX-API-Key: {service.key}\r\n\r\n".encode())
            assert read_answer(sock).status == 200
        sock.sendall(f"{verb} /v1/exec HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
        assert read_answer(sock).status == 401


@pytest.mark.parametrize("line", [b"x" * 33, b"F(O", b"\xc3\xa9", b"hello world", b""])
def test_what_is_no_verb_is_no_http(service: Service, line: bytes) -> None:
    answer = service.send(line + b" /v1/exec HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.status == 400
