"""Places among the programs that run at once: shares in turn, nobody lost, a thread's own place (cases.md K19)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shared.executor.turns import Turns
from tests.wire.service import expect_eventually


@dataclass
class Queue:
    """Those who wait for a place, each in a thread of its own, and the order in which they had one."""

    turns: Turns
    order: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def join(self, name: str, share: str = "", over: Callable[[], bool] = lambda: False) -> None:
        """Wait behind those who are there; back as soon as it stands in the queue."""
        before = self.length

        def take() -> None:
            with self.turns.turn(share, over) as mine:
                (self.order if mine else self.refused).append(name)

        thread = threading.Thread(target=take, daemon=True)
        self.threads.append(thread)
        thread.start()
        expect_eventually(lambda: self.length == before + 1)

    @property
    def length(self) -> int:
        """How many wait."""
        return sum(len(queue) for queue in list(self.turns._waiting.values()))

    def ended(self) -> list[str]:
        """The order, once all have been served."""
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()
        return self.order


@contextmanager
def full(share: str = "", places: int = 1) -> Iterator[Queue]:
    """A queue whose every place is taken for a share until the block ends."""
    queue = Queue(Turns(places))
    ends, begun = threading.Event(), threading.Barrier(places + 1)

    def hold() -> None:
        with queue.turns.turn(share):
            begun.wait(10)
            assert ends.wait(30)

    for _ in range(places):
        thread = threading.Thread(target=hold, daemon=True)
        queue.threads.append(thread)
        thread.start()
    begun.wait(10)
    try:
        yield queue
    finally:
        ends.set()


def test_within_a_share_the_order_is_that_of_arrival() -> None:
    with full() as queue:
        for name in "abcde":
            queue.join(name)
        assert (queue.order, queue.turns.running) == ([], 1)
    assert queue.ended() == list("abcde")
    assert queue.turns.running == 0


def test_shares_are_served_in_turn_however_many_one_has_waiting() -> None:
    with full("many") as queue:
        for number in range(6):
            queue.join(f"many {number}", "many")
        queue.join("few 0", "few")
        queue.join("few 1", "few")
        queue.join("one 0", "one")
    # The place that is given back was that of `many`, but it holds none then.
    assert queue.ended() == ["many 0", "few 0", "one 0", "many 1", "few 1", "many 2", "many 3", "many 4", "many 5"]


def test_a_place_is_for_the_share_that_holds_the_fewest() -> None:
    turns = Turns(2)
    queue = Queue(turns)
    hold = threading.Event()

    def held() -> None:
        with turns.turn("many"):
            assert hold.wait(30)

    thread = threading.Thread(target=held, daemon=True)
    thread.start()
    expect_eventually(lambda: turns.running == 1)
    with turns.turn("many"):
        queue.join("many 0", "many")
        queue.join("many 1", "many")
        queue.join("few 0", "few")
    # One place of two goes round while `many` keeps the other.
    assert queue.ended() == ["few 0", "many 0", "many 1"]
    hold.set()
    thread.join(10)
    assert turns.running == 0


def test_who_gives_up_waiting_leaves_no_gap() -> None:
    over = threading.Event()
    with full() as queue:
        queue.join("first", over=over.is_set)
        queue.join("second")
        over.set()
        queue.turns.look()
        expect_eventually(lambda: queue.refused == ["first"])
        with queue.turns.turn("other", seconds=0.01) as mine:
            assert not mine
    assert queue.ended() == ["second"]
    assert queue.turns.running == 0


def test_a_thread_that_has_a_place_needs_no_other() -> None:
    turns = Turns(1)
    over = threading.Event()
    with turns.turn("a") as first:
        with turns.turn("a", over.is_set) as second:
            assert (first, second, turns.running) == (True, True, 1)
        over.set()
        with turns.turn("b", over.is_set) as third:
            assert not third
        assert turns.running == 1
    assert turns.running == 0
    with turns.turn("a", lambda: True) as none:
        assert not none
        with turns.turn("a") as mine:
            assert mine


def test_after_the_end_nobody_gets_a_place() -> None:
    with full() as queue:
        queue.join("late")
        queue.turns.close()
        expect_eventually(lambda: queue.refused == ["late"])
    queue.ended()
    with queue.turns.turn() as mine:
        assert not mine
