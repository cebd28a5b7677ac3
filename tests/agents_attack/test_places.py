"""More Turns than places: they stay queued, are served project by project, and outlive the process (K19, 11.36)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.executor.turns import Turns
from shared.operations.agents.dispatch import dispatch
from shared.operations.agents.work import work
from shared.operations.keys import put_key
from shared.operations.room import Hands
from tests.fakes import Desk, FakeExecutor, House, Stop, make_room, shut
from tests.wire.service import expect_eventually


class OnePlace(FakeExecutor):
    """An executor in which one program runs at once, and `order` is what ran."""

    def __init__(self, objects: Any) -> None:
        super().__init__(objects)
        self.turns = Turns(1)

    def place(self, share: str) -> AbstractContextManager[bool]:
        """See Executor.place."""
        return self.turns.turn(share)

    def run(self, request: Any, output: Any = None) -> Any:
        """See Executor.run."""
        with self.turns.turn(request.share) as mine:
            assert mine
            return super().run(request, output)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A room whose background threads work, with one place, and a second project."""
    made = make_room(tmp_path)
    made.executor = OnePlace(made.objects)
    made.room = replace(made.room, executor=made.executor)
    for name in ("one", "two"):
        put_key(made.room, name, {"id": name, "project": name, "name": "", "created": 0, "until": None})
    yield made
    made.executor.turns.close()
    shut(made)


def say(house: House, text: str, project: str = "one") -> str:
    """A Session whose Turn runs that text."""
    body = {"environment": {"type": "openai_hosted"}, "agent": {"model": "program:py"}, "input": text}
    return str(house.do("sessions.create", body, project=project).id)


def status(house: House, session: str, project: str = "one") -> str:
    (turn,) = house.do("turns.list", {"session_id": session}, project=project).data
    return str(turn.status)


def held(house: House, text: str) -> tuple[str, Stop]:
    """A Session whose program runs until the event."""
    begun, ends = Stop(), Stop()

    def script(_: Desk) -> None:
        begun.set()
        ends.need()

    house.executor.scripts[text] = script
    session = say(house, text)
    begun.need()
    return session, ends


def test_a_turn_without_a_place_is_queued_and_a_new_process_runs_it(house: House) -> None:
    first, ends = held(house, "first")
    second = say(house, "second")
    waiting: Any = house.executor
    expect_eventually(lambda: len(waiting.turns._waiting) == 1)
    for _ in range(3):
        # Whoever sees it waiting sends for a worker again, and there is one.
        dispatch(house.room, "one", second, work)
        assert (status(house, first), status(house, second)) == ("in_progress", "queued")
    assert len(waiting.turns._waiting["one"]) == 1
    house.room.hands.stop_all()
    waiting.turns.close()
    ends.set()
    expect_eventually(lambda: waiting.turns.running == 0)
    assert status(house, second) == "queued"
    again = FakeExecutor(house.objects)
    new = replace(house.room, hands=Hands(), executor=again)
    work(new, "one", second)
    assert status(house, second) == "completed"
    assert [request.code for request in again.requests] == ["second"]


def test_a_queued_turn_is_cancelled_while_it_has_no_place(house: House) -> None:
    _, ends = held(house, "first")
    second = say(house, "second")
    cancel = {"session_id": second, "events": [{"type": "agent.session.input.cancel"}]}
    house.do("events.create", cancel)
    assert status(house, second) == "cancelled"
    ends.set()
    third = say(house, "third")
    expect_eventually(lambda: status(house, third) == "completed")
    assert [request.code for request in house.executor.requests] == ["first", "third"]


def test_another_projects_turn_waits_for_one_place_and_not_for_all(house: House) -> None:
    _, ends = held(house, "first")
    mine = [say(house, f"mine {number}") for number in range(10)]
    waiting: Any = house.executor
    expect_eventually(lambda: len(waiting.turns._waiting["one"]) == 10)
    other = say(house, "theirs", "two")
    expect_eventually(lambda: "two" in waiting.turns._waiting)
    ends.set()
    for session in mine:
        expect_eventually(lambda session=session: status(house, session) == "completed")
    assert status(house, other, "two") == "completed"
    ran = [request.code for request in house.executor.requests]
    assert ran.index("theirs") <= 2
    assert sorted(ran) == sorted(["first", "theirs", *(f"mine {number}" for number in range(10))])
