"""Work that waits for a place is begun project by project, and none of it is lost or done twice (cases.md K19)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shared.operations.jobs import Jobs
from shared.operations.room import Gate

WAIT_S = 20


class Counting(Gate):
    """A gate that counts."""

    taken = left = 0

    def take(self, project: str) -> None:
        super().take(project)
        self.taken += 1

    def leave(self, project: str) -> None:
        self.left += 1
        super().leave(project)


class Held:
    """Jobs that tell that they have begun, and run until they are let go."""

    def __init__(self) -> None:
        self.begun: queue.Queue[str] = queue.Queue()
        self._ends: dict[str, threading.Event] = {}

    def job(self, name: str) -> Callable[[], None]:
        ends = self._ends[name] = threading.Event()

        def run() -> None:
            self.begun.put(name)
            assert ends.wait(WAIT_S)

        return run

    def next(self) -> str:
        return self.begun.get(timeout=WAIT_S)

    def end(self, name: str) -> None:
        self._ends[name].set()

    def end_all(self) -> None:
        for ends in self._ends.values():
            ends.set()


def test_two_projects_with_a_backlog_do_not_keep_a_third_from_its_first_place() -> None:
    """Each free place used to go to the project that had waited first, for as long as it had more to do."""
    gate, jobs, held = Gate(2), Jobs(), Held()
    with ThreadPoolExecutor(2) as pool:
        for number in range(6):
            for project in ("a", "b"):
                name = f"{project}{number}"
                jobs.submit(gate, pool, project, name, held.job(name))
        first = [held.next() for _ in range(2)]
        jobs.submit(gate, pool, "c", "c0", held.job("c0"))
        begun = list(first)
        for ended in range(3):
            held.end(begun[ended])
            begun.append(held.next())
        held.end_all()
    assert first == ["a0", "b0"]
    assert "c0" in begun


def test_a_thread_that_cannot_be_started_loses_no_job_and_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool keeps a job that it could find no thread for: its place was given back twice, by it and by us."""
    gate, jobs, done = Counting(2), Jobs(), queue.Queue[str]()
    hold = threading.Event()
    start = threading.Thread.start
    broken = threading.Event()

    def starts(thread: threading.Thread) -> None:
        if broken.is_set():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)

    def first() -> None:
        done.put("first")
        assert hold.wait(WAIT_S)

    with ThreadPoolExecutor(2) as pool:
        jobs.submit(gate, pool, "a", "first", first)
        assert done.get(timeout=WAIT_S) == "first"
        broken.set()
        jobs.submit(gate, pool, "a", "second", lambda: done.put("second"))
        broken.clear()
        hold.set()
        jobs.submit(gate, pool, "a", "third", lambda: done.put("third"))
        assert {done.get(timeout=WAIT_S), done.get(timeout=WAIT_S)} == {"second", "third"}
    assert done.empty()
    assert gate.taken == gate.left


def test_a_pump_that_cannot_be_started_is_started_by_the_next_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted as running for ever, so that nothing that waited was begun any more."""
    gate, jobs, done = Gate(1), Jobs(), queue.Queue[str]()
    start = threading.Thread.start

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with ThreadPoolExecutor(1) as pool:
        gate.take("b")
        monkeypatch.setattr(threading.Thread, "start", none)
        _submitted(jobs, gate, pool, "mine", done)
        monkeypatch.setattr(threading.Thread, "start", start)
        _submitted(jobs, gate, pool, "other", done)
        gate.leave("b")
        assert {done.get(timeout=WAIT_S), done.get(timeout=WAIT_S)} == {"mine", "other"}


def _submitted(jobs: Jobs, gate: Gate, pool: ThreadPoolExecutor, name: str, done: queue.Queue[Any]) -> None:
    jobs.submit(gate, pool, "a", name, lambda: done.put(name))
