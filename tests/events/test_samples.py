"""Every sample of `events/` through its function, and a sample for every operation and every source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions.direct import app as direct
from functions.janitor import app as janitor
from functions.sandbox import app as sandbox
from functions.worker import app as worker
from functions.worker.announce import Silent
from shared.executor.wire import RunAnswer
from shared.operations.all import operations
from tests.events.samples import EVENTS, Context, Running, Stage, load, names

CALLERS = sorted(name for name, one in operations().items() if one.audience == "caller")
SOURCES = {
    "api": ["http-api"],
    "direct": ["from-eventbridge", "from-invoke", "from-sqs", "from-sqs-batch", "from-step-functions"],
    "janitor": ["schedule"],
    "sandbox": ["health", "run"],
    "stream": ["function-url"],
    "worker": ["queue"],
}
STATUS = {
    "exec.start": 202,
    "exec.programmatic": 501,
    "exec.programmatic_cancel": 202,
    "uploads.create": 201,
    "agents.create": 201,
    "sessions.create": 201,
    "environments.create_file": 201,
    "events.create": 202,
}
"""By exec.md A3, A8.8 and A8.15 and agents.md 1.6, 3.3, 5.1 and 5.2; every other operation answers 200."""


def test_every_operation_and_every_source_has_a_sample_and_there_is_no_other() -> None:
    expected = {folder: sorted(found) for folder, found in SOURCES.items()}
    expected["direct"] = sorted([*SOURCES["direct"], *CALLERS])
    assert {path.name: names(path.name) for path in EVENTS.iterdir() if path.is_dir()} == expected


@pytest.mark.parametrize("name", CALLERS)
def test_the_sample_of_an_operation_answers_what_the_operation_declares(stage: Stage, name: str) -> None:
    event = load(f"direct/{name}", stage.values())
    assert event["operation"] == name
    answer = direct.handler(event, Context())
    json.dumps(answer)
    assert set(answer) == {"status", "body"}
    assert answer["status"] == STATUS.get(name, 200)
    if answer["status"] >= 400:
        assert (set(answer["body"]), answer["body"]["error"]) == ({"error", "message"}, "unsupported_capability")
    else:
        operations()[name].output.model_validate_json(json.dumps(answer["body"]))


def test_the_sample_of_a_run_prints_what_its_program_computes(stage: Stage) -> None:
    body = direct.handler(load("direct/exec.run", stage.values()), Context())["body"]
    assert (body["stdout"], body["code"], body["status"]) == ("42\n", 0, None)


@pytest.mark.parametrize("name", ["from-invoke", "from-step-functions", "from-eventbridge"])
def test_the_sample_of_a_source_runs_its_call_once(stage: Stage, name: str) -> None:
    event = load(f"direct/{name}", stage.values())
    before = stage.executor.started
    first, second = direct.handler(event, Context()), direct.handler(event, Context())
    assert (first["status"], first["body"]["stdout"]) == (200, "42\n")
    assert second == first
    assert stage.executor.started == before + 1


@pytest.mark.parametrize("name", ["from-sqs", "from-sqs-batch"])
def test_the_sample_of_a_batch_is_done_with_and_a_second_delivery_does_nothing(stage: Stage, name: str) -> None:
    values = stage.values()
    event = load(f"direct/{name}", values)
    before = stage.executor.started
    for _ in range(2):
        assert direct.handler(event, Context()) == {"batchItemFailures": []}
        assert stage.executor.started == before + 1
    listed = {row.name for row in stage.do("files.list", session_id=values["session_id"]).root}
    assert len(listed) == (2 if name == "from-sqs-batch" else 1)


def test_the_sample_of_the_queue_names_a_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run has ended already, so its end is announced and nothing runs."""
    ended: list[tuple[str, str, str]] = []

    class Kept(Silent):
        def finished(self, project: str, run_id: str, status: str) -> None:
            ended.append((project, run_id, status))

    monkeypatch.setattr(worker, "_announcer", Kept())
    values = stage.values()
    before = stage.executor.started
    assert worker.handler(load("worker/queue", values), Context()) == {"batchItemFailures": []}
    assert ended == [("first", values["run_id"], "finished")]
    assert stage.executor.started == before


def test_the_sample_of_the_schedule_sweeps(stage: Stage) -> None:
    stage.values()
    answer = janitor.handler(load("janitor/schedule", {}), Context())
    assert answer == {"sessions": 0, "objects": 0, "records": 0, "whole": True}


class Runner:
    """The runner of the image, that ends where the program would begin."""

    def __init__(self) -> None:
        self.executor = Running()

    def run(self, request: Any, cancel: Any, end: float) -> RunAnswer:
        return self.executor.run(request)


@pytest.fixture
def environment() -> sandbox.Sandbox:
    """An environment of the executor function without a jail: the sandbox's own suite has the real one."""
    made = sandbox.Sandbox("", frozenset(), alone=False)
    made.trouble = ""
    made._runner = Runner()  # type: ignore[assignment]
    return made


def test_the_sample_of_a_run_in_the_sandbox_is_one_that_it_reads(environment: sandbox.Sandbox) -> None:
    event = load("sandbox/run", {})
    answer = environment.handle(event, Context())
    assert answer["run_id"] == event["run_id"]
    assert RunAnswer.of(answer["answer"]).stdout == "42\n"


def test_the_sample_of_the_sandbox_s_health_answers_its_parts() -> None:
    made = sandbox.Sandbox("", frozenset(), alone=False)
    assert set(made.handle(load("sandbox/health", {}), Context())["health"]) >= {"trouble", "languages", "layers"}
