"""Everything of one answer fits its time: the wait, the run, the commit (DESIGN §6)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.limits import Limits
from shared.operations.budget import Budget
from tests.fakes import Desk, House

RESERVE_MS = 3_000


def given(house: House) -> int:
    return house.executor.requests[-1].limits.wall_ms


def refused(call: Callable[[], object]) -> Failure:
    with pytest.raises(Failure) as refusal:
        call()
    return refusal.value


def test_without_a_bound_a_run_gets_what_it_asks_for(house: House) -> None:
    assert (house.run(timeout=300_000).stderr, given(house)) == ("", 300_000)
    assert (house.run().stderr, given(house)) == ("", 30_000)


def test_a_longer_timeout_is_shortened_and_stderr_says_so_in_one_line(build: Callable[..., House]) -> None:
    house = build(answer_ms=28_000, run_ms=20_000)
    answer = house.run(timeout=300_000)
    assert 24_000 <= given(house) <= 28_000 - RESERVE_MS
    assert answer.stderr == (
        f"workroom: the run time was limited to {given(house)} ms, not 300000 ms: an answer has to be ready in "
        "28000 ms\n"
    )
    assert (answer.code, answer.status) == (0, None)


def test_what_fits_is_not_told_of(build: Callable[..., House]) -> None:
    house = build(answer_ms=28_000, run_ms=20_000)
    for asked in (None, 1, 24_000):
        assert house.run(timeout=asked).stderr == ""
        assert given(house) == (asked or 20_000)


def test_a_default_that_is_cut_is_told_of_where_it_ended_the_program(build: Callable[..., House]) -> None:
    house = build(answer_ms=28_000, run_ms=30_000)
    assert house.run().stderr == ""
    assert given(house) < 30_000

    def script(desk: Desk) -> None:
        desk.stderr, desk.reason, desk.code = "ran out of time\n", "time", None

    answer = house.run(script)
    assert answer.status == "TO"
    assert re.fullmatch(
        r"ran out of time\nworkroom: the run time was limited to 2[45]\d00 ms, not 30000 ms: .*\n", answer.stderr
    )


def test_a_background_run_is_not_bounded(build: Callable[..., House]) -> None:
    house = build(answer_ms=8_000)
    record = house.do("exec.start", {"lang": "py", "code": "x", "timeout": 300_000})
    house.room.background.shutdown(wait=True)
    assert given(house) == 300_000
    assert house.do("runs.get", {"run_id": record.id}).result.stderr == ""


def test_a_wait_leaves_the_run_its_time_or_is_409(build: Callable[..., House]) -> None:
    house = build(answer_ms=4_400, lock_wait_ms=60_000)  # 400 ms of waiting, 1 s of running, 3 s for the rest
    session = house.put("a").session_id
    took: list[float] = []

    def script(desk: Desk) -> None:
        begun = time.monotonic()
        failure = refused(lambda: house.run(session_id=session))
        took.append(time.monotonic() - begun)
        assert (failure.code, failure.headers()) == (Code.BUSY, {"Retry-After": "1"})

    house.run(script, session_id=session)
    assert 0.2 <= took[0] <= 10
    assert house.run(session_id=session).code == 0


def test_the_wait_is_taken_from_the_run(build: Callable[..., House]) -> None:
    house = build(answer_ms=10_000, lock_wait_ms=60_000)
    session = house.put("a").session_id
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(house.run(code="x", session_id=session, timeout=7_000)))

    def script(desk: Desk) -> None:
        thread.start()
        time.sleep(0.6)

    house.run(script, session_id=session)
    thread.join(10)
    assert answers[0].code == 0
    assert 5_000 <= given(house) <= 6_500
    assert f"limited to {given(house)} ms, not 7000 ms" in answers[0].stderr


def test_uploads_and_deletions_wait_no_longer_than_an_answer_may_take(build: Callable[..., House]) -> None:
    house = build(answer_ms=4_200, lock_wait_ms=60_000)
    session = house.put("a").session_id

    def script(desk: Desk) -> None:
        begun = time.monotonic()
        assert refused(lambda: house.put("b", session_id=session)).code is Code.BUSY
        assert time.monotonic() - begun <= 10

    house.run(script, session_id=session)


@pytest.mark.parametrize(("asked", "runs"), [(30_000, False), (1_000, False), (900, True), (1, True)])
def test_a_program_gets_something_useful_or_is_not_run(build: Callable[..., House], asked: int, runs: bool) -> None:
    house = build(answer_ms=RESERVE_MS + 990)
    session = house.put("a").session_id
    if runs:
        assert house.run(session_id=session, timeout=asked).code == 0
        assert given(house) == asked
        return
    failure = refused(lambda: house.run(session_id=session, timeout=asked))
    assert (failure.code.status, failure.code) == (504, Code.EXECUTOR_TIMEOUT)
    assert house.executor.requests == []
    house.room = replace(house.room, limits=replace(house.room.limits, answer_ms=0))
    assert house.run(session_id=session).code == 0


def test_an_executor_that_takes_too_long_is_stopped_and_nothing_is_kept(build: Callable[..., House]) -> None:
    house = build(answer_ms=4_200)
    session = house.put("a", "1").session_id

    def script(desk: Desk) -> None:
        desk.write("a", "2")
        for _ in range(1_000):
            if house.executor.cancelled:
                break
            time.sleep(0.01)
        assert house.executor.cancelled == [desk.request.run_id]
        desk.reason, desk.code = "stopped", None

    begun = time.monotonic()
    failure = refused(lambda: house.run(script, session_id=session, timeout=1_000))
    assert 2.8 <= time.monotonic() - begun <= 9
    assert failure.code is Code.EXECUTOR_TIMEOUT
    assert house.text(session, "a") == "1"
    assert house.run(session_id=session).code == 0


def test_a_run_that_ended_in_time_is_not_stopped(build: Callable[..., House]) -> None:
    house = build(answer_ms=4_200)
    alarms: list[threading.Timer] = []

    def script(desk: Desk) -> None:
        alarms.extend(one for one in threading.enumerate() if isinstance(one, threading.Timer))

    house.run(script, timeout=1_000)
    assert len(alarms) == 1
    alarms[0].join(10)
    assert not alarms[0].is_alive(), "it ends with the run"
    assert house.executor.cancelled == []


def test_a_budget_counts_down(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("shared.operations.budget.time.monotonic", lambda: now)
    budget = Budget(10_000)
    limits = Limits(lock_wait_ms=330_000)
    assert (budget.left_ms(), budget.wait_ms(limits), budget.run_ms(7_000)) == (10_000, 6_000, 7_000)
    assert budget.run_ms(7_001) == 7_000
    assert budget.wait_ms(replace(limits, lock_wait_ms=5)) == 5
    now += 5.955
    assert budget.run_ms(7_000) == 1_000
    assert budget.wait_ms(limits) == 45
    now += 0.05
    assert refused(lambda: budget.run_ms(1_000)).code is Code.EXECUTOR_TIMEOUT
    assert budget.run_ms(995) == 995
    now += 100
    assert budget.wait_ms(limits) == 0
    assert refused(lambda: budget.run_ms(1)).code is Code.EXECUTOR_TIMEOUT
