"""Credentials at the HTTP door (exec.md A2, A8.7; cases.md H1, H3, K14)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest

from shared.errors import Code, Failure
from shared.limits import Limits
from shared.operations.all import operations
from shared.operations.base import Call
from tests.wire.scripted import Scripted, program
from tests.wire.service import Door, Service, make_key, open_test_room, serving

REFUSED = b'{"error":"unauthorized","message":"A valid credential is required."}'


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(service: Service, headers: Mapping[str, str] | list[tuple[str, str]]) -> tuple[int, bytes]:
    """A listing of a session that does not exist: 404 to whoever is admitted."""
    pairs = headers if isinstance(headers, list) else list(headers.items())
    lines = ["GET /v1/files/AAAAAAAAAAAAAAAAAAAAA HTTP/1.1", "Host: h", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in pairs]
    answer = service.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
    return answer.status, answer.body


def test_every_way_to_send_a_key_is_admitted(service: Service) -> None:
    key = service.key
    for headers in (
        {"X-API-Key": key},
        {"x-api-key": key, "User-Agent": "LibreChat/1.0", "User-Id": "u"},
        {"Authorization": f"Bearer {key}"},
        {"Authorization": f"bearer  {key}"},
        {"Authorization": basic("lc", key)},
        {"Authorization": basic(key, "")},
        {"X-API-Key": key, "Authorization": f"Bearer {key}"},
        {"X-API-Key": key, "Authorization": basic("", key)},
        # a host that sends its own token beside our key
        {"X-API-Key": key, "Authorization": "Bearer eyJhbGciOiJFZERTQSJ9.e30.c2ln"},
        {"X-API-Key": key, "Authorization": "Negotiate abc"},
    ):
        assert ask(service, headers)[0] == 404, headers


def test_no_credential_and_a_wrong_one_are_401_with_one_body(service: Service) -> None:
    key, other = service.key, service.other_key
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    rows: list[list[tuple[str, str]]] = [
        [],
        [("X-API-Key", "")],
        [("X-API-Key", wrong)],
        [("X-API-Key", key + "x")],
        [("X-API-Key", key.upper())],
        [("X-API-Key", "é")],
        [("X-API-Key", "x" * 10_000)],
        [("Authorization", key)],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", f"Bearer {wrong}")],
        [("Authorization", "Bearer eyJhbGciOiJub25lIn0.e30.")],
        [("Authorization", "Basic")],
        [("Authorization", "Basic !!!")],
        [("Authorization", "Basic /w==")],
        [("Authorization", basic("lc", wrong))],
        [("Authorization", basic(key, wrong))],
        # two valid keys of different projects
        [("X-API-Key", key), ("Authorization", f"Bearer {other}")],
        [("X-API-Key", other), ("Authorization", basic("lc", key))],
        # a wrong key of our format beside a valid one
        [("X-API-Key", wrong), ("Authorization", f"Bearer {key}")],
        [("X-API-Key", key), ("Authorization", f"Bearer {wrong}")],
        # sent twice: which one counts must not depend on a proxy
        [("X-API-Key", key), ("X-API-Key", key)],
        [("X-API-Key", key), ("X-API-Key", other)],
        [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")],
        # where no key belongs
        [("Cookie", f"key={key}")],
        [("Proxy-Authorization", f"Bearer {key}")],
    ]
    for row in rows:
        assert ask(service, row) == (401, REFUSED), row


def test_a_key_in_the_query_or_the_body_admits_nobody(service: Service) -> None:
    body = b'{"lang":"py","code":"{}","apiKey":"%s","LIBRECHAT_CODE_API_KEY":"%s"}' % ((service.key.encode(),) * 2)
    answer = service.ask("POST", f"/v1/exec?api_key={service.key}&X-API-Key={service.key}", key="", body=body)
    assert (answer.status, answer.body) == (401, REFUSED)


def test_K14_an_expired_and_a_revoked_key_are_refused(tmp_path: Path, door: Door) -> None:
    now = [1_800_000_000_000]
    room = open_test_room(tmp_path, Limits(), Scripted(), clock=lambda: now[0])
    with serving(room, door=door) as service:
        short = make_key(room, "first", expires_in_s=60)
        assert ask(service, {"X-API-Key": short})[0] == 404
        now[0] += 60_000
        assert ask(service, {"X-API-Key": short}) == (401, REFUSED)
        assert ask(service, {"X-API-Key": service.key})[0] == 404


def test_a_service_without_any_key_is_503(tmp_path: Path, door: Door) -> None:
    with serving(open_test_room(tmp_path, Limits(), Scripted()), keys=False, door=door) as service:
        for headers in ({}, {"X-API-Key": "wr_" + "x" * 42}):
            status, body = ask(service, headers)
            assert status == 503
            assert b'"error":"not_configured"' in body
        assert service.ask("GET", "/v1/health", key="").status == 200
        assert service.ask("GET", "/v1/health", key="wr_" + "x" * 42).status == 200


def test_H1_a_project_named_anywhere_but_in_the_credential_is_ignored(service: Service) -> None:
    with service.client() as mine, service.client(service.other_key) as theirs:
        session = mine.post("/v1/upload", files={"file": ("a.txt", b"mine")}).json()["session_id"]
        naming = {"X-Org-Id": "first", "X-Project": "first", "X-Tenant-Id": "first", "User-Id": "first"}
        for query in ("", "?project=first&tenant=first&user_id=first"):
            assert theirs.get(f"/v1/files/{session}{query}", headers=naming).status_code == 404
        body = {"lang": "py", "code": program(), "project": "first", "tenant": "first", "user_id": "first"}
        assert theirs.post("/v1/exec", json={**body, "session_id": session}, headers=naming).status_code == 404
        made = theirs.post("/v1/exec", json={**body, "code": program(write={"b": "b"})}, headers=naming).json()
        assert theirs.get(f"/v1/files/{made['session_id']}").status_code == 200
        assert mine.get(f"/v1/files/{made['session_id']}").status_code == 404


ORDER = [
    ("POST", "/v1/exec", b"{"),
    ("POST", "/v1/exec/programmatic", b"{"),
    ("POST", "/v1/exec/upload", b"--"),
    ("POST", "/v1/exec/uploads", b"{"),
    ("GET", "/v1/exec/download/x", b""),
    ("POST", "/mcp", b"{"),
]


@pytest.mark.parametrize(("method", "target", "body"), ORDER)
def test_admission_comes_before_the_request_is_looked_at(
    service: Service, method: str, target: str, body: bytes
) -> None:
    assert service.ask(method, target, key="", body=body).status == 401
    assert service.ask(method, target, body=body).status in (400, 406)


@pytest.mark.doors("local", why="a gateway has read the whole body before it makes an event")
def test_a_body_is_not_read_for_somebody_who_is_not_admitted(service: Service) -> None:
    with service.connect() as sock:
        sock.sendall(
            b"POST /v1/upload HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\nExpect: 100-continue\r\n\r\n"
        )
        answer = sock.recv(65536)
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_H3_every_operation_refuses_by_itself_when_nobody_was_admitted(service: Service) -> None:
    refused = []
    for name, operation in operations().items():
        if operation.open:
            continue
        with pytest.raises(Failure) as caught:
            # The input is never looked at: it could not even be read.
            operation.run(service.room, Call(None), None)
        assert caught.value.code is Code.FORBIDDEN, name
        refused.append(name)
    assert {"exec.run", "exec.programmatic", "files.list", "keys.create"} <= set(refused)


def test_programmatic_answers_in_the_order_of_the_contract(service: Service) -> None:
    for base in ("/v1/exec/programmatic", "/v1/exec/exec/programmatic"):
        assert service.ask("POST", base, key="", body=b"{}").status == 401
        assert service.ask("POST", base, body=b"not json").status == 400
        assert service.ask("POST", base).status == 400
        assert service.ask("POST", base, body=b"[]").status == 400
        answer = service.ask("POST", base, body=b'{"code":"x"}')
        assert answer.status == 501
        assert b'"error":"unsupported_capability"' in answer.body
        assert b"suspends a run on each tool call" in answer.body
        assert b"continuation token" in answer.body
        assert service.ask("POST", base + "/cancel", key="").status == 401
        for body in (b"", b"{}", b'{"request_id":"r"}', b'{"request_id":5}', b"[]", b"not json", b"\xff"):
            assert service.ask("POST", base + "/cancel", body=body).status == 202
