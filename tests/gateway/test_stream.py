"""The streaming function: exactly the command that Lambda Web Adapter starts, on a free port of this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from functions.api.stream.__main__ import port_of
from shared.settings import BadSetting
from tests.ministack import shared
from tests.wire.forms import file, send

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ROOT / "functions" / "api" / "stream" / "run.sh"
CALL = {"x-amzn-lambda-context": json.dumps({"request_id": "8f507cfc-0000-4697-b07a-ac58fc914c95"})}


@contextmanager
def started() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The function's process and its address, on an emulated table and bucket."""
    emulator = shared()
    environ = {
        **emulator.environment(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LAMBDA_TASK_ROOT": str(ROOT),
        "AWS_LWA_PORT": "0",
        "WORKROOM_STORE": "aws",
        "WORKROOM_EXECUTOR": "lambda",
        "WORKROOM_TABLE": emulator.table(),
        "WORKROOM_BUCKET": emulator.bucket(),
        "WORKROOM_EXECUTOR_FUNCTION": "sandbox",
    }
    child = subprocess.Popen([COMMAND], cwd="/", env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(60, child.kill)
    watchdog.start()
    try:
        assert child.stdout is not None
        ready = re.fullmatch(r"Workroom is ready: (http://127\.0\.0\.1:\d+)\n", child.stdout.readline())
        assert ready, child.stderr.read() if child.stderr else ""
        yield child, ready[1]
    finally:
        watchdog.cancel()
        child.kill()
        child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def made_key(environ: Mapping[str, str]) -> str:
    """A key of the deployment, as an operator makes one."""
    code = (
        "from functions.environment import HERE; from tests.wire.service import make_key; "
        "print(make_key(HERE.room(), 'first'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=ROOT,
        env=dict(environ),
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_the_command_serves_every_route_and_ends_in_order() -> None:
    emulator = shared()
    names = {"WORKROOM_STORE": "aws", "WORKROOM_EXECUTOR": "lambda", "WORKROOM_EXECUTOR_FUNCTION": "sandbox"}
    names |= {"WORKROOM_TABLE": emulator.table(), "WORKROOM_BUCKET": emulator.bucket()}
    key = made_key({"PATH": os.environ["PATH"], **emulator.environment(), **names})
    with started() as (child, url):
        with httpx.Client(base_url=url, headers={**CALL, "X-API-Key": key}, timeout=30, trust_env=False) as client:
            assert client.get("/v1/health").status_code == 200
            session = send(client, [file("a.bin", bytes(range(256)))]).json()["session_id"]
            answer = client.get(f"/v1/download/{session}/a.bin")
            assert (answer.status_code, answer.content) == (200, bytes(range(256)))
            assert client.get("/v1/%68ealth").status_code == 404
            assert client.get("/openapi.json").json()["openapi"] == "3.1.0"
            assert client.post("/v1/exec/programmatic", content=b"{}").status_code == 501
            # As a function URL joins headers that came twice.
            joined = {"Authorization": "Bearer a,Basic Yg=="}
            assert client.get(f"/v1/files/{session}", headers=joined).status_code == 401
            assert client.get(f"/v1/files/{session}", headers={"X-API-Key": f"{key},{key}"}).status_code == 401
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=40)
        assert child.returncode == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    asked = [row for row in rows if row.get("event") == "request"]
    assert [row["cold_start"] for row in asked] == [True] + [False] * (len(asked) - 1)
    assert {row["function_request_id"] for row in asked} == {"8f507cfc-0000-4697-b07a-ac58fc914c95"}
    assert {row["service"] for row in asked} == {"stream"}
    assert (asked[1]["operation"], asked[1]["project"], asked[1]["status"]) == ("files.upload", "first", 200)
    assert key not in out + err


def test_it_carries_streams_up_to_its_end() -> None:
    emulator = shared()
    names = {"WORKROOM_STORE": "aws", "WORKROOM_EXECUTOR": "lambda", "WORKROOM_EXECUTOR_FUNCTION": "sandbox"}
    names |= {"WORKROOM_TABLE": emulator.table(), "WORKROOM_BUCKET": emulator.bucket()}
    key = made_key({"PATH": os.environ["PATH"], **emulator.environment(), **names})
    headers = {**CALL, "Authorization": f"Bearer {key}", "OpenAI-Beta": "agents=v1"}
    made = {"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}}
    with started() as (child, url), httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False) as client:
        first, second = (client.post("/v1/agents/sessions", json=made).json()["id"] for _ in range(2))
        with client.stream("GET", f"/v1/agents/sessions/{first}/events") as stream:
            assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream")
            assert client.delete(f"/v1/agents/sessions/{first}").status_code == 200
            assert stream.read() == b""
        with client.stream("GET", f"/v1/agents/sessions/{second}/events") as stream:
            child.send_signal(signal.SIGTERM)
            assert stream.read() == b""
        assert child.wait(timeout=40) == 0


@pytest.mark.parametrize("port", ["x", "-1", "65536", "999999", "8080 ", "８０"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(BadSetting, match="AWS_LWA_PORT"):
        port_of({"AWS_LWA_PORT": port})


def test_it_does_not_start_from_a_snapshot() -> None:
    with pytest.raises(BadSetting, match="snapshot"):
        port_of({"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"})
    assert port_of({}) == 8080
