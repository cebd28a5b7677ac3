"""The function as the runtime starts it: what it logs, what a snapshot of it holds, what a restored one draws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions import telemetry
from functions.api import aws
from functions.api.aws import Front
from tests.gateway.conftest import SETTINGS, Function
from tests.gateway.front import Context
from tests.gateway.test_events import body_of, recorded
from tests.ministack import shared
from tests.wire.scripted import program

ROOT = Path(__file__).resolve().parents[2]
CANARY = "canary-91b3"
FORGED = f'\n{{"level":"ERROR","event":"request","x":"{CANARY}"}}\r\n\u2028{CANARY}'
MEMBERS = {
    "level", "timestamp", "service", "cold_start", "function_request_id", "event", "request_id", "method", "route",
    "operation", "project", "key", "status", "whole", "ms", "bytes_in", "bytes_out",
}  # fmt: skip


@pytest.fixture
def handler(function: Function, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The function's handler, in an environment of its own on the room of `function`."""
    monkeypatch.setattr(aws, "FRONT", Front(lambda: function.room, lambda: SETTINGS))
    yield aws.handler
    telemetry.uninstall()


def lines(text: str) -> list[dict[str, Any]]:
    """Every line as an object: one that is none fails."""
    return [dict(json.loads(line)) for line in text.splitlines()]


def test_a_request_is_one_line(function: Function, handler: Any, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    answer = handler(recorded("http-api-post", function.key), Context())
    handler(recorded("function-url-get", "wrong"), Context())
    handler(recorded("refused-alb"), Context())
    out, err = capfd.readouterr()
    assert err == ""
    run, wrong, refused = [row for row in lines(out) if row.get("event") == "request"]
    for row in (run, wrong, refused):
        assert set(row) == MEMBERS
        assert (row["service"], row["function_request_id"]) == ("api", Context.aws_request_id)
    assert (run["operation"], run["project"], run["status"], run["cold_start"]) == ("exec.run", "first", 200, True)
    assert run["request_id"] == answer["headers"]["x-request-id"]
    assert 0 < run["ms"] < 60_000
    assert (wrong["operation"], wrong["project"]) == ("files.download", None)
    assert (wrong["status"], wrong["cold_start"]) == (401, False)
    assert (refused["operation"], refused["route"], refused["status"]) == (None, None, 400)


def test_K20_nothing_that_a_caller_or_a_program_wrote_is_logged(
    function: Function, handler: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    good = recorded("http-api-post", function.key)
    script = program(stdout=FORGED, stderr=FORGED, write={f"{CANARY}\nname": CANARY})
    bodies: list[Any] = [
        {"lang": "py", "code": script, "args": [FORGED], "user_id": FORGED, CANARY: CANARY},
        {"lang": "py", "code": program(**{"raise": FORGED})},
        {"lang": "py", "code": program(fail="broken"), "args": [CANARY]},
        {"lang": CANARY, "code": CANARY, "session_id": CANARY},
        CANARY,
    ]
    events: list[Any] = [{**good, "body": json.dumps(body)} for body in bodies]
    events += [
        {**good, "body": FORGED},
        {**good, "rawPath": f"/{FORGED}"},
        {**good, "rawPath": f"/v1/files/{CANARY}", "rawQueryString": CANARY},
        {**good, "headers": {**good["headers"], "user-agent": FORGED, "x-api-key": CANARY, CANARY: FORGED}},
        {**good, "headers": {**good["headers"], "idempotency-key": CANARY}},
        {**good, "cookies": [CANARY]},
        {**good, "rawPath": 5, "body": CANARY},
        {**good, "body": CANARY, "isBase64Encoded": True, "rawPath": "/mcp"},
        {**good, "requestContext": {"http": {"method": CANARY}, "stage": CANARY, "domainName": CANARY}},
        {**good, "requestContext": {"http": {"method": "GET", "sourceIp": CANARY}}, "routeKey": FORGED},
        {CANARY: FORGED},
        {"version": "2.0", "requestContext": CANARY},
        CANARY,
    ]
    capfd.readouterr()
    statuses = [handler(event, Context())["statusCode"] for event in events]
    out, err = capfd.readouterr()
    assert {200, 400, 401, 404, 500, 502} <= set(statuses)
    assert err == ""
    assert sum(row.get("event") == "request" for row in lines(out)) == len(events)
    for word in (CANARY, function.key):
        assert word not in out


SNAPSHOT = """
import json, os, sys
import functions.api.aws as aws
import snapshot_restore_py as hooks
from functions.environment import HERE

def sockets():
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.readlink(link).startswith("socket:") for link in links if os.path.islink(link))

print(json.dumps({
    "sockets": sockets(),
    "opened": HERE._room is not None or aws.FRONT._application is not None,
    "loaded": [name for name in ("boto3", "mcp", "functions.worker.queue") if name in sys.modules],
}), flush=True)
event = json.load(open(sys.argv[1]))
for _ in range(3):
    child = os.fork()
    if child == 0:
        import random
        for code, args, more in hooks.get_after_restore():
            code(*args, **more)
        owner = HERE.room().owner
        drawn = random.random()
        status = aws.FRONT(event, None)["statusCode"]
        row = {"owner": [owner.name, owner.incarnation], "drawn": drawn, "status": status}
        os.write(1, (json.dumps(row) + "\\n").encode())
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_snapshot_has_modules_and_each_restored_environment_draws_its_own(tmp_path: Path) -> None:
    emulator = shared()
    event = tmp_path / "event.json"
    event.write_text(json.dumps(recorded("http-api-cookies")), "utf-8")
    environ = {
        "PATH": os.environ["PATH"],
        **{name: value for name, value in emulator.environment().items() if name.startswith("AWS_")},
        "AWS_LAMBDA_FUNCTION_NAME": "api",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
        "POWERTOOLS_TRACE_DISABLED": "1",
        "WORKROOM_STORE": "aws",
        "WORKROOM_EXECUTOR": "lambda",
        "WORKROOM_TABLE": emulator.table(),
        "WORKROOM_BUCKET": emulator.bucket(),
        "WORKROOM_EXECUTOR_FUNCTION": "sandbox",
    }
    done = subprocess.run(
        [sys.executable, "-c", SNAPSHOT, str(event)],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [row for row in lines(done.stdout) if "event" not in row]
    snapshot, *restored = rows
    assert snapshot == {"sockets": 0, "opened": False, "loaded": ["boto3", "mcp", "functions.worker.queue"]}
    assert [row["status"] for row in restored] == [200, 200, 200]
    for place in (0, 1):
        assert len({row["owner"][place] for row in restored}) == 3
    assert len({row["drawn"] for row in restored}) == 3


def test_without_a_snapshot_only_what_the_first_request_needs_is_loaded() -> None:
    code = "import sys, functions.api.aws; print(sorted({'mcp', 'boto3', 'uvicorn'} & set(sys.modules)))"
    environ = {"PATH": os.environ["PATH"], "AWS_LAMBDA_FUNCTION_NAME": "api"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_a_setting_that_cannot_be_read_ends_the_init() -> None:
    environ = {"PATH": os.environ["PATH"], "AWS_LAMBDA_FUNCTION_NAME": "api", "WORKROOM_STOER": "aws"}
    done = subprocess.run(
        [sys.executable, "-c", "import functions.api.aws"],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "WORKROOM_STOER is not a setting" in done.stderr


def test_the_answer_of_a_handler_is_json(function: Function, handler: Any) -> None:
    answer = handler(json.loads(json.dumps(recorded("http-api-multipart", function.key))), Context())
    assert json.loads(body_of(json.loads(json.dumps(answer))))["message"] == "success"
