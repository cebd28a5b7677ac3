"""A message that is given back comes again soon, though the queue hides what is worked on for an hour and a half."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from functions import giveback
from functions.batch import each
from functions.worker.client import patience
from shared.limits import Limits
from tests.events.samples import Context
from tests.ministack import ministack
from tests.template.reading import load

ARN = "arn:aws:sqs:eu-central-1:123456789012:runs"
URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/runs"


def row(name: str, tries: object = "1", **more: Any) -> dict[str, Any]:
    return {
        "messageId": name, "receiptHandle": f"handle {name}", "eventSource": "aws:sqs", "eventSourceARN": ARN,
        "attributes": {"ApproximateReceiveCount": tries}, "body": "{}", **more,
    }  # fmt: skip


def stubbed() -> tuple[Any, Stubber]:
    made = boto3.client(
        "sqs", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x", config=patience()
    )
    return made, Stubber(made)


def expect(stub: Stubber, name: str, seconds: int) -> None:
    asked = {"QueueUrl": URL, "ReceiptHandle": f"handle {name}", "VisibilityTimeout": seconds}
    stub.add_response("change_message_visibility", {}, asked)


def test_only_what_is_given_back_comes_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    made, stub = stubbed()
    monkeypatch.setattr(giveback, "_client", lambda region: made)
    with stub:
        expect(stub, "bad", 30)
        expect(stub, "bad too", 120)
        rows = [row("good"), row("bad"), row("fine"), row("bad too", "2")]
        answer = each(rows, Context(), lambda one: not one["messageId"].startswith("bad"))
        stub.assert_no_pending_responses()
    assert [one["itemIdentifier"] for one in answer["batchItemFailures"]] == ["bad", "bad too"]


def test_three_tries_lie_within_the_time_that_a_run_waits_and_five_outlast_half_an_hour() -> None:
    waits = [giveback.wait_s(tries) for tries in range(1, 5)]
    assert waits == sorted(waits)
    assert sum(waits[:3]) * 1000 < Limits().queue_ms
    assert sum(waits) > 1_800
    assert giveback.wait_s(10**8) <= 43_200  # the longest that SQS takes


@pytest.mark.parametrize("tries", [None, "", "x", "-1", "9" * 400, 3, {}])
def test_a_count_that_is_none_is_a_first_try(tries: object) -> None:
    made, stub = stubbed()
    with stub:
        expect(stub, "m", 30)
        giveback.soon([row("m", tries)], made)
        stub.assert_no_pending_responses()


def test_a_queue_that_refuses_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made, stub = stubbed()
    monkeypatch.setattr(giveback, "_client", lambda region: made)
    with stub:
        stub.add_client_error("change_message_visibility", "AccessDenied")
        answer = each([row("m"), row("n")], Context(), lambda _: False)
        stub.assert_no_pending_responses()
    assert [one["itemIdentifier"] for one in answer["batchItemFailures"]] == ["m", "n"]
    odd = [row("m", eventSourceARN="x"), row("m", receiptHandle=None), {"messageId": "m"}]
    assert len(each(odd, Context(), lambda _: False)["batchItemFailures"]) == 3


def test_a_queue_of_the_template_shows_a_message_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giveback, "FIRST_S", 0)
    hidden = str(load()["Resources"]["RunQueue"]["Properties"]["VisibilityTimeout"])
    with ministack() as aws:
        queues = aws.session().client("sqs", endpoint_url=aws.endpoint)
        url = queues.create_queue(QueueName="runs", Attributes={"VisibilityTimeout": hidden})["QueueUrl"]
        arn = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        queues.send_message(QueueUrl=url, MessageBody=json.dumps({}), MessageGroupId="first")
        (got,) = queues.receive_message(QueueUrl=url)["Messages"]
        assert "Messages" not in queues.receive_message(QueueUrl=url)
        giveback.soon([row("m", receiptHandle=got["ReceiptHandle"], eventSourceARN=arn)], queues)
        (again,) = queues.receive_message(QueueUrl=url)["Messages"]
        assert again["MessageId"] == got["MessageId"]
