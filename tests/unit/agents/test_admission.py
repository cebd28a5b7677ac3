"""Admitting input, each row of the contract's table (agents.md 4, 5.2, 11.7, 11.11, 11.19, 11.27)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.domain.agents.admission import Admitted, Cancel, Event, Message, Result, admit, effective
from shared.domain.agents.head import EnvironmentStatus, Pending, Session, Unsettled, status
from shared.domain.agents.refusals import Refused
from shared.domain.session import Owner
from tests.unit.agents.heads import NOW, ONE, OTHER, US, claimed, idle, queued, running, steered, waiting

SAY = Message(1)
WRITE = Unsettled("write_1", NOW, 3)
PENDING = (409, "conflict_error", "Earlier input to this Session is still pending.")
STATE = (409, "conflict_error", "The Turn cannot accept this input in its current state.")


def send(head: Session, *events: Event, owner: Owner = US, writing: bool = False) -> Admitted:
    return admit(head, events, batch="batch_9", turn="turn_9", owner=owner, now=NOW + 5, writing=writing)


def refused(head: Session, *events: Event, writing: bool = False) -> tuple[int, str, str, bool]:
    with pytest.raises(Refused) as caught:
        send(head, *events, writing=writing)
    return (*caught.value.reason.value[:2], caught.value.text, caught.value.retry)


def test_5_2_no_event_is_no_operation() -> None:
    for head in (idle(), running(), queued(), replace(idle(), write=WRITE), idle("failed")):
        assert send(head) == Admitted(head=head)


def test_5_2_a_message_on_an_idle_session_queues_a_turn() -> None:
    done = send(idle(), Message(2), Message(3))
    assert (done.created, done.ended, done.stop, done.messages) == ("turn_9", "", "", (0, 1))
    assert done.head.pending == Pending("batch_9", 5)
    assert done.head.active is not None
    assert (done.head.active.turn, done.head.active.status, done.head.used) == ("turn_9", "queued", NOW + 5)


@pytest.mark.parametrize("head", [running(), running(OTHER), waiting()])
def test_5_2_a_message_while_a_turn_runs_steers_it(head: Session) -> None:
    done = send(head, SAY)
    assert (done.created, done.ended, done.stop) == ("", "", "")
    assert done.head.active == head.active
    assert done.head.pending == Pending("batch_9", 1)


@pytest.mark.parametrize("head", [queued(), claimed(), steered()])
def test_5_2_earlier_input_still_pending(head: Session) -> None:
    assert refused(head, SAY) == (*PENDING, False)
    assert refused(head, Cancel(), SAY) == (*PENDING, False)


@pytest.mark.parametrize("writing", [True, False])
def test_11_7_a_message_while_a_write_is_unsettled(writing: bool) -> None:
    """11.19: the SDK tries again only where the write is still in flight."""
    head = replace(idle(), write=WRITE)
    assert refused(head, SAY, writing=writing) == (*STATE, writing)
    assert refused(head, Cancel(), SAY, writing=writing) == (*STATE, writing)


def test_4_3_cancellations_are_not_behind_the_gate() -> None:
    head = replace(idle(), write=WRITE)
    assert send(head, Cancel()) == Admitted(head=head)


def test_the_gate_of_the_write_comes_before_the_pending_input() -> None:
    assert refused(replace(queued(), write=WRITE), SAY) == (*STATE, False)


def test_the_gates_come_before_the_events() -> None:
    assert refused(queued(), Result("turn_1", "no_call", "d"), SAY) == (*PENDING, False)


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ("failed", (409, "conflict_error", "the hosted environment failed to provision")),
        (
            "expired",
            (409, "environment_unavailable", "The environment is no longer available for new input."),
        ),
    ],
)
def test_5_2_new_input_to_an_environment_that_is_over(state: EnvironmentStatus, answer: tuple[int, str, str]) -> None:
    assert refused(idle(state), SAY) == (*answer, False)
    assert send(idle(state), Cancel()) == Admitted(head=idle(state))


def test_a_deleted_session_takes_nothing() -> None:
    for events in ((), (SAY,), (Cancel(),)):
        assert refused(replace(idle(), gone=True), *events)[:2] == (404, "not_found_error")


def test_5_2_a_cancel_on_idle_has_no_effect() -> None:
    assert send(idle(), Cancel(), Cancel()) == Admitted(head=idle())


@pytest.mark.parametrize("head", [queued(), claimed(), claimed(OTHER), waiting(), running(OTHER), steered(OTHER)])
def test_11_35_a_cancel_ends_what_this_process_does_not_run(head: Session) -> None:
    done = send(head, Cancel())
    assert (done.ended, done.stop, done.created) == ("turn_1", "", "")
    assert (done.head.active, done.head.pending, done.head.calls) == (None, None, ())
    assert done.head.fence == head.fence + 1


@pytest.mark.parametrize("head", [running(), steered()])
def test_11_35_a_cancel_of_a_turn_that_runs_here_stops_it(head: Session) -> None:
    done = send(head, Cancel())
    assert (done.ended, done.stop) == ("", "turn_1")
    assert done.head.active is not None
    assert done.head.active.cancel
    assert (done.head.pending, done.head.fence, status(done.head)) == (None, head.fence, "in_progress")
    assert send(done.head, Cancel()).stop == "turn_1"


@pytest.mark.parametrize("apart", [True, False])
def test_a_message_behind_a_cancel_is_for_the_next_turn(apart: bool) -> None:
    done = send(send(running(), Cancel()).head, SAY) if apart else send(running(), Cancel(), SAY)
    assert done.head.active is not None
    assert done.head.active.cancel
    assert done.head.pending == Pending("batch_9", 1)
    other = send(running(OTHER), Cancel(), SAY)
    assert (other.ended, other.created) == ("turn_1", "turn_9")


def test_a_cancel_takes_back_what_its_batch_said_before() -> None:
    events: tuple[Event, ...] = (Message(4), Cancel(), Message(2), Message(1))
    assert effective(events) == (2, 3)
    assert send(idle(), *events).head.pending == Pending("batch_9", 3)
    assert send(idle(), Message(4), Cancel()) == Admitted(head=idle())


def test_5_2_results_are_recorded_and_the_last_one_makes_the_turn_go_on() -> None:
    first = send(waiting(), Result("turn_1", "call_b", "d1"))
    assert [call.batch for call in first.head.calls] == ["", "batch_9"]
    assert status(first.head) == "requires_action"
    both = send(first.head, Result("turn_1", "call_a", "d2"))
    assert [call.digest for call in both.head.calls] == ["d2", "d1"]
    assert status(both.head) == "in_progress"
    at_once = send(waiting(), Result("turn_1", "call_a", "x"), Result("turn_1", "call_b", "y"))
    assert status(at_once.head) == "in_progress"


def test_5_2_the_same_result_again_changes_nothing_and_another_is_refused() -> None:
    head = send(waiting(), Result("turn_1", "call_a", "same")).head
    again = admit(
        head, [Result("turn_1", "call_a", "same")], batch="batch_10", turn="t", owner=US, now=NOW + 50
    )  # fmt: skip
    assert again == Admitted(head=head)
    answer = (409, "conflict_error", "The tool call already has a different result.", False)
    assert refused(head, Result("turn_1", "call_a", "other")) == answer
    assert refused(waiting(), Result("turn_1", "call_a", "1"), Result("turn_1", "call_a", "2")) == answer


def test_11_11_an_unknown_call_in_the_words_that_the_sdk_waits_for() -> None:
    answer = (400, "invalid_request_error", "Unknown pending tool call: call_x", False)
    for head in (waiting(), idle(), running()):
        assert refused(head, Result("turn_1", "call_x", "d")) == answer
    assert refused(waiting(), Cancel(), Result("turn_1", "call_a", "d"))[2] == "Unknown pending tool call: call_a"


def test_5_2_a_call_of_another_turn() -> None:
    answer = (400, "invalid_request_error", "The tool call belongs to a different Turn.", False)
    assert refused(waiting(), Result("turn_0", "call_a", "d")) == answer


def test_4_3_results_are_behind_no_gate() -> None:
    head = replace(waiting(), pending=ONE)
    assert send(head, Result("turn_1", "call_a", "d")).head.pending == ONE


def test_5_2_a_batch_is_admitted_whole_or_not_at_all() -> None:
    head = waiting()
    assert refused(head, Result("turn_1", "call_a", "d"), SAY, Result("turn_1", "call_x", "d"))[0] == 400
    assert head == waiting()
