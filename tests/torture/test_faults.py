"""Each transaction of a Turn lost, late or refused once; a lease that lapses under a holder that lives (11.36)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.domain.agents import turning
from shared.operations.agents import places
from shared.operations.agents.session import Draft, swap
from shared.store.ports import Action, Conflict, PutNew, State, StoreUnavailable
from tests.fakes import Clock
from tests.torture.place import CANCEL, Act, Stage, Talk, message, staged, talk, until


@dataclass
class Losing:
    """A state port in which one transaction of a Turn is lost. It counts those that tell of something."""

    inner: State
    nth: int = -1
    kind: str = ""
    count: int = 0
    late: list[Sequence[Action]] = field(default_factory=list)
    away_until: float = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, nth: int, kind: str) -> None:
        self.nth, self.kind, self.count = nth, kind, 0

    def _there(self) -> None:
        if time.monotonic() < self.away_until:
            raise StoreUnavailable("away")

    def get(self, partition: str, sort: str) -> Any:
        self._there()
        return self.inner.get(partition, sort)

    def query(self, partition: str, prefix: str = "", **more: Any) -> Any:
        self._there()
        return self.inner.query(partition, prefix, **more)

    def transact(self, actions: Sequence[Action]) -> list[int]:
        self._there()
        late, self.late = self.late, []
        for one in late:
            try:
                self.inner.transact(one)
            except Conflict:
                continue
        mine = False
        if any(action.sort.startswith(places.EVENTS) for action in actions):
            with self.lock:
                mine = self.count == self.nth
                self.count += 1
        if not mine:
            return self.inner.transact(actions)
        if self.kind == "lost":
            self.inner.transact(actions)
        if self.kind == "late":
            self.late.append(list(actions))
        if self.kind == "away":
            self.away_until = time.monotonic() + 0.8
        if self.kind == "lost and away":
            self.inner.transact(actions)
            self.away_until = time.monotonic() + 0.8
        raise StoreUnavailable("lost")

    def delete_partition(self, partition: str) -> None:
        self.inner.delete_partition(partition)

    def sweep(self, now: int) -> int:
        return self.inner.sweep(now)


def speaking(act: Act) -> None:
    act.desk.write("outputs/x", "x")
    act.print("one\n")
    time.sleep(0.15)
    act.print("two\n")
    time.sleep(0.6)
    act.print("three\n")
    time.sleep(0.1)


def patient(one: Talk, name: str, **data: Any) -> Any:
    """An operation that is asked again while the store is away."""
    ends = time.monotonic() + 20
    while True:
        try:
            return one.do(name, **data)
        except StoreUnavailable:
            assert time.monotonic() < ends
            time.sleep(0.05)


@pytest.mark.parametrize("kind", ["refused", "lost", "late", "away", "lost and away"])
@pytest.mark.parametrize("nth", range(6))
def test_one_transaction_of_a_turn_is_lost(tmp_path: Path, nth: int, kind: str) -> None:
    """0 admits; then the claim, the command, two deltas, the end. The Turn completes, whatever was lost."""
    with staged(tmp_path, wrap=Losing) as stage:
        stage.executor.acts["go"] = speaking
        one = talk(stage.room)
        stage.state.arm(nth, kind)
        try:
            one.send(message("go"))
        except StoreUnavailable:
            if not patient(one, "turns.list")["data"]:
                # What is late may come to be before this, which then finds it pending.
                with suppress(Refusal):
                    one.send(message("go"))
        ends = time.monotonic() + 30
        while patient(one, "sessions.get")["status"] != "idle":
            assert time.monotonic() < ends
            time.sleep(0.05)
        assert stage.state.count > nth, "there was no such transaction"
        stage.state.arm(-1, "")
        (turn,) = one.turns()
        assert (turn["status"], turn["error"]) == ("completed", None)
        assert one.output(turn["id"]) == "one\ntwo\nthree\n"
        assert [row["path"] for row in one.artifacts()] == ["/workspace/outputs/x"]
        assert len(stage.executor.requests) == 1
        one.verify()
        assert one.run("next")["status"] == "completed"
        one.verify()


def _slow(begun: threading.Event, go: threading.Event) -> Callable[[Act], None]:
    def act(act: Act) -> None:
        act.print("begun\n")
        begun.set()
        go.wait(20)
        act.desk.write("outputs/late", "late")
        act.print("late\n")
        act.stopped.clear()

    return act


def test_11_36_a_lease_that_lapses_under_a_living_holder_ends_the_turn_and_fences_it(tmp_path: Path) -> None:
    clock = Clock()
    with staged(tmp_path, clock) as stage:
        begun, go = threading.Event(), threading.Event()
        stage.executor.acts["go"] = _slow(begun, go)
        one = talk(stage.room)
        turn = one.say("go")
        assert begun.wait(10)
        until(lambda: any("delta" in frame for frame in one.log()))
        clock.forward(stage.room.limits.lease_ms + 1)
        row = one.turn(turn)
        assert (row["status"], row["error"]["code"]) == ("failed", "internal_error")
        assert [item["status"] for item in one.items(turn)] == ["completed", "incomplete", "incomplete"]
        one.verify()
        second = one.run("next")
        assert second["status"] == "completed"
        go.set()
        until(lambda: not stage.executor.running)
        time.sleep(0.2)
        assert one.files() == {}
        assert one.artifacts() == []
        assert [request.code for request in stage.executor.requests] == ["go", "next"]
        one.verify()


def test_a_holder_that_was_overtaken_elsewhere_learns_of_it_at_its_next_word(tmp_path: Path) -> None:
    """Another process has ended the Turn: what the program says next stops it."""
    with staged(tmp_path) as stage:
        one = talk(stage.room)
        begun, stopped = threading.Event(), threading.Event()

        def act(act: Act) -> None:
            begun.set()
            for _ in range(200):
                act.print("word\n")
                if act.stopped.wait(0.05):
                    stopped.set()
                    return

        stage.executor.acts["go"] = act
        turn = one.say("go")
        assert begun.wait(10)
        until(lambda: any("delta" in frame for frame in one.log()))
        _overtake_elsewhere(stage, one)
        assert one.turn(turn)["status"] == "cancelled"
        assert stopped.wait(5), "the program runs on"
        one.need_idle()
        one.verify()


def _overtake_elsewhere(stage: Stage, one: Talk) -> None:
    """What another process does for a cancel: it is no holder of this Turn."""
    from shared.operations.agents import seeing  # noqa: PLC0415
    from shared.operations.agents.config import describe  # noqa: PLC0415

    described = describe(stage.room, one.found)
    swap(stage.room, one.found, lambda draft: seeing.end_active(stage.room, draft, described, "cancelled"))


def test_a_batch_in_chunks_goes_on_after_its_claimer_died(tmp_path: Path) -> None:
    """The claimer dies between two chunks: the next one goes on where it stopped, and every item is there once."""
    texts = [f"{number}" for number in range(130)]
    with staged(tmp_path, wrap=Losing) as stage:
        one = talk(stage.room)
        stage.state.arm(2, "away")
        one.send(message(*texts))
        until(lambda: stage.state.away_until)
        stage.state.away_until = time.monotonic() + 11
        stage.room.background.shutdown(wait=True)
        stage.state.away_until = 0
        assert one.found.head.active.status == "queued"  # type: ignore[union-attr]
        assert 0 < one.found.head.pending.taken < 130  # type: ignore[union-attr]
    with staged(tmp_path) as stage:
        two = Talk(stage.room, one.session)
        time.sleep(2.1)
        two.need_idle(20)
        (turn,) = two.turns()
        assert turn["status"] == "completed"
        said = [item["content"][0]["text"] for item in two.items() if item.get("role") == "user"]
        assert said == texts
        assert [request.code for request in stage.executor.requests] == ["\n".join(texts)]
        two.verify()


def test_a_claim_that_loses_to_a_harmless_change_is_made_again(tmp_path: Path) -> None:
    """The metadata change between the look and the claim: the Turn runs all the same, without anybody looking."""

    class Meddling(Losing):
        done = False

        def transact(self, actions: Sequence[Action]) -> list[int]:
            claims = any(not isinstance(action, PutNew) and action.sort.startswith(places.TURNS) for action in actions)
            if claims and not self.done:
                self.done = True
                one.do("sessions.update", metadata={"a": "b"})
            return super().transact(actions)

    with staged(tmp_path, wrap=Meddling) as stage:
        one = talk(stage.room)
        one.send(message("go"))
        until(lambda: stage.executor.requests, 5)
        stage.room.background.shutdown(wait=True)
        assert one.found.head.active is None
        assert stage.state.done
        one.verify()


def test_the_rules_take_nothing_for_a_turn_that_is_to_be_cancelled(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        one = talk(stage.room)
        begun, go = threading.Event(), threading.Event()

        def act(act: Act) -> None:
            begun.set()
            act.wait()

        stage.executor.acts["go"] = act
        turn = one.say("go")
        assert begun.wait(10)
        head = one.found.head
        assert head.active is not None
        fence = head.active.fence
        one.send(CANCEL, message("next"))
        until(lambda: len(one.turns()) == 2)
        one.need_idle()
        assert one.turn(turn)["status"] == "cancelled"
        draft = Draft.on(stage.room, one.found)
        with pytest.raises(turning.Fenced):
            turning.take(draft.head, turn, fence, 1)
        assert [item["content"][0]["text"] for item in one.items() if item.get("role") == "user"] == ["go", "next"]
        go.set()
        one.verify()
