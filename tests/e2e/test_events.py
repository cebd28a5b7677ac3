"""Callers without HTTP: an invocation, messages of a queue, events of a bus, and runs that nobody waits for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.caller import Api
from tests.e2e.stack import Stack


def until(what: Callable[[], Any], seconds: float = 60) -> Any:
    """What it gives once that is something."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.2)
    return found


def call(api: Api, operation: str, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An event of the direct function."""
    return {"operation": operation, "credential": api.key, "input": data, **more}


def test_an_invocation_runs_a_program_and_repeats_its_answer_under_one_key(api: Api, stack: Stack) -> None:
    event = call(api, "exec.run", {"lang": "bash", "code": "echo $RANDOM$RANDOM > f; cat f"}, idempotency_key="k-1")
    first = stack.invoke("DirectFunction", event)
    assert first["status"] == 200, first
    assert stack.invoke("DirectFunction", event) == first
    other = call(api, "exec.run", {"lang": "bash", "code": "echo other"}, idempotency_key="k-1")
    assert stack.invoke("DirectFunction", other)["status"] == 422
    session = first["body"]["session_id"]
    listed = stack.invoke("DirectFunction", call(api, "files.list", {"session_id": session}))
    assert listed["status"] == 200
    assert api.http.get(f"/v1/exec/files/{session}").json() == listed["body"]


def test_an_invocation_without_a_caller_is_refused(api: Api, stack: Stack) -> None:
    event = {"operation": "exec.run", "credential": "wr_" + "x" * 42, "input": {"lang": "bash"}}
    assert stack.invoke("DirectFunction", event)["status"] == 403


def test_a_background_run_ends_and_is_announced(api: Api, stack: Stack) -> None:
    session = stack.emulator.session()
    events = session.client("events", endpoint_url=stack.emulator.endpoint)
    queues = session.client("sqs", endpoint_url=stack.emulator.endpoint)
    url = queues.create_queue(QueueName="heard")["QueueUrl"]
    arn = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name="heard", EventPattern=json.dumps({"source": ["workroom"], "detail-type": ["run.finished"]}))
    events.put_targets(Rule="heard", Targets=[{"Id": "1", "Arn": arn}])
    begun = api.post("bash", "echo slow > f; echo done", headers={"Prefer": "respond-async"})
    assert begun.status_code == 202
    run_id = begun.json()["id"]
    assert begun.headers["location"] == f"/v1/exec/runs/{run_id}"
    ended = api.ended(run_id)
    assert (ended["status"], ended["result"]["stdout"]) == ("finished", "done\n")
    message = until(lambda: queues.receive_message(QueueUrl=url).get("Messages"))[0]
    told = json.loads(message["Body"])
    assert (told["source"], told["detail-type"]) == ("workroom", "run.finished")
    assert told["detail"] == {"project": "main", "run_id": run_id, "status": "finished"}


def test_a_message_is_one_execution_however_often_it_comes(api: Api, stack: Stack) -> None:
    made = api.run("bash", "true")["session_id"]
    queues = stack.emulator.session().client("sqs", endpoint_url=stack.emulator.endpoint)
    body = json.dumps(call(api, "exec.run", {"lang": "bash", "code": "echo x >> f", "session_id": made}))
    queues.send_message(QueueUrl=stack.deployed.outputs["CallQueueUrl"], MessageBody=body)
    until(lambda: api.http.get(f"/v1/exec/files/{made}").json())
    record = {"messageId": "again", "eventSource": "aws:sqs", "body": body.replace(">> f", ">> g")}
    for _ in range(2):
        assert stack.invoke("DirectFunction", {"Records": [record]}) == {"batchItemFailures": []}
    assert api.run("bash", "cat f g", made)["stdout"] == "x\nx\n"


def test_a_refused_message_is_done_with(api: Api, stack: Stack) -> None:
    bad = {"messageId": "bad", "eventSource": "aws:sqs", "body": "{"}
    unknown = {"messageId": "u", "eventSource": "aws:sqs", "body": json.dumps(call(api, "keys.list", {}))}
    assert stack.invoke("DirectFunction", {"Records": [bad, unknown]}) == {"batchItemFailures": []}


def test_the_queue_of_runs_is_not_trusted(stack: Stack) -> None:
    forged = {"messageId": "f", "eventSource": "aws:sqs", "body": json.dumps({"project": "main", "run_id": "x" * 21})}
    before = stack.lambdas.invocations[stack.deployed.names["SandboxFunction"]]
    assert stack.invoke("WorkerFunction", {"Records": [forged]}) == {"batchItemFailures": []}
    assert stack.lambdas.invocations[stack.deployed.names["SandboxFunction"]] == before


@pytest.mark.parametrize("event", [{}, {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}])
def test_the_schedule_sweeps_and_keeps_what_lives(api: Api, stack: Stack, event: dict[str, Any]) -> None:
    made = api.run("bash", "echo kept > f")["session_id"]
    assert stack.invoke("JanitorFunction", event)["whole"] is True
    assert api.run("bash", "cat f", made)["stdout"] == "kept\n"
