"""A completion is seen whole or not at all, on each store, with deletions racing (agents.md 11.28)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.operations.agents import places
from shared.operations.room import Room, now_ms
from shared.store.ports import Action, PutNew, State
from tests.contract.adapters import ADAPTERS
from tests.fakes import Clock
from tests.torture.place import Act, Scripted, Talk, make, staged, talk

MANY = 4_096


class Hooked:
    """A state port that calls back before the transaction that completes a Turn."""

    def __init__(self, inner: State) -> None:
        self.inner = inner
        self.before: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def transact(self, actions: Sequence[Action]) -> list[int]:
        ends = any(not isinstance(one, PutNew) and one.sort == "head" for one in actions) and any(
            one.sort.startswith(places.TURNS) for one in actions
        )
        if ends and self.before and not any(one.sort.startswith("batch/") for one in actions):
            self.before.pop(0)()
        return self.inner.transact(actions)


@pytest.fixture(params=sorted(ADAPTERS))
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    """A room on each store, with a scripted executor."""
    with ADAPTERS[request.param](tmp_path) as (state, objects):
        made = make(Hooked(state), objects, Scripted(objects))
        yield made
        made.hands.stop_all()
        made.background.shutdown(wait=True, cancel_futures=True)


def leaves(room: Room, code: str, act: Callable[[Act], object]) -> None:
    assert isinstance(room.executor, Scripted)
    room.executor.acts[code] = act


def fill(act: Act, count: int) -> None:
    """The same files each time."""
    for number in range(count):
        act.desk.write(f"outputs/{number}", "same")


class Poller:
    """Reads a Turn and its Artifacts over and over, in one of the orders."""

    def __init__(self, one: Talk, turn: str, *, turn_first: bool) -> None:
        self.seen: list[tuple[str, int]] = []
        self.error: BaseException | None = None
        self._one, self._turn, self._first = one, turn, turn_first
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _count(self) -> int:
        page = self._one.do("artifacts.list", limit=100)
        return len(self._one.artifacts()) if page["data"] and len(self.seen) % 8 == 0 else len(page["data"])

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                if self._first:
                    status = self._one.turn(self._turn)["status"]
                    count = self._count()
                else:
                    count = self._count()
                    status = self._one.turn(self._turn)["status"]
                self.seen.append((status, count))
        except BaseException as error:
            self.error = error

    def close(self) -> None:
        self._over.set()
        self._thread.join(60)
        assert self.error is None
        assert not self._thread.is_alive()


def test_11_28_a_reader_sees_nothing_or_all(room: Room) -> None:
    def act(act: Act) -> None:
        for number in range(MANY):
            act.desk.write(f"outputs/{number:04}", str(number))
        time.sleep(0.3)

    leaves(room, "go", act)
    one = talk(room)
    turn = one.say("go")
    pollers = [Poller(one, turn, turn_first=first) for first in (True, False)]
    assert one.need_over(turn, 100)["status"] == "completed"
    time.sleep(0.3)
    for poller in pollers:
        poller.close()
    first, second = (poller.seen for poller in pollers)
    assert {count for _, count in first + second} <= {0, 100, MANY}
    assert all(count for status, count in first if status == "completed"), "completed, and nothing there"
    assert all(status == "completed" for status, count in second if count), "there before it was completed"
    assert any(status != "completed" for status, _ in first)
    assert any(count for _, count in first)
    assert len(one.artifacts()) == MANY
    assert len({row["id"] for row in one.artifacts()}) == MANY
    one.verify()


def test_11_28_a_deletion_at_the_last_moment_is_decided_on_again(room: Room) -> None:
    leaves(room, "go", lambda act: fill(act, 3))
    one = talk(room)
    assert one.run("go")["status"] == "completed"
    old = {row["path"]: row["id"] for row in one.artifacts()}
    victims = iter(sorted(old.values())[:2])

    def delete() -> None:
        one.do("artifacts.delete", artifact_id=next(victims))

    hooked: Any = room.state
    hooked.before = [lambda: None, delete, delete]
    turn = one.run("again")
    assert turn["status"] == "completed"
    assert hooked.before == []
    rows = one.artifacts()
    assert sorted(row["path"] for row in rows) == sorted(old)
    assert sum(row["turn_id"] == turn["id"] for row in rows) == 2
    assert not {row["id"] for row in rows} & set(sorted(old.values())[:2])
    one.verify()


def test_11_28_deletions_race_with_completions(room: Room) -> None:
    """Whatever wins: of each path one Artifact remains, or none where the deletion came behind the completion."""
    leaves(room, "go", lambda act: fill(act, 20))
    one = talk(room)
    assert one.run("go")["status"] == "completed"
    for _ in range(4):
        doomed = one.artifacts()
        before_end: list[str] = []
        turn = one.say("again")

        def delete(rows: list[dict[str, Any]], turn: str = turn, kept: list[str] = before_end) -> None:
            for row in rows:
                one.do("artifacts.delete", artifact_id=row["id"])
                if one.turn(turn)["status"] == "queued":
                    kept.append(row["path"])

        threads = [threading.Thread(target=delete, args=(doomed[half::2],)) for half in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert one.need_over(turn)["status"] == "completed"
        rows = one.artifacts()
        paths = [row["path"] for row in rows]
        assert len(set(paths)) == len(paths)
        assert set(before_end) <= set(paths)
        assert not {row["id"] for row in rows} & {row["id"] for row in doomed}
        one.verify()
        assert one.run("last")["status"] == "completed"
        assert len(one.artifacts()) == 20


def test_11_38_expiry_once_never_while_anything_goes_on_and_artifacts_stay(tmp_path: Path) -> None:
    clock = Clock()
    with staged(tmp_path, clock, environment_ms=10_000, lease_ms=100_000) as stage:
        one = talk(stage.room)
        begun, go = threading.Event(), threading.Event()

        def act(act: Act) -> None:
            act.desk.write("outputs/a", "a")
            begun.set()
            go.wait(20)

        stage.executor.acts["go"] = act
        environment = one.do("sessions.get")["environment"]["id"]

        def status() -> str:
            found: str = Talk(stage.room, one.session).do("sessions.get")["environment"].get("status", "")
            return found or one.found.head.environment.status

        turn = one.say("go")
        assert begun.wait(10)
        clock.forward(50_000)
        assert status() == "connected"
        assert one.turn(turn)["status"] == "in_progress"
        go.set()
        assert one.need_over(turn)["status"] == "completed"
        clock.forward(9_999)
        assert status() == "connected"
        clock.forward(1)
        threads = [threading.Thread(target=status) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert status() == "expired"
        kinds = [frame["type"] for frame in one.log()]
        assert kinds.count("agent.session.environment.expired") == 1
        assert kinds[-1] == "agent.session.environment.expired"
        assert one.files() == {}
        (row,) = one.artifacts()
        assert one.do("artifacts.get", artifact_id=row["id"]) == row
        with pytest.raises(Refusal) as refused:
            one.say("more")
        assert refused.value.envelope()["error"]["code"] == "environment_unavailable"
        assert refused.value.status == 409
        assert environment.startswith("env_")
        one.verify()
        assert one.do("sessions.delete")["deleted"] is True


def test_a_hundred_sessions_at_once(tmp_path: Path) -> None:
    """A Turn each: all complete, at most so many run at once as the process lets in, and no thread is left."""
    with staged(tmp_path) as stage:

        def act(act: Act) -> None:
            act.print("x\n")
            time.sleep(0.02)
            act.desk.write("outputs/f", act.desk.request.run_id)

        stage.executor.acts["go"] = act
        before = threading.active_count()
        talks = [talk(stage.room) for _ in range(100)]
        begun = now_ms()
        threads = [threading.Thread(target=one.say, args=("go",)) for one in talks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for one in talks:
            one.need_idle(60)
        assert now_ms() - begun < 60_000
        assert len(stage.executor.requests) == 100
        for one in talks:
            (turn,) = one.turns()
            assert turn["status"] == "completed"
            assert len(one.artifacts()) == 1
            one.verify()
        assert threading.active_count() - before <= stage.room.limits.run_queue + 4
        assert not [thread for thread in threading.enumerate() if thread.name in ("live", "cancelling")]


def test_looking_at_a_turn_that_waits_for_a_place_takes_no_places_from_others(tmp_path: Path) -> None:
    """A project that has all its places waits; who looks at its Turns does not fill the process with errands."""
    with staged(tmp_path, run_queue=8, project_runs=2) as stage:
        go = threading.Event()
        stage.executor.acts["wait"] = lambda act: go.wait(30)
        busy = [talk(stage.room) for _ in range(2)]
        for one in busy:
            one.say("wait")
        waits = talk(stage.room)
        turn = waits.say("soon")
        time.sleep(2.2)
        for _ in range(50):
            assert waits.turn(turn)["status"] == "queued"
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("background")]
        assert len(threads) <= 6, f"{len(threads)} threads wait"
        go.set()
        assert waits.need_over(turn)["status"] == "completed"
