"""What is counted of a run: language, outcome, phases, bytes; never a name or a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from shared.errors import Failure
from shared.executor.port import ExecutorFailed
from shared.operations.base import Cancel
from shared.store.ports import StoreUnavailable
from tests.fakes import Desk, House

PHASES = {"wait", "restore", "run", "collect", "store", "total"}


@dataclass
class Counter:
    """The port RunMetrics."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    fail: bool = False

    def run(self, *, lang: str, outcome: str, ms: Mapping[str, int], bytes_in: int, bytes_out: int) -> None:
        self.rows.append(
            {"lang": lang, "outcome": outcome, "ms": dict(ms), "bytes_in": bytes_in, "bytes_out": bytes_out}
        )
        if self.fail:
            raise RuntimeError("the line could not be written")


@pytest.fixture
def counter(house: House) -> Counter:
    made = Counter()
    house.room = replace(house.room, metrics=made)
    return made


def ends(**what: Any) -> Callable[[Desk], None]:
    """A program that ends so."""

    def script(desk: Desk) -> None:
        for name, value in what.items():
            setattr(desk, name, value)

    return script


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (None, "ok"),
        (ends(code=1), "failed"),
        (ends(reason="time"), "time"),
        (ends(reason="memory"), "memory"),
        (ends(reason="output"), "output"),
        (ends(reason="processes"), "killed"),
        (ends(reason="workspace_bytes"), "killed"),
        (ends(code=None, signal=11), "killed"),
        (ends(stdout="x", stdout_cut=True), "ok"),
    ],
)
def test_each_end_has_its_outcome(house: House, counter: Counter, script: Any, outcome: str) -> None:
    house.run(script)
    (row,) = counter.rows
    assert (row["lang"], row["outcome"]) == ("py", outcome)
    assert set(row["ms"]) == PHASES


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("unavailable", "error:executor_unavailable"),
        ("throttled", "error:rate_limited"),
        ("broken", "error:executor_failed"),
        ("timeout", "error:executor_timeout"),
    ],
)
def test_a_failure_of_ours_is_an_error_with_its_code(house: House, counter: Counter, kind: Any, outcome: str) -> None:
    house.executor.fail = ExecutorFailed(kind)
    with pytest.raises(Failure):
        house.run()
    (row,) = counter.rows
    assert row["outcome"] == outcome
    assert set(row["ms"]) == {"wait", "total"}
    assert row["bytes_out"] == 0


def test_other_errors_have_a_code_and_no_words(house: House, counter: Counter) -> None:
    def lose(actions: Any) -> None:
        raise StoreUnavailable

    def script(desk: Desk) -> None:
        house.state.before = lose

    def burst(desk: Desk) -> None:
        raise RuntimeError("secret")

    for one, error in ((script, StoreUnavailable), (burst, RuntimeError)):
        with pytest.raises(error):
            house.run(one)
    with pytest.raises(Failure):
        house.run(session_id="u" * 21)
    cancel = Cancel()
    cancel()
    with pytest.raises(Failure):
        house.run(cancel=cancel)
    assert [row["outcome"] for row in counter.rows] == [
        "error:store_unavailable", "error:internal_error", "error:not_found", "error:cancelled",
    ]  # fmt: skip
    assert set(counter.rows[2]["ms"]) == {"total"}


def test_the_bytes_are_those_that_went_in_and_came_out(house: House, counter: Counter) -> None:
    session = house.put("in.txt", "x" * 1_000).session_id

    def script(desk: Desk) -> None:
        desk.stdout, desk.stderr = "é" * 10, "e" * 3
        desk.write("out.txt", "y" * 500)

    house.run(script, code="é = 1", args=["ab", "é"], session_id=session)
    (row,) = counter.rows
    assert row["bytes_in"] == 6 + 2 + 2 + 1_000
    assert row["bytes_out"] == 20 + 3 + 500
    house.run(code="2", session_id=session)
    assert counter.rows[1]["bytes_in"] == 1 + 1_500
    assert counter.rows[1]["bytes_out"] == 0


def test_the_phases_are_the_executors_own_and_our_waiting(house: House, counter: Counter) -> None:
    house.executor.twist = lambda answer: replace(answer, restore_ms=7, wall_ms=11, collect_ms=13)
    house.run()
    ms = counter.rows[0]["ms"]
    assert (ms["restore"], ms["run"], ms["collect"]) == (7, 11, 13)
    assert 0 <= ms["wait"] <= ms["total"]
    assert 0 <= ms["store"] <= ms["total"]


def test_what_is_told_are_numbers_and_known_words(house: House, counter: Counter) -> None:
    def script(desk: Desk) -> None:
        desk.stdout = "secret"
        desk.write("secret", "secret")

    house.run(script, code="secret", args=["secret"], user_id="secret", runtime_session_hint="secret")
    assert "secret" not in repr(counter.rows)


def test_a_stored_answer_is_no_run(house: House, counter: Counter) -> None:
    for _ in range(2):
        house.run(code="x", idempotency_key="k")
    assert len(counter.rows) == 1


def test_counting_that_fails_is_not_the_runs_failure(house: House, counter: Counter) -> None:
    counter.fail = True
    assert house.run().code == 0
    house.executor.fail = ExecutorFailed("broken")
    with pytest.raises(Failure):
        house.run()
    assert len(counter.rows) == 2
