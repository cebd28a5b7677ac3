"""Health: alive or not to anyone, each part to an admitted caller (issue 2, cases.md G8, F19)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.operations.all import operations
from shared.operations.base import Call
from shared.store.ports import StoreUnavailable
from tests.fakes import House


def test_anyone_learns_that_it_is_alive_and_nothing_else(house: House) -> None:
    health = operations()["health.get"]
    house.executor.unreachable = True
    answer = health.run(house.room, Call(None), health.parse({}))
    assert json.loads(answer.model_dump_json()) == {"status": "ok"}
    assert house.state.gets == 0


def test_an_admitted_caller_learns_of_each_part(house: House) -> None:
    assert json.loads(house.do("health.get").model_dump_json()) == {
        "status": "ok",
        "store": {"ready": True},
        "executor": {"ready": True, "running": 0, "capacity": 4},
        "languages": {
            "py": {"present": True, "version": "Python 3.13.5"},
            "d": {"present": False, "version": "", "packages": "gdc"},
        },
        "layers": {"clean": {"active": True, "required": True, "detail": "descriptors closed"}},
    }


def test_an_executor_that_cannot_run_is_degraded_and_says_why(house: House) -> None:
    house.executor.ready = False
    answer = house.do("health.get")
    assert (answer.status, answer.executor.ready) == ("degraded", False)
    assert "memory" in answer.executor.why
    assert answer.languages["py"].present


def test_G8_an_executor_that_cannot_be_reached_is_degraded(house: House) -> None:
    house.executor.unreachable = True
    answer = house.do("health.get")
    assert (answer.status, answer.executor.ready, answer.executor.why) == ("degraded", False, "it ended")
    assert (answer.languages, answer.layers) == ({}, {})


@pytest.mark.parametrize("part", ["state", "objects"])
def test_a_store_that_fails_is_degraded(house: House, part: str) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable

    if part == "state":
        house.state.get = fails  # type: ignore[method-assign]
    else:
        house.objects.head = fails  # type: ignore[method-assign]
    answer = house.do("health.get")
    assert (answer.status, answer.store.ready, answer.executor.ready) == ("degraded", False, True)
