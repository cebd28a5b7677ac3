"""What gets lost between the parts of the deployment: the caller learns the truth, and nothing is half there."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.e2e.caller import Api
from tests.e2e.stack import Stack
from tests.faults.proxy import CUT, HALF, LOST, PASS, Fault, dynamo, s3

THROTTLED_TABLE = Fault(delivered=False, answer=dynamo("ProvisionedThroughputExceededException"))
THROTTLED_BUCKET = Fault(delivered=False, answer=s3("SlowDown", 503))


@pytest.fixture(autouse=True)
def _restored(stack: Stack) -> Iterator[None]:
    stack.proxy.reset()
    yield
    assert stack.proxy.left() == 0, "a planned loss did not happen"
    stack.proxy.reset()


@pytest.mark.parametrize("loss", [LOST, CUT, HALF], ids=["lost", "cut", "half"])
def test_a_commit_whose_answer_is_lost_has_one_effect(api: Api, stack: Stack, loss: Fault) -> None:
    session = api.run("bash", "echo 0 > n")["session_id"]
    stack.proxy.plan("TransactWriteItems", loss, PASS, loss)
    ran = api.run("bash", "echo x >> n", session)
    assert ran["code"] == 0
    assert api.run("bash", "cat n", session)["stdout"] == "0\nx\n"


def test_an_object_whose_answer_is_lost_is_stored_once(api: Api, stack: Stack) -> None:
    stack.proxy.plan("PutObject", LOST)
    ran = api.run("bash", "echo kept > f")
    assert api.run("bash", "cat f", ran["session_id"])["stdout"] == "kept\n"


def test_throttled_stores_are_asked_again(api: Api, stack: Stack) -> None:
    stack.proxy.plan("GetItem", THROTTLED_TABLE, THROTTLED_TABLE)
    stack.proxy.plan("PutObject", THROTTLED_BUCKET)
    assert api.run("bash", "echo kept > f")["code"] == 0


def test_a_store_that_stays_away_is_503_and_nothing_is_kept(api: Api, stack: Stack) -> None:
    session = api.run("bash", "echo before > f")["session_id"]
    stack.proxy.always("PutObject", THROTTLED_BUCKET)
    answer = api.post("bash", "echo after > f", session)
    assert answer.status_code == 503
    assert answer.json()["error"] == "store_unavailable"
    stack.proxy.reset()
    assert api.run("bash", "cat f", session)["stdout"] == "before\n"


def test_an_executor_that_dies_is_502_and_nothing_is_kept(api: Api) -> None:
    """Where no filter can be loaded, a program can end the runtime that started it (platform.md)."""
    session = api.run("bash", "echo before > f", user_id="killer")["session_id"]
    answer = api.post("bash", "echo after > f; kill -9 -1", session, user_id="killer")
    assert (answer.status_code, answer.json()["error"]) == (502, "executor_failed")
    assert api.run("bash", "cat f", session, user_id="killer")["stdout"] == "before\n"


def test_more_runs_than_there_are_environments_are_told_when_to_come_again(api: Api) -> None:
    answers: list[tuple[int, str | None, str]] = []

    def one(index: int) -> None:
        answer = api.post("bash", "sleep 4; echo ran", user_id=f"crowd-{index}")
        answers.append((answer.status_code, answer.headers.get("retry-after"), answer.text))

    threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert not any(thread.is_alive() for thread in threads)
    refused = [answer for answer in answers if answer[0] != 200]
    assert len(answers) - len(refused) >= 4, answers
    assert refused, answers
    for status, again, text in refused:
        assert (status, "rate_limited" in text) == (429, True), (status, text)
        assert again is not None
        assert int(again) >= 1
