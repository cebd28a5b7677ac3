"""A service that is told to end takes nothing with it but what was running (agents.md 11.36, 11.39)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.operations.agents.work import work
from shared.operations.room import Hands
from tests.fakes import Desk, House

SETUP = "touch prepared"


def created(house: House, **environment: Any) -> Any:
    hosted = {"type": "openai_hosted", **environment}
    return house.do("sessions.create", {"environment": hosted, "agent": {"model": "program:py"}, "input": "say"})


def turn(house: House, session: str) -> Any:
    (one,) = house.do("turns.list", {"session_id": session}).data
    return one


def next_service(house: House) -> None:
    """The same store, a process that is not told to end."""
    house.room = replace(house.room, hands=Hands())
    house.executor.scripts.clear()


def cut_off(house: House, code: int | None, reason: str) -> Callable[[Desk], None]:
    """The process ends while the command runs, and so does the command."""

    def script(_: Desk) -> None:
        house.executor.twist = lambda answer: replace(answer, code=code, reason=reason)  # type: ignore[arg-type]
        house.room.hands.stop_all()

    return script


@pytest.mark.parametrize(("code", "reason"), [(None, "stopped"), (143, "exit")])
def test_an_environment_whose_preparation_the_end_cut_off_is_prepared_by_the_next_service(
    house: House, code: int | None, reason: str
) -> None:
    """Each end used to count as an attempt, and both were made before the process was gone: failed for good."""
    made = created(house, setup_commands=[{"command": SETUP}])
    for _ in range(3):
        next_service(house)
        house.executor.scripts[SETUP] = cut_off(house, code, reason)
        work(house.room, "one", made.id)
        house.executor.twist = lambda answer: answer
        assert house.do("environments.get", {"environment_id": made.environment["id"]}).status == "pending"
        assert turn(house, made.id).status == "queued"
    assert len(house.executor.requests) == 3
    next_service(house)
    work(house.room, "one", made.id)
    assert house.do("environments.get", {"environment_id": made.environment["id"]}).status == "connected"
    assert turn(house, made.id).status == "completed"


def test_a_queued_turn_is_not_begun_by_a_service_that_ends(house: House) -> None:
    """Begun, it would only be cut off and fail; queued, the next service runs it."""
    made = created(house)
    house.room.hands.stop_all()
    work(house.room, "one", made.id)
    assert turn(house, made.id).status == "queued"
    assert house.executor.requests == []
    next_service(house)
    work(house.room, "one", made.id)
    assert turn(house, made.id).status == "completed"


def test_what_is_taken_in_hand_after_the_end_began_is_stopped() -> None:
    hands, stopped = Hands(), []
    hands.stop_all()
    with hands.hold("turn_1", lambda: stopped.append(True)):
        assert stopped == [True]
