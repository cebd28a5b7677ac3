"""What a run asks of the stores: the figures of docs/benchmarks.md and of the README's cost, which must not grow."""

from __future__ import annotations

import pytest

from tests.e2e.caller import Api
from tests.e2e.stack import Stack

LARGE = "head -c 52428800 /dev/zero > big"


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("echo hi", {}),
        ("echo hi > f", {"PutObject": 1}),
        ("for i in {1..100}; do echo $i > f$i; done", {"PutObject": 1}),
        (LARGE, {"PutObject": 1, "HeadObject": 1}),
    ],
    ids=["no files", "one small output", "100 files", "50 MiB"],
)
def test_a_run_in_a_new_session(api: Api, stack: Stack, code: str, more: dict[str, int]) -> None:
    api.run("bash", "true", user_id="counted")
    stack.proxy.reset()
    api.run("bash", code, user_id="counted")
    assert stack.proxy.counts() == {"GetItem": 1, "TransactWriteItems": 1, **more}


def test_a_run_in_a_session_takes_its_lock_and_commits(api: Api, stack: Stack) -> None:
    session = api.run("bash", "echo hi > f", user_id="counted")["session_id"]
    stack.proxy.reset()
    api.run("bash", "cat f", session, user_id="counted")
    assert stack.proxy.counts() == {"GetItem": 2, "TransactWriteItems": 2}


def test_a_cold_environment_reads_a_session_in_as_few_objects_as_it_has_packs(api: Api, stack: Stack) -> None:
    session = api.run("bash", "for i in {1..100}; do echo $i > f$i; done", user_id="counted")["session_id"]
    stack.proxy.reset()
    assert api.run("bash", "ls | wc -l", session, user_id="someone else")["stdout"] == "100\n"
    assert stack.proxy.counts()["GetObject"] == 1
