"""The direct function as Lambda starts it: awslambdaric behind the runtime emulator, and a real program in its jail."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.environments import python_environment

CANARY = "canary-2b90aa"
PROGRAM = f'echo \'{CANARY}\'; echo \'{{"level":"ERROR","x":"{CANARY}"}}\' >&2; echo x > {CANARY}; exit 3\n'
INVOKE = "/2015-03-31/functions/function/invocations"
PLATFORM = ("START ", "END ", "REPORT ")
"""Lines that the platform writes itself."""


@pytest.fixture(scope="module")
def work() -> Iterator[Path]:
    """Where the workspaces lie: other users have to reach it."""
    made = Path(tempfile.mkdtemp(prefix="workroom-events-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


def test_a_program_runs_and_each_call_writes_one_line_of_json_without_a_word_of_it(tmp_path: Path, work: Path) -> None:
    log, data = tmp_path / "log", tmp_path / "data"
    environ = {"WORKROOM_DATA": str(data), "WORKROOM_WORK": str(work / "w")}
    if cache := os.environ.get("WORKROOM_CACHE"):
        environ["WORKROOM_CACHE"] = cache
    with python_environment("direct", "functions.direct.app.handler", environ, seconds=60, log=log) as address:

        def call(operation: str, given: Any = None, credential: str = "") -> Any:
            event = {"operation": operation, "credential": credential, "input": given or {}}
            return httpx.post(address + INVOKE, json=event, timeout=60, trust_env=False).json()

        assert call("health.get") == {"status": 200, "body": {"status": "ok"}}
        key = (data / "dev.key").read_text().strip()
        body = call("exec.run", {"lang": "bash", "code": PROGRAM}, key)["body"]
        assert (body["stdout"], body["code"]) == (CANARY + "\n", 3)
        assert [file["name"] for file in body["files"]] == [CANARY]
        assert call("files.list", {"session_id": body["session_id"]}, key)["body"][0]["size"] == 2
        assert call("exec.run", {"lang": "bash", "code": PROGRAM}, CANARY)["status"] == 403
    text = log.read_text()
    assert CANARY not in text
    assert key not in text
    lines = [json.loads(line) for line in text.splitlines() if line and not line.startswith(PLATFORM)]
    calls = [line for line in lines if line.get("event") == "request"]
    assert [(line["operation"], line["status"]) for line in calls] == [
        ("health.get", 200),
        ("exec.run", 200),
        ("files.list", 200),
        (None, 403),
    ]
    assert [line["cold_start"] for line in calls] == [True, False, False, False]
    assert len({line["function_request_id"] for line in calls}) == len(calls)
    (counted,) = [line for line in lines if "_aws" in line]
    assert (counted["lang"], counted["outcome"], counted["runs"]) == ("bash", "failed", [1.0])
    assert len(lines) == len(calls) + 1
