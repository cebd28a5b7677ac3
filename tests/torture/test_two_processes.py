"""Two processes on one store, neither of them the other's successor: what one does to a Turn that the other runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.agents_errors import Refusal
from shared.domain.session import Owner
from shared.operations.room import Room
from tests.contract.adapters import ADAPTERS, rounds
from tests.torture.place import CANCEL, Act, Scripted, Talk, make, message, talk, until


@dataclass
class Pair:
    """Two rooms on the same stores, each with an executor of its own."""

    adapter: str
    here: Room
    there: Room
    ran: list[tuple[str, str]]


@pytest.fixture(params=sorted(ADAPTERS))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    with ADAPTERS[request.param](tmp_path) as (state, objects):
        rooms = [make(state, objects, Scripted(objects), owner=Owner(name, name + "1")) for name in ("here", "there")]
        yield Pair(request.param, rooms[0], rooms[1], [])
        for room in rooms:
            room.hands.stop_all()
            room.background.shutdown(wait=True, cancel_futures=True)


def scripted(room: Room) -> Scripted:
    assert isinstance(room.executor, Scripted)
    return room.executor


def test_11_35_a_cancel_from_elsewhere_stands_at_once_and_the_late_result_is_fenced_out(pair: Pair) -> None:
    begun, go = threading.Event(), threading.Event()

    def act(act: Act) -> None:
        act.print("begun\n")
        begun.set()
        go.wait(20)
        act.desk.write("outputs/late", "late")

    scripted(pair.here).acts["go"] = act
    one = talk(pair.here)
    turn = one.say("go")
    assert begun.wait(10)
    other = Talk(pair.there, one.session)
    other.send(CANCEL, message("next"))
    assert other.turn(turn)["status"] == "cancelled", "it stands before the 202"
    other.need_idle()
    assert [row["status"] for row in other.turns()] == ["cancelled", "completed"]
    assert [request.code for request in scripted(pair.there).requests] == ["next"]
    go.set()
    until(lambda: not scripted(pair.here).running)
    time.sleep(0.3)
    assert other.artifacts() == []
    assert other.files() == {}
    other.verify()


def test_a_program_whose_turn_was_cancelled_elsewhere_stops_when_it_speaks(pair: Pair) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def act(act: Act) -> None:
        begun.set()
        for _ in range(200):
            act.print("word\n")
            if act.stopped.wait(0.05):
                stopped.set()
                return

    scripted(pair.here).acts["go"] = act
    one = talk(pair.here)
    turn = one.say("go")
    assert begun.wait(10)
    other = Talk(pair.there, one.session)
    other.send(CANCEL)
    assert other.turn(turn)["status"] == "cancelled"
    assert stopped.wait(3), "the program runs on"
    other.need_idle()
    other.verify()


def test_both_send_and_nothing_is_lost_or_run_twice(pair: Pair) -> None:
    """Messages and cancels from both at once: what was admitted runs at most once, and the log is sound."""
    one = talk(pair.here)
    talks = [one, Talk(pair.there, one.session)]
    admitted: list[str] = []
    lock = threading.Lock()

    def sender(who: int) -> None:
        for number in range(rounds(pair.adapter, 25, 8)):
            text = f"{who}-{number}"
            events = [CANCEL, message(text)] if number % 3 == 2 else [message(text)]
            ends = time.monotonic() + 30
            while time.monotonic() < ends:
                try:
                    talks[who].send(*events)
                except Refusal:
                    time.sleep(0.01)
                    continue
                with lock:
                    admitted.append(text)
                break
            time.sleep(0.01 * (number % 4))

    for room in (pair.here, pair.there):
        for number in range(30):
            for who in (0, 1):
                scripted(room).acts[f"{who}-{number}"] = lambda act: act.stopped.wait(0.03)
    threads = [threading.Thread(target=sender, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    one.need_idle(60)
    one.verify()
    ran = [request.code for room in (pair.here, pair.there) for request in scripted(room).requests]
    assert len(ran) == len(set(ran)), "an input ran twice"
    assert set(ran) <= set(admitted)
    said = [item["content"][0]["text"] for item in one.items() if item.get("role") == "user"]
    assert len(said) == len(set(said))
    completed = {turn["id"] for turn in one.turns() if turn["status"] == "completed"}
    users = [item for item in one.items() if item.get("role") == "user"]
    assert {item["content"][0]["text"] for item in users if item["turn_id"] in completed} <= set(ran)
    cancelled = [turn for turn in one.turns() if turn["status"] == "cancelled"]
    if not cancelled:
        assert sorted(said) == sorted(admitted)
    assert {turn["status"] for turn in one.turns()} <= {"completed", "cancelled"}
