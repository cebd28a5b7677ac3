"""A queued run from one end to the other, on an emulator of SQS and EventBridge: sent, taken, run, announced."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from functions import environment
from functions.direct import app as direct
from functions.worker import app as worker
from functions.worker.announce import EventBridge
from functions.worker.client import patience
from functions.worker.queue import SqsQueue
from tests.events.samples import SETTINGS, Context, Stage
from tests.events.test_direct import again
from tests.ministack import shared
from tests.wire.scripted import program


def event_of(received: Any, arn: str) -> dict[str, Any]:
    """What Lambda makes of received messages."""
    return {
        "Records": [
            {"messageId": row["MessageId"], "body": row["Body"], "eventSource": "aws:sqs", "eventSourceARN": arn}
            for row in received["Messages"]
        ]
    }


def test_a_run_is_queued_taken_run_once_and_its_end_is_announced(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    session = shared().session()
    sqs = session.client("sqs", endpoint_url=shared().endpoint, config=patience())
    events = session.client("events", endpoint_url=shared().endpoint, config=patience())
    runs = sqs.create_queue(QueueName="bus-runs")["QueueUrl"]
    ends = sqs.create_queue(QueueName="bus-ends")["QueueUrl"]
    arns = [
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        for url in (runs, ends)
    ]
    pattern = json.dumps({"source": ["workroom"], "detail-type": ["run.finished"]})
    events.put_rule(Name="bus-ends", EventPattern=pattern, State="ENABLED")
    events.put_targets(Rule="bus-ends", Targets=[{"Id": "1", "Arn": arns[1]}])
    monkeypatch.setattr(worker, "_announcer", EventBridge("default", events))
    with environment.HERE.using(replace(stage.room, queue=SqsQueue(runs, sqs)), SETTINGS):
        started = direct.handler(stage.ask("exec.start", {"lang": "py", "code": program(stdout="late")}), Context())
        assert (started["status"], started["body"]["status"]) == (202, "running")
        run_id = started["body"]["id"]
        batch = event_of(sqs.receive_message(QueueUrl=runs, WaitTimeSeconds=5), arns[0])
        assert json.loads(batch["Records"][0]["body"]) == {"project": "first", "run_id": run_id}
        for _ in range(2):
            assert again(worker.handler(batch, Context())) == []
        assert stage.executor.started == 1
        found = direct.handler(stage.ask("runs.get", {"run_id": run_id}), Context())["body"]
        assert (found["status"], found["result"]["stdout"]) == ("finished", "late")
    told = json.loads(sqs.receive_message(QueueUrl=ends, WaitTimeSeconds=5)["Messages"][0]["Body"])
    assert (told["source"], told["detail-type"]) == ("workroom", "run.finished")
    assert told["detail"] == {"project": "first", "run_id": run_id, "status": "finished"}
