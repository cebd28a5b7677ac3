"""A head and its Turn's row are two reads: what somebody else commits between them is met as a lost swap is (5.2, 5.4).

Each of these ended in a 500, or ended a worker: `BadTransition`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.operations import names
from shared.operations.agents import places
from shared.operations.agents.work import work
from shared.store.ports import Item, State
from tests.fakes import House


class Between:
    """A state in which something happens once, right before a Turn's row, or another one, is read."""

    def __init__(self, inner: State, happens: Callable[[], object], prefix: str) -> None:
        self._inner = inner
        self._prefix = prefix
        self._happens: list[Callable[[], object]] = [happens]

    def get(self, partition: str, sort: str) -> Item | None:
        """See State.get."""
        if sort.startswith(self._prefix) and self._happens:
            self._happens.pop()()
        return self._inner.get(partition, sort)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def say(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "agent.session.input.message", "input": [{"role": "user", "content": content}]}


CANCEL = {"type": "agent.session.input.cancel"}


def created(house: House) -> str:
    body = {"environment": {"type": "openai_hosted"}, "agent": {"model": "program:py"}, "input": "first"}
    return str(house.do("sessions.create", body).id)


def between(house: House, happens: Callable[[House], object], prefix: str = places.TURNS) -> House:
    """The same house to somebody who is overtaken by `happens`."""
    state = Between(house.room.state, lambda: happens(house), prefix)
    return replace(house, room=replace(house.room, state=state))


def turns(house: House, session: str) -> list[str]:
    return [turn.status for turn in house.do("turns.list", {"session_id": session, "order": "asc"}).data]


def ended(house: House, session: str) -> list[str]:
    """The ends of Turns that the event stream has."""
    partition = f"p/{house.project}/s/{session}"
    rows = house.room.state.query(partition, places.EVENTS, limit=100)
    kinds = [frame["type"].rpartition(".turn.")[2] for row in rows for frame in row.attributes["frames"]]
    return [kind for kind in kinds if kind in ("completed", "failed", "cancelled")]


@pytest.mark.parametrize("behind", [[], [say("second")]])
def test_a_cancel_that_another_one_overtakes_cancels_what_is_there_then(house: House, behind: list[Any]) -> None:
    session = created(house)

    def happens(first: House) -> None:
        for event in (CANCEL, *behind):
            first.do("events.create", {"session_id": session, "events": [event]})

    between(house, happens).do("events.create", {"session_id": session, "events": [CANCEL]})
    expected = ["cancelled"] * (1 + len(behind))
    assert turns(house, session) == expected
    assert ended(house, session) == expected


def test_a_cancel_that_comes_while_the_turn_is_taken_up_ends_it_and_no_worker(house: House) -> None:
    session = created(house)

    def happens(first: House) -> None:
        for event in (CANCEL, say("second")):
            first.do("events.create", {"session_id": session, "events": [event]})

    work(between(house, happens).room, house.project, session)
    assert turns(house, session) == ["cancelled", "completed"]
    assert [request.code for request in house.executor.requests] == ["second"]


def test_a_cancel_that_meets_the_turns_own_end_does_nothing(house: House) -> None:
    session = created(house)
    late = between(house, lambda first: work(first.room, first.project, session))
    late.do("events.create", {"session_id": session, "events": [CANCEL]})
    assert turns(house, session) == ["completed"]
    assert ended(house, session) == ["completed"]


def test_a_list_of_files_whose_session_is_deleted_meanwhile_is_404(house: House) -> None:
    """It was a 503, as if the workspace could not be read."""
    body = {"environment": {"type": "openai_hosted"}, "agent": {"model": "program:py"}}
    made = house.do("sessions.create", body)
    data = {"environment_id": made.environment["id"]}

    def happens(first: House) -> None:
        first.do("sessions.delete", {"session_id": made.id})
        first.room.state.delete_partition(f"p/{house.project}/s/{made.id}")

    late = between(house, happens, names.HEAD)
    with pytest.raises(Refusal) as refusal:
        late.do("environments.list_files", data)
    with pytest.raises(Refusal) as unknown:
        house.do("environments.list_files", {"environment_id": "env_" + "0" * 33})
    assert refusal.value.fault == unknown.value.fault
