"""What gets lost between the parts of the deployment: the caller learns the truth, and nothing is half there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.caller import Api
from tests.e2e.stack import Stack
from tests.faults.proxy import CUT, HALF, LOST, PASS, Fault, dynamo, s3

THROTTLED_TABLE = Fault(delivered=False, answer=dynamo("ProvisionedThroughputExceededException"))
THROTTLED_BUCKET = Fault(delivered=False, answer=s3("SlowDown", 503))


def at_once(count: int, call: Callable[[int], httpx.Response]) -> list[httpx.Response]:
    """The answers of calls that are made at the same time."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count), timeout=90))


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


def test_runs_of_one_session_are_one_after_another_whichever_environment_takes_them(api: Api) -> None:
    session = api.run("bash", "echo 0 > n", user_id="counting")["session_id"]
    answers = at_once(
        4, lambda _: api.post("bash", "n=$(cat n); sleep .1; echo $((n+1)) > n", session, user_id="counting")
    )
    served = [answer.status_code for answer in answers].count(200)
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert served >= 1
    assert api.run("bash", "cat n", session, user_id="counting")["stdout"] == f"{served}\n"


def test_one_key_is_one_execution_whichever_environment_takes_it(api: Api) -> None:
    headers = {"Idempotency-Key": "race"}
    answers = at_once(4, lambda _: api.post("bash", "echo $RANDOM$RANDOM", headers=headers, user_id="counting"))
    ran = {answer.text for answer in answers if answer.status_code == 200}
    assert len(ran) == 1
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert api.post("bash", "echo $RANDOM$RANDOM", headers=headers, user_id="counting").text in ran


def test_more_runs_than_there_are_environments_are_told_when_to_come_again(api: Api) -> None:
    sent = at_once(6, lambda index: api.post("bash", "sleep 4; echo ran", user_id=f"crowd-{index}"))
    answers = [(answer.status_code, answer.headers.get("retry-after"), answer.text) for answer in sent]
    refused = [answer for answer in answers if answer[0] != 200]
    assert len(answers) - len(refused) >= 4, answers
    assert refused, answers
    for status, again, text in refused:
        assert (status, "rate_limited" in text) == (429, True), (status, text)
        assert again is not None
        assert int(again) >= 1
