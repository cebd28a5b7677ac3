"""Places for runs: bounded in all, and no project takes every one (cases.md K19). And who is asked before what."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.operations.base import Call, operations
from shared.operations.room import Gate
from tests.fakes import House, Stop


def full(gate: Gate, project: str) -> Failure:
    with pytest.raises(Failure) as refusal:
        gate.take(project)
    return refusal.value


def test_K19_a_project_takes_its_share_and_another_finds_places() -> None:
    gate = Gate(4, 2)
    gate.take("one")
    gate.take("one")
    failure = full(gate, "one")
    assert failure.code is Code.RATE_LIMITED
    assert failure.headers() == {"Retry-After": "2"}
    assert failure.body()["retry_after_seconds"] == 2
    gate.take("two")
    assert full(gate, "two").code is Code.RATE_LIMITED
    gate.take("three")
    assert full(gate, "four").code is Code.RATE_LIMITED
    gate.leave("one")
    gate.take("four")
    gate.leave("two")
    gate.leave("three")
    gate.take("one")


def test_K19_projects_that_take_all_they_can_get_leave_a_place_to_the_next_one() -> None:
    gate = Gate(256, 128)
    got = []
    for number in range(8):
        taken = 0
        with contextlib.suppress(Failure):
            while True:
                gate.take(str(number))
                taken += 1
        got.append(taken)
    assert got == [128, 64, 32, 16, 8, 4, 2, 1]


@pytest.mark.parametrize("share", [None, 3, 9])
def test_without_a_share_of_its_own_a_project_may_take_all(share: int | None) -> None:
    gate = Gate(3, share)
    for _ in range(3):
        gate.take("one")
    assert full(gate, "one").code is Code.RATE_LIMITED


def test_a_place_is_given_back_whatever_happens_and_only_once() -> None:
    gate = Gate(1)
    with pytest.raises(RuntimeError), gate.enter("one"):
        raise RuntimeError
    with gate.enter("two"):
        assert full(gate, "one").code is Code.RATE_LIMITED
    for project in ("one", "two"):
        with pytest.raises(ValueError, match="twice"):
            gate.leave(project)


def test_places_are_counted_by_many_threads_alike() -> None:
    gate, most = Gate(8, 5), 0
    inside, lock = 0, threading.Lock()
    refusals = 0

    def work() -> None:
        nonlocal inside, most, refusals
        for _ in range(300):
            try:
                with gate.enter("one"):
                    with lock:
                        inside += 1
                        most = max(most, inside)
                    with lock:
                        inside -= 1
            except Failure:
                with lock:
                    refusals += 1

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most <= 5
    for _ in range(5):
        gate.take("one")
    assert full(gate, "one").code is Code.RATE_LIMITED


def test_K19_a_project_that_runs_too_much_harms_no_other(build: Callable[..., House]) -> None:
    house = build(run_queue=4, project_runs=2)
    go = Stop()
    house.executor.scripts["long"] = lambda desk: go.need()
    try:
        ids = [house.do("exec.start", {"lang": "py", "code": "long"}).id for _ in range(2)]
        for name in ("exec.start", "exec.run"):
            with pytest.raises(Failure) as refusal:
                house.do(name, {"lang": "py", "code": "x"})
            assert refusal.value.code is Code.RATE_LIMITED
        assert house.run(project="two").code == 0
    finally:
        go.set()
    house.room.background.shutdown(wait=True)
    assert [house.do("runs.get", {"run_id": run_id}).status for run_id in ids] == ["finished", "finished"]
    assert house.run().code == 0


CLOSED = [name for name, one in operations().items() if not one.open]


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("data", [{}, None, [], {"nonsense": 1}, "x"])
def test_K14_nobody_is_refused_before_the_input_is_looked_at(house: House, name: str, data: Any) -> None:
    with pytest.raises(Failure) as refusal:
        operations()[name].call_with(house.room, Call(None), data)
    assert refusal.value.code is Code.FORBIDDEN
    assert house.state.transactions == []


def test_an_open_operation_answers_nobody(house: House) -> None:
    assert operations()["health.get"].call_with(house.room, Call(None), {}).status == "ok"


def test_an_admitted_caller_is_told_what_is_wrong_with_the_input(house: House) -> None:
    run = operations()["exec.run"]
    for data, field in (({}, "lang"), ({"lang": "py", "code": "x", "other": 1}, "other")):
        with pytest.raises(Failure) as refusal:
            run.call_with(house.room, house.call(), data)
        assert refusal.value.field == field
    answer = run.call_with(house.room, house.call(), {"lang": "py", "code": "x", "other": 1}, closed=False)
    assert answer.code == 0
