"""A Turn that cannot end at once keeps its lease, and nobody else loses his by it (agents.md 11.36; DESIGN §5).

One thread beats for every Turn of a process. It waited for a Turn's step, and a step goes on for as long as others
move the Session's head: half a minute of deletions, and every Turn of every project had lapsed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from shared.domain.agents.head import Session
from shared.operations.agents import places, publishing
from shared.operations.agents.work import work
from tests.fakes import Desk, House


class Beats:
    """A heart that beats when told."""

    def __init__(self) -> None:
        self.beats: list[Callable[[], None]] = []

    @contextmanager
    def keep(self, beat: Callable[[], None]) -> Iterator[None]:
        """See Heart.keep."""
        self.beats.append(beat)
        yield


def created(house: House, script: Callable[[Desk], None]) -> str:
    house.executor.scripts["go"] = script
    body = {"environment": {"type": "openai_hosted"}, "agent": {"model": "program:py"}, "input": "go"}
    return str(house.do("sessions.create", body).id)


def writes(desk: Desk) -> None:
    for number in range(3):
        desk.write(f"outputs/{number}", f"{number}")


def until(house: House, session: str) -> int:
    item = house.room.state.get(f"p/{house.project}/s/{session}", places.HEAD)
    assert item is not None
    active = Session.of(item.attributes).active
    assert active is not None
    assert active.lock is not None
    return active.lock.until


def status(house: House, session: str) -> str:
    (turn,) = house.do("turns.list", {"session_id": session}).data
    return str(turn.status)


def test_a_beat_waits_for_no_step_and_the_step_goes_on_behind_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    heart = Beats()
    house.room = replace(house.room, heart=heart)  # type: ignore[arg-type]
    session = created(house, writes)
    whole = publishing.decide
    seen: list[tuple[bool, int]] = []

    def decide(*given: Any) -> Any:
        if not seen:
            before = until(house, session)
            house.clock.forward(1_000)
            beat = threading.Thread(target=heart.beats[0], daemon=True)
            beat.start()
            beat.join(10)
            seen.append((beat.is_alive(), until(house, session) - before))
        return whole(*given)

    monkeypatch.setattr(publishing, "decide", decide)
    work(house.room, house.project, session)
    assert seen == [(False, 1_000)]
    assert status(house, session) == "completed"
    assert len(house.do("artifacts.list", {"session_id": session}).data) == 3


def test_what_moves_the_head_costs_no_second_decision_unless_it_is_a_deletion(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deciding is slow where there are thousands of files, and what comes is quick: the Turn never came to its end."""
    session = created(house, writes)
    work(house.room, house.project, session)
    (_, _, first) = house.do("artifacts.list", {"session_id": session}).data
    steps = [
        lambda: house.do("sessions.update", {"session_id": session, "metadata": {"step": "1"}}),
        lambda: house.do("sessions.update", {"session_id": session, "metadata": {"step": "2"}}),
        lambda: house.do("artifacts.delete", {"session_id": session, "artifact_id": first.id}),
        lambda: house.do("sessions.update", {"session_id": session, "metadata": {"step": "3"}}),
    ]
    counts = {"decide": 0, "record": 0}
    whole = {name: getattr(publishing, name) for name in counts}

    def counted(name: str) -> Callable[..., Any]:
        def one(*given: Any, **more: Any) -> Any:
            counts[name] += 1
            if name == "decide":
                house.state.before = again
            return whole[name](*given, **more)

        return one

    def again(_: Any) -> None:
        if steps:
            steps.pop(0)()
            house.state.before = again

    for name in counts:
        monkeypatch.setattr(publishing, name, counted(name))
    content = [{"type": "input_text", "text": "go"}]
    message = {"type": "agent.session.input.message", "input": [{"role": "user", "content": content}]}
    house.do("events.create", {"session_id": session, "events": [message]})
    work(house.room, house.project, session)
    assert not steps
    assert counts == {"decide": 2, "record": 2}
    newest, *_ = house.do("turns.list", {"session_id": session}).data
    assert newest.status == "completed"
    paths = [row.path for row in house.do("artifacts.list", {"session_id": session}).data]
    assert paths.count(first.path) == 1
    assert len(paths) == 3
