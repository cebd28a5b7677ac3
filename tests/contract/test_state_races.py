"""Threads and processes that race for items: one winner, both items of a transaction or none, no lost update."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.store.ports import Action, Conflict, Item, PutIf, PutNew, State

from .adapters import rounds
from .children import output
from .threads import THREADS, race

ROUNDS = 50


def _attempt(state: State, actions: Callable[[int], list[Action]]) -> Callable[[int], Conflict | None]:
    def one(index: int) -> Conflict | None:
        try:
            state.transact(actions(index))
        except Conflict as conflict:
            return conflict
        return None

    return one


def _winner(outcomes: list[Conflict | None]) -> int:
    winners = [index for index, outcome in enumerate(outcomes) if outcome is None]
    assert len(winners) == 1
    return winners[0]


def test_one_of_32_puts_of_a_new_item_wins(state: State) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(ROUNDS):

            def put(index: int, at: int = number) -> list[Action]:
                return [PutNew("p", f"r{at}", {"by": index})]

            outcomes = race(pool, _attempt(state, put))
            kept = Item("p", f"r{number}", 1, {"by": _winner(outcomes)})
            assert state.get("p", f"r{number}") == kept
            for outcome in outcomes:
                assert outcome is None or [(loss.index, loss.current) for loss in outcome.losses] == [(0, kept)]


def test_one_of_32_puts_on_one_version_wins(state: State) -> None:
    state.transact([PutNew("p", "a", {})])
    with ThreadPoolExecutor(THREADS) as pool:
        for version in range(1, ROUNDS + 1):

            def put(index: int, at: int = version) -> list[Action]:
                return [PutIf("p", "a", at, {"by": index})]

            outcomes = race(pool, _attempt(state, put))
            kept = Item("p", "a", version + 1, {"by": _winner(outcomes)})
            assert state.get("p", "a") == kept
            for outcome in outcomes:
                assert outcome is None or [(loss.index, loss.current) for loss in outcome.losses] == [(0, kept)]


def test_both_items_of_the_winning_transaction_move_and_no_other(state: State) -> None:
    state.transact([PutNew("p", "a", {}), PutNew("q", "b", {})])
    with ThreadPoolExecutor(THREADS) as pool:
        for version in range(1, ROUNDS + 1):

            def both(index: int, at: int = version) -> list[Action]:
                actions: list[Action] = [PutIf("p", "a", at, {"by": index}), PutIf("q", "b", at, {"by": index})]
                # Half of them take the items in the other order, as a deadlock would want it.
                return actions if index % 2 else actions[::-1]

            by = _winner(race(pool, _attempt(state, both)))
            assert state.get("p", "a") == Item("p", "a", version + 1, {"by": by})
            assert state.get("q", "b") == Item("q", "b", version + 1, {"by": by})


def test_a_transaction_that_loses_on_one_item_leaves_the_other(state: State) -> None:
    """Each thread puts an item of its own together with the one that all want."""
    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(10):

            def both(index: int, at: int = number) -> list[Action]:
                return [PutNew("own", f"{at:02}-{index}", {}), PutNew("all", f"{at:02}", {"by": index})]

            by = _winner(race(pool, _attempt(state, both)))
            assert [item.sort for item in state.query("own", f"{number:02}-")] == [f"{number:02}-{by}"]


def test_a_counter_loses_no_update(state: State, adapter: str) -> None:
    state.transact([PutNew("p", "n", {"n": 0})])
    each = rounds(adapter, 10, 2)

    def count(_: int) -> None:
        item = state.get("p", "n")
        done = 0
        while done < each:
            assert item is not None
            try:
                (version,) = state.transact([PutIf("p", "n", item.version, {"n": item.attributes["n"] + 1})])
                item = Item("p", "n", version, {"n": item.attributes["n"] + 1})
                done += 1
            except Conflict as conflict:
                item = conflict.losses[0].current

    with ThreadPoolExecutor(THREADS) as pool:
        race(pool, count)
    assert state.get("p", "n") == Item("p", "n", THREADS * each + 1, {"n": THREADS * each})


def test_what_one_thread_has_put_every_other_sees(state: State) -> None:
    with ThreadPoolExecutor(2) as pool:
        for number in range(50):
            state.transact([PutNew("p", f"{number:02}", {})])
            assert pool.submit(state.get, "p", f"{number:02}").result(20) is not None
            assert len(pool.submit(state.query, "p").result(20)) == number + 1


def test_readers_never_fail_while_writers_write(state: State, adapter: str) -> None:
    state.transact([PutNew("p", "a", {"n": 0})])
    each = rounds(adapter, 40, 10)

    def work(index: int) -> int:
        last = 0
        for number in range(each):
            if index < 4:
                with contextlib.suppress(Conflict):
                    state.transact([PutNew("p", f"w{index}-{number:02}", {"t": "x" * 5000})])
            item = state.get("p", "a")
            assert item is not None
            seen = len(state.query("p", "w", limit=1000))
            assert seen >= last
            last = seen
        return last

    with ThreadPoolExecutor(8) as pool:
        race(pool, work, threads=8)
    assert len(state.query("p", "w", limit=1000)) == 4 * each


@pytest.mark.parametrize("processes", [3])
def test_processes_lose_no_update_either(state: State, adapter: str, tmp_path: Path, processes: int) -> None:
    state.transact([PutNew("p", "n", {"n": 0})])
    each = rounds(adapter, 60, 20)
    with ThreadPoolExecutor(processes) as pool:
        done = list(pool.map(lambda _: output(adapter, tmp_path, "count", each), range(processes)))
    assert done == [f"{each}\n"] * processes
    assert state.get("p", "n") == Item("p", "n", processes * each + 1, {"n": processes * each})
