"""Who runs a Turn, under which fence, and what follows it (agents.md 5.4, 11.27, 11.32, 11.35 to 11.37)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from shared.domain.agents.head import Environment, EnvironmentStatus, Open, Pending, Session, status
from shared.domain.agents.turning import (
    Fenced,
    NotFinal,
    claim,
    finish,
    lapsed,
    opened,
    overtaken,
    queue,
    renew,
    runnable,
    start,
    take,
    wait,
    waited_out,
)
from shared.domain.agents.turns import Outcome
from shared.domain.session import Lock, Owner
from tests.unit.agents.heads import (
    CALLS,
    LEASE,
    NOW,
    ONE,
    OTHER,
    US,
    US_AGAIN,
    claimed,
    idle,
    queued,
    running,
    steered,
    waiting,
)


def test_a_turn_from_its_input_to_its_end() -> None:
    head = queued()
    assert (status(head), head.pending) == ("in_progress", ONE)
    held = claim(head, "turn_1", US, NOW, LEASE)
    assert held is not None
    assert held.active is not None
    assert (held.fence, held.active.fence, held.active.lock) == (1, 1, Lock(US, NOW + LEASE))
    going = start(take(held, "turn_1", 1, 1), "turn_1", 1, NOW + 1)
    assert going.active is not None
    assert (going.active.status, going.pending) == ("in_progress", None)
    over = finish(going, "turn_1", 1, "completed", NOW + 9, revision=0)
    assert (over.active, over.pending, status(over), over.used) == (None, None, "idle", NOW + 9)


@pytest.mark.parametrize(
    ("head", "owner", "at"),
    [
        (idle(), US, NOW),
        (running(), US, NOW),
        (running(), OTHER, NOW + LEASE),
        (claimed(), OTHER, NOW + LEASE - 1),
        (claimed(), US, NOW),
        (waiting(), US, NOW),
        (replace(queued(), gone=True), US, NOW),
    ],
)
def test_11_36_what_is_not_claimed(head: Session, owner: Owner, at: int) -> None:
    assert claim(head, "turn_1", owner, at, LEASE) is None


@pytest.mark.parametrize("state", ["pending", "disconnected", "expired", "failed"])
def test_a_turn_waits_for_its_environment(state: EnvironmentStatus) -> None:
    head = replace(queued(), environment=Environment("openai_hosted", state))
    assert not runnable(head, US, NOW)
    assert runnable(replace(head, environment=Environment("openai_hosted", "connected")), US, NOW)


@pytest.mark.parametrize(("owner", "at"), [(OTHER, NOW + LEASE), (US_AGAIN, NOW)])
def test_11_27_a_claim_that_died_before_the_start_is_taken_on_where_it_stood(owner: Owner, at: int) -> None:
    half = take(claimed(pending=Pending("b", 5)), "turn_1", 1, 3)
    again = claim(half, "turn_1", owner, at, LEASE)
    assert again is not None
    assert (again.fence, again.pending) == (2, Pending("b", 5, 3))
    with pytest.raises(Fenced):
        take(again, "turn_1", 1, 1)
    assert take(again, "turn_1", 2, 2).pending is None


def test_11_27_items_are_taken_up_to_the_last_and_no_further() -> None:
    head = claimed(pending=Pending("b", 2))
    with pytest.raises(ValueError, match="not materialised"):
        start(take(head, "turn_1", 1, 1), "turn_1", 1, NOW)
    with pytest.raises(ValueError, match="more items"):
        take(head, "turn_1", 1, 3)
    with pytest.raises(ValueError, match="more items"):
        take(take(head, "turn_1", 1, 2), "turn_1", 1, 1)


UNDER: list[Callable[[Session, int], object]] = [
    lambda head, fence: renew(head, "turn_1", fence, NOW, LEASE),
    lambda head, fence: take(head, "turn_1", fence, 0),
    lambda head, fence: start(head, "turn_1", fence, NOW),
    lambda head, fence: opened(head, "turn_1", fence, []),
    lambda head, fence: wait(head, "turn_1", fence, CALLS, NOW),
    lambda head, fence: finish(head, "turn_1", fence, "completed", NOW, revision=0),
    lambda head, fence: finish(head, "turn_1", fence, "failed", NOW, successor="turn_2"),
    lambda head, fence: finish(head, "turn_1", fence, "cancelled", NOW, successor="turn_2"),
]


@pytest.mark.parametrize("step", UNDER)
@pytest.mark.parametrize(
    ("head", "fence"),
    [
        (running(), 0),
        (running(), 2),
        (idle(), 1),
        (replace(running(), gone=True), 1),
        (waiting(), 1),
        (overtaken(running(), "turn_1", NOW), 1),
        (overtaken(steered(), "turn_1", NOW, successor="turn_2"), 1),
    ],
)
def test_11_35_what_comes_late_is_fenced(step: Callable[[Session, int], object], head: Session, fence: int) -> None:
    with pytest.raises(Fenced):
        step(head, fence)


def test_a_lease_lasts_from_now_and_never_shortens() -> None:
    later = renew(running(), "turn_1", 1, NOW + 10, LEASE)
    assert later.active is not None
    assert later.active.lock == Lock(US, NOW + 10 + LEASE)
    assert renew(later, "turn_1", 1, NOW, LEASE) == later


def test_11_32_a_turn_does_not_complete_while_input_is_pending() -> None:
    with pytest.raises(NotFinal):
        finish(steered(), "turn_1", 1, "completed", NOW, revision=0, successor="turn_2")
    next_run = take(steered(), "turn_1", 1, 2)
    assert finish(next_run, "turn_1", 1, "completed", NOW, revision=0).active is None


def test_11_28_a_turn_does_not_complete_over_a_deletion_that_it_did_not_see() -> None:
    moved = replace(running(), revision=1)
    for revision in (0, 2, None):
        with pytest.raises(NotFinal):
            finish(moved, "turn_1", 1, "completed", NOW, revision=revision)
    assert finish(moved, "turn_1", 1, "completed", NOW, revision=1).active is None


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_6_1_a_turn_that_is_to_be_cancelled_ends_in_no_other_way(outcome: Outcome) -> None:
    head = running()
    assert head.active is not None
    head = replace(head, active=replace(head.active, cancel=True))
    with pytest.raises(NotFinal):
        finish(head, "turn_1", 1, outcome, NOW, revision=0)
    with pytest.raises(NotFinal):
        wait(head, "turn_1", 1, CALLS, NOW)
    assert finish(head, "turn_1", 1, "cancelled", NOW).active is None


@pytest.mark.parametrize("end", ["finish", "overtaken"])
def test_what_was_admitted_during_a_turn_that_fails_begins_the_next(end: str) -> None:
    head = steered()
    over = (
        finish(head, "turn_1", 1, "failed", NOW + 5, successor="turn_2")
        if end == "finish"
        else overtaken(head, "turn_1", NOW + 5, successor="turn_2")
    )
    assert over.active is not None
    assert (over.active.turn, over.active.status, over.active.lock) == ("turn_2", "queued", None)
    assert over.pending == Pending("batch_2", 2)
    assert over.fence == (1 if end == "finish" else 2)
    with pytest.raises(ValueError, match="successor"):
        overtaken(head, "turn_1", NOW)


def test_a_turn_that_is_over_is_not_overtaken() -> None:
    for head in (idle(), replace(running(), gone=True)):
        with pytest.raises(Fenced):
            overtaken(head, "turn_1", NOW)
    with pytest.raises(Fenced):
        overtaken(running(), "turn_0", NOW)


def test_there_is_one_turn_at_a_time() -> None:
    with pytest.raises(ValueError, match="active"):
        queue(running(), "turn_2", ONE, NOW)


@pytest.mark.parametrize(
    ("head", "owner", "at", "found"),
    [
        (running(), OTHER, NOW + LEASE - 1, False),
        (running(), OTHER, NOW + LEASE, True),
        (running(), US, NOW + LEASE, True),
        (running(), US, NOW, False),
        (running(), US_AGAIN, NOW, True),
        (claimed(), OTHER, NOW + LEASE, False),
        (waiting(), OTHER, NOW + LEASE, False),
        (idle(), US, NOW, False),
    ],
)
def test_11_36_a_turn_past_its_lease_is_found_to_the_millisecond(
    head: Session, owner: Owner, at: int, found: bool
) -> None:
    assert lapsed(head, owner, at) is found


def test_11_37_a_waiting_turn_holds_no_lock_and_goes_on_with_its_last_result() -> None:
    head = waiting()
    assert head.active is not None
    assert (head.active.lock, status(head)) == (None, "requires_action")
    one = replace(head, calls=(replace(CALLS[0], batch="b"), CALLS[1]))
    assert (runnable(one, US, NOW), status(one)) == (False, "requires_action")
    both = replace(head, calls=tuple(replace(call, batch="b") for call in CALLS))
    assert (runnable(both, US, NOW), status(both)) == (True, "in_progress")
    again = claim(both, "turn_1", OTHER, NOW, LEASE)
    assert again is not None
    going = start(again, "turn_1", 2, NOW)
    assert going.active is not None
    assert (going.active.status, going.calls) == ("in_progress", ())


@pytest.mark.parametrize("calls", [(), CALLS])
def test_11_37_only_a_turn_in_progress_waits_and_only_for_calls(calls: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="waits"):
        wait(claimed() if calls else running(), "turn_1", 1, CALLS if calls else (), NOW)


def test_11_37_a_wait_ends_at_the_exact_millisecond_unless_it_is_answered() -> None:
    assert not waited_out(waiting(), NOW + 99, 100)
    assert waited_out(waiting(), NOW + 100, 100)
    answered = replace(waiting(), calls=tuple(replace(call, batch="b") for call in CALLS))
    assert not waited_out(answered, NOW + 100, 100)
    assert not waited_out(running(), NOW + 100, 100)


def test_open_items_are_kept_for_whoever_ends_the_turn() -> None:
    head = opened(running(), "turn_1", 1, [Open("item_1", 0), Open("item_2", 1)])
    assert head.active is not None
    assert head.active.open == (Open("item_1", 0), Open("item_2", 1))
    assert Session.of(head.attributes()) == head
