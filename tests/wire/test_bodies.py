"""What collected bodies take together: exact to the byte, per project and in all, given back on every way out."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.limits import Limits
from tests.agents.asking import BETA, JSON, Asker, envelope
from tests.agents_door.listening import listening
from tests.wire.scripted import Scripted, program
from tests.wire.service import Answer, Service, expect_eventually, open_test_room, read_answer, serving

SHARE, ALL = 1_000, 1_500
RUN = json.dumps({"lang": "py", "code": program(stdout="ran")}).encode()
SESSION = json.dumps({"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}}).encode()
TOOLS = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
FULL = b'{"error":"rate_limited","message":"Too many requests. Retry later.","retry_after_seconds":2}'
FULL_HERE = envelope("Too many requests. Retry later.", "rate_limit_error", "rate_limit_exceeded")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service with little room for bodies."""
    limits = Limits(held_bytes=ALL, project_held_bytes=SHARE)
    with serving(open_test_room(tmp_path, limits, Scripted())) as one:
        yield one


def padded(body: bytes, size: int) -> bytes:
    """The same JSON in so many bytes."""
    return body + b" " * (size - len(body))


def run(service: Service, size: int, key: str | None = None) -> Answer:
    return service.ask("POST", "/v1/exec", key=key, body=padded(RUN, size))


def create(service: Service, size: int, key: str | None = None) -> Answer:
    return Asker(service).ask("POST", "/v1/agents/sessions", JSON, BETA, body=padded(SESSION, size), key=key)


@contextmanager
def slow(service: Service, size: int) -> Iterator[socket.socket]:
    """A run of the first project that has sent so many bytes of its body, and owes ten more."""
    head = f"POST /v1/exec HTTP/1.1\r\nHost: h\r\nX-API-Key: {service.key}\r\nContent-Length: {size + 10}\r\n\r\n"
    for _ in range(20):
        with service.connect() as sock:
            sock.sendall(head.encode() + padded(RUN, size))
            full = run(service, SHARE - size + 1).status == 429
            # Where the question came first it is the slow one that is refused.
            answered, _, _ = select.select([sock], [], [], 0.1)
            if full and not answered:
                yield sock
                return
    raise AssertionError("the service reads no slow body")


def test_the_bound_of_a_project_is_exact_on_every_door(service: Service) -> None:
    for _ in range(3):
        # A request of MCP is over a moment after its answer.
        expect_eventually(lambda: run(service, SHARE).status == 200)
        refused = run(service, SHARE + 1)
        assert (refused.status, refused.body, refused.headers["retry-after"]) == (429, FULL, "2")
        assert create(service, SHARE).status == 201
        refused = create(service, SHARE + 1)
        assert (refused.status, refused.body, refused.headers["retry-after"]) == (429, FULL_HERE, "2")
        assert service.ask("POST", "/mcp", headers=MCP, body=padded(TOOLS, SHARE)).status == 200
        refused = service.ask("POST", "/mcp", headers=MCP, body=padded(TOOLS, SHARE + 1))
        assert (refused.status, refused.body) == (429, FULL)


def test_a_slow_body_takes_room_of_its_project_and_of_all(service: Service) -> None:
    with slow(service, 900) as sock:
        assert run(service, 101).status == create(service, 101 + len(SESSION)).status == 429
        assert run(service, 600, service.other_key).status == 200
        assert run(service, 601, service.other_key).status == 429
        sock.sendall(b" " * 10)
        assert read_answer(sock).status == 200
    assert run(service, SHARE).status == run(service, SHARE, service.other_key).status == 200


def test_a_client_that_goes_away_gives_its_room_back(service: Service) -> None:
    with slow(service, 900):
        pass
    expect_eventually(lambda: run(service, SHARE).status == 200)


def test_what_is_announced_takes_no_room(service: Service) -> None:
    with service.connect() as sock:
        head = f"POST /v1/exec HTTP/1.1\r\nHost: h\r\nX-API-Key: {service.key}\r\nContent-Length: {SHARE}\r\n\r\n"
        sock.sendall(head.encode())
        assert run(service, SHARE).status == 200
        sock.sendall(padded(RUN, SHARE))
        assert read_answer(sock).status == 200


def test_refused_requests_give_their_room_back(service: Service) -> None:
    for _ in range(3):
        assert service.ask("POST", "/v1/exec", body=b"{" + b"x" * 900).status == 400
        assert Asker(service).ask("POST", "/v1/agents/sessions", JSON, BETA, body=b"{" + b"x" * 900).status == 400
        broken = json.dumps({"lang": "py", "code": program(**{"raise": "x" * 700})}).encode()
        assert service.ask("POST", "/v1/exec", body=broken).status == 500
        assert run(service, SHARE).status == 200
    assert service.ask("POST", "/mcp", headers=MCP, body=b"x" * 900).status == 400
    expect_eventually(lambda: run(service, SHARE).status == 200)


def test_a_form_takes_none(service: Service) -> None:
    assert Asker(service).made(body=b"x" * 5_000)["bytes"] == 5_000
    with service.client() as client:
        sent = client.post("/v1/upload", files={"file": ("a.txt", b"x" * 5_000)})
        assert sent.status_code == 200


def test_a_stream_keeps_no_room_while_it_goes_on(service: Service) -> None:
    created = create(service, SHARE)
    assert created.status == 201
    with listening(Asker(service), json.loads(created.body)["id"]):
        assert create(service, SHARE).status == 201
    body = {**json.loads(SESSION), "stream": True, "input": program(wait=20)}
    with service.client() as client:
        headers = {"Authorization": f"Bearer {service.key}", **dict([BETA, JSON])}
        sent = padded(json.dumps(body).encode(), SHARE)
        with client.stream("POST", "/v1/agents/sessions", headers=headers, content=sent) as stream:
            assert stream.status_code == 201
            assert create(service, SHARE).status == 201
