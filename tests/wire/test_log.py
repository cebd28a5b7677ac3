"""What the log holds of a request, and what it never does (cases.md K20)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from functions.api.access import ACCESS, ERRORS
from tests.wire.forms import MULTIPART, field, file, form
from tests.wire.scripted import program
from tests.wire.service import Service, expect_eventually, local_store

SECRET = "s3cr3t-marker"
MEMBERS = {
    "time", "event", "request_id", "method", "route", "operation", "project", "key", "status", "whole", "ms",
    "bytes_in", "bytes_out",
}  # fmt: skip


class Lines(logging.Handler):
    """Keeps what is logged, as it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in ("httpx", "httpcore"):  # the client's own
            return
        self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Every line that any logger of this process writes meanwhile."""
    handler = Lines()
    root = logging.getLogger()
    level, ours = root.level, ACCESS.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    ACCESS.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        ACCESS.setLevel(ours)


def requests_of(lines: list[str]) -> list[dict[str, Any]]:
    return [row for row in map(parsed, lines) if row and row.get("event") == "request"]


def parsed(line: str) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return row


def test_a_request_is_one_line_with_the_template_and_who_asked(service: Service, lines: list[str]) -> None:
    with service.client() as client:
        answer = client.post("/v1//exec?x=y", json={"lang": "py", "code": program(stdout="12345")})
        session = answer.json()["session_id"]
        client.get(f"/v1/files/{session}")
    expect_eventually(lambda: len(requests_of(lines)) == 2)
    first, second = requests_of(lines)
    assert set(first) == set(second) == MEMBERS
    assert (first["method"], first["route"], first["status"], first["project"]) == ("POST", "/v1/exec", 200, "first")
    assert first["request_id"] == answer.headers["x-request-id"]
    assert first["bytes_out"] == len(answer.content)
    assert first["bytes_in"] > 20
    assert first["whole"] is True
    assert 0 <= first["ms"] < 60_000
    assert second["route"] == "/v1/files/{session_id}"
    assert (first["operation"], second["operation"]) == ("exec.run", "files.list")


@local_store("boto3 logs requests at a level that no deployment has")
def test_K20_nothing_that_a_caller_or_a_program_wrote_is_logged(service: Service, lines: list[str]) -> None:
    forged = f'\n{{"level":"ERROR","x":"{SECRET}"}}\r\n'
    script = program(stdout=forged, stderr=forged, write={f"{SECRET}\nname": "x"})
    with service.client() as client:
        made = client.post("/v1/exec", json={"lang": "py", "code": script, "args": [SECRET], SECRET: SECRET}).json()
        client.post("/v1/exec", json={"lang": SECRET, "code": SECRET, "session_id": SECRET})
        client.post("/v1/exec", content=SECRET)
        client.post("/v1/exec", json={"lang": "py", "code": program(**{"raise": SECRET})})
        client.post("/v1/exec", json={"lang": "py", "code": program()}, headers={"Idempotency-Key": SECRET})
        client.post("/v1/exec?" + SECRET, json={"lang": "py", "code": program()}, headers={"User-Agent": SECRET})
        session = made["session_id"]
        client.get(f"/v1/files/{SECRET}?{SECRET}")
        client.get(f"/{SECRET}%0a{SECRET}")
        client.get(f"/v1/download/{session}/{SECRET}%0Aname")
        client.delete(f"/v1/files/{session}/{SECRET}%0Aname")
        for parts in (
            [field(SECRET, SECRET), file(SECRET + "\x01", SECRET.encode())],
            [field("session_id", SECRET), file("a")],
            [file("../" + SECRET)],
        ):
            client.post("/v1/upload", content=form(parts), headers=MULTIPART)
        client.post("/v1/upload", content=b"--" + SECRET.encode(), headers=MULTIPART)
        client.post("/v1/upload", content=b"x", headers={"Content-Type": f"multipart/form-data; boundary={SECRET}"})
        asked = {"name": SECRET, "size": 1, "sha256": "0" * 64}
        grant = client.post("/v1/exec/uploads", json=asked).json()["url"]
        client.put(grant, content=b"x", headers={"If-None-Match": "*"})
        client.put(f"/v1/exec/grants/{SECRET}", content=b"x")
        client.post("/mcp", content=SECRET)
        started = client.post("/v1/exec", json={"lang": "py", "code": script}, headers={"Prefer": "respond-async"})
        expect_eventually(lambda: client.get(started.headers["location"]).json()["status"] == "finished")
    service.ask(SECRET.upper().replace("-", ""), "/")
    service.ask("GET", "/", key=SECRET)
    # Both of the last two, of which one has a verb that nobody knows.
    expect_eventually(lambda: [row["method"] for row in requests_of(lines) if row["route"] == "/"] == ["OTHER", "GET"])
    assert len(requests_of(lines)) >= 23
    assert lines
    for line in lines:
        assert "\n" not in line
        for word in (SECRET, SECRET.upper(), service.key, grant.rpartition("/")[2], session):
            assert word not in line
    for row in requests_of(lines):
        assert set(row) == MEMBERS
    errors = [row for row in map(parsed, lines) if row and row.get("event") == "error"]
    assert [row["kind"] for row in errors] == ["RuntimeError"]
    assert ERRORS.name == "workroom.error"


def test_a_method_of_a_callers_own_is_not_logged_as_it_is(service: Service, lines: list[str]) -> None:
    service.ask("PROPFIND", "/v1/exec")
    expect_eventually(lambda: len(requests_of(lines)) == 1)
    (row,) = requests_of(lines)
    assert (row["method"], row["route"], row["status"]) == ("OTHER", "/v1/exec", 405)


def test_a_request_without_admission_names_nobody(service: Service, lines: list[str]) -> None:
    service.ask("GET", "/v1/files/" + "A" * 21, key="wr_" + "x" * 42)
    expect_eventually(lambda: len(requests_of(lines)) == 1)
    (row,) = requests_of(lines)
    assert (row["project"], row["key"], row["status"]) == (None, None, 401)
