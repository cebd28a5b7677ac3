"""A background run for which there is no thread has failed, and is never run: a pool keeps what it could not begin."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.fakes import Desk, House, Stop


def test_a_background_run_without_a_thread_fails_and_does_not_run_later(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ends = Stop(), Stop()

    def script(_: Desk) -> None:
        begun.set()
        ends.need()

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    house.room = replace(house.room, queue=None)
    house.executor.scripts["first"] = script
    first = house.do("exec.start", {"lang": "py", "code": "first"}).id
    begun.need()
    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", none)
        second = house.do("exec.start", {"lang": "py", "code": "second"}).id
    assert house.do("runs.get", {"run_id": second}).status == "failed"
    ends.set()
    house.room.background.shutdown(wait=True)
    assert house.do("runs.get", {"run_id": first}).status == "finished"
    assert house.do("runs.get", {"run_id": second}).status == "failed"
    assert [request.code for request in house.executor.requests] == ["first"]
    for _ in range(house.room.limits.project_runs):
        house.room.runs.take(house.project)
