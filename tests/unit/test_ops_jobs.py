"""Jobs that wait for a place: each key once, each project in turn, every place given back."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from shared.operations.jobs import Jobs
from shared.operations.room import Gate


def expect_set(what: threading.Event) -> None:
    assert what.wait(10)


def test_a_job_waits_for_a_place_and_each_key_waits_once() -> None:
    gate, jobs, done = Gate(1), Jobs(), []
    hold, ended = threading.Event(), threading.Event()
    with ThreadPoolExecutor(4) as pool:
        jobs.submit(gate, pool, "a", "first", lambda: expect_set(hold))
        for _ in range(3):
            jobs.submit(gate, pool, "a", "second", lambda: done.append(1))
        jobs.submit(gate, pool, "a", "third", ended.set)
        assert not done
        hold.set()
        expect_set(ended)
    assert done == [1]
    gate.take("a")


def test_a_project_that_waits_does_not_keep_another_from_its_place() -> None:
    gate, jobs = Gate(3, share=2), Jobs()
    hold, other = threading.Event(), threading.Event()
    with ThreadPoolExecutor(3) as pool:
        for number in range(20):
            jobs.submit(gate, pool, "a", str(number), lambda: expect_set(hold))
        jobs.submit(gate, pool, "b", "mine", other.set)
        expect_set(other)
        hold.set()


def test_a_place_that_others_give_back_is_seen() -> None:
    gate, jobs, begun = Gate(1), Jobs(), threading.Event()
    gate.take("a")
    with ThreadPoolExecutor(1) as pool:
        jobs.submit(gate, pool, "a", "mine", begun.set)
        assert not begun.is_set()
        gate.leave("a")
        expect_set(begun)


def test_a_job_that_fails_gives_its_place_back() -> None:
    gate, jobs, begun = Gate(1), Jobs(), threading.Event()

    def fail() -> None:
        raise ValueError("it fails")

    with ThreadPoolExecutor(1) as pool:
        jobs.submit(gate, pool, "a", "first", fail)
        jobs.submit(gate, pool, "a", "second", begun.set)
        expect_set(begun)
    gate.take("a")


def test_after_the_pool_nothing_is_begun() -> None:
    gate, jobs = Gate(1), Jobs()
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    begun: list[bool] = []
    jobs.submit(gate, pool, "a", "mine", lambda: begun.append(True))
    gate.take("a")
    assert begun == []


def test_what_was_asked_recently_is_told() -> None:
    jobs = Jobs()
    assert not jobs.recently("k", 0.05)
    assert jobs.recently("k", 60)
    assert not jobs.recently("other", 60)
    time.sleep(0.06)
    assert not jobs.recently("k", 0.05)
