"""Each transaction of a write loses its answer, before or after it happened, or the store is away from then on.

agents.md 4, 11.19, 11.22 to 11.24: what the caller is told, what is there, and who can go on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.domain.agents.admission import Cancel, Message, admit
from shared.domain.agents.head import emptied
from shared.domain.agents.lifecycle import deleted
from shared.domain.agents.refusals import Reason, Refused
from shared.domain.agents.writes import Receipt
from shared.store.ports import StoreUnavailable
from tests.agents_writes.desk import Answer, Desk
from tests.unit.agents.trees import file

UNCERTAIN = Answer(503, "execution_unavailable", "Execution is not available on this service.", retry="false")
NOTHING = Answer(503, "store_unavailable")
GATE = Answer(409, "turn_conflict", "The Turn cannot accept this input in its current state.", retry="false")
OCCUPIED = 400
TAKEN = "/workspace/taken"


def expect_free(desk: Desk, *, records: int) -> None:
    """The Session goes on: nothing is unsettled, and the next write is admitted."""
    assert (desk.unsettled(), desk.head().write, len(desk.records())) == (0, None, records)
    assert desk.create("/workspace/next").status == 201


def expect_unsettled(desk: Desk, *, receipt: Receipt | None, there: bool) -> None:
    """Reads work, messages and writes are refused; a cancel is not; the operator's metric counts it."""
    (record,) = desk.records()
    head = desk.head()
    assert (record.receipt, record.outcome) == (receipt, None)
    assert head.write is not None
    assert (head.write.write, desk.unsettled()) == (record.id, 1)
    assert ("/workspace/a.txt" in desk.names()) is there
    assert desk.ask("environments.get", {"environment_id": desk.environment}).status == 200
    answer = desk.create("/workspace/other")
    assert replace(answer, retry=None) == replace(GATE, retry=None)
    more: dict[str, Any] = {"batch": "b", "turn": "t", "owner": desk.room.owner, "now": desk.clock()}
    with pytest.raises(Refused) as refused:
        admit(head, [Message(1)], **more)
    assert refused.value.reason is Reason.TURN_STATE
    assert admit(head, [Cancel()], **more).head == head
    assert len(desk.records()) == 1


def expect_settles_only(desk: Desk, outcome: Receipt) -> None:
    """An operator may say that, and nothing else; then the Session goes on."""
    (record,) = desk.records()
    other = "rejected" if outcome == "committed" else "committed"
    refused = desk.ask("writes.settle", {"id": record.id, "outcome": other})
    assert (refused.status, desk.unsettled()) == (400, 1)
    before = list(desk.manifest())
    settled = desk.ask("writes.settle", {"id": record.id, "outcome": outcome})
    assert (settled.status, settled.body["outcome"]) == (200, outcome)
    assert list(desk.manifest()) == before
    (after,) = desk.records()
    assert (after.outcome, after.by, after.receipt) == (outcome, "operator", record.receipt)
    assert desk.ask("writes.settle", {"id": record.id, "outcome": outcome}).status == 404
    expect_free(desk, records=1)


def test_an_intent_that_never_came_records_nothing(anywhere: Desk) -> None:
    anywhere.state.plan["intent"] = "before"
    assert anywhere.create() == NOTHING, "the SDK may send it again by itself"
    assert anywhere.objects() == 0
    expect_free(anywhere, records=0)


def test_an_intent_whose_answer_is_lost_goes_on(anywhere: Desk) -> None:
    anywhere.state.plan["intent"] = "after"
    assert anywhere.create(data=b"once").status == 201
    assert anywhere.content("a.txt") == b"once"
    assert anywhere.state.steps.count("publish") == 1
    expect_free(anywhere, records=1)


def test_an_intent_that_comes_late_comes_in_vain(anywhere: Desk) -> None:
    anywhere.state.plan["intent"] = "late"
    assert anywhere.create() == NOTHING
    assert anywhere.state.deliver() == [False]
    expect_free(anywhere, records=0)


@pytest.mark.parametrize("came", ["before away", "after away"])
def test_an_intent_that_cannot_be_asked_for_is_uncertain(anywhere: Desk, came: str) -> None:
    anywhere.state.plan["intent"] = came
    assert anywhere.create() == UNCERTAIN
    anywhere.state.away = False
    assert anywhere.objects() == 0
    if came == "before away":
        expect_free(anywhere, records=0)
        return
    expect_unsettled(anywhere, receipt=None, there=False)
    anywhere.clock.forward(anywhere.room.limits.lease_ms)
    assert anywhere.create("/workspace/other") == GATE, "the gate does not lapse with the lease (11.23)"
    expect_settles_only(anywhere, "rejected")


def test_a_publication_that_never_came_is_uncertain_and_is_not_sent_again(anywhere: Desk) -> None:
    anywhere.state.plan["publish"] = "before"
    assert anywhere.create() == UNCERTAIN
    assert anywhere.state.steps.count("publish") == 1
    assert anywhere.create("/workspace/other") == GATE, "11.19: its attempt has ended"
    expect_unsettled(anywhere, receipt=None, there=False)
    expect_settles_only(anywhere, "rejected")


def test_a_publication_whose_answer_is_lost_is_asked_for(anywhere: Desk) -> None:
    anywhere.state.plan["publish"] = "after"
    assert anywhere.create(data=b"once").status == 201
    assert anywhere.state.steps.count("publish") == 1
    assert anywhere.content("a.txt") == b"once"
    expect_free(anywhere, records=1)


@pytest.mark.parametrize("came", ["before away", "after away"])
def test_a_publication_that_cannot_be_asked_for_stays_unsettled(anywhere: Desk, came: str) -> None:
    anywhere.state.plan["publish"] = came
    assert anywhere.create() == UNCERTAIN
    anywhere.state.away = False
    happened = came == "after away"
    expect_unsettled(anywhere, receipt="committed" if happened else None, there=happened)
    expect_settles_only(anywhere, "committed" if happened else "rejected")


def test_a_publication_that_comes_late_is_seen_by_the_operator(anywhere: Desk) -> None:
    anywhere.state.plan["publish"] = "late"
    assert anywhere.create() == UNCERTAIN
    expect_unsettled(anywhere, receipt=None, there=False)
    assert anywhere.state.deliver() == [True]
    expect_unsettled(anywhere, receipt="committed", there=True)
    expect_settles_only(anywhere, "committed")


def test_a_publication_that_comes_behind_the_operators_fence_comes_in_vain(anywhere: Desk) -> None:
    anywhere.state.plan["publish"] = "late"
    assert anywhere.create() == UNCERTAIN
    (record,) = anywhere.records()
    assert anywhere.ask("writes.settle", {"id": record.id, "outcome": "rejected"}).status == 200
    assert anywhere.state.deliver() == [False]
    assert anywhere.names() == []
    expect_free(anywhere, records=1)


@pytest.mark.parametrize("came", ["before", "after"])
def test_a_settling_whose_answer_is_lost_is_done_again(anywhere: Desk, came: str) -> None:
    anywhere.state.plan["settle"] = came
    assert anywhere.create().status == 201
    expect_free(anywhere, records=1)


@pytest.mark.parametrize("came", ["before away", "after away"])
def test_a_settling_that_cannot_be_done_leaves_a_receipt(anywhere: Desk, came: str) -> None:
    anywhere.state.plan["settle"] = came
    assert anywhere.create() == UNCERTAIN
    anywhere.state.away = False
    if came == "before away":
        expect_unsettled(anywhere, receipt="committed", there=True)
        expect_settles_only(anywhere, "committed")
        return
    assert anywhere.names() == ["/workspace/a.txt"]
    expect_free(anywhere, records=1)


@pytest.mark.parametrize("step", ["publish", "settle"])
@pytest.mark.parametrize("came", ["after", "before away", "after away"])
def test_a_rejection_loses_its_answers_too(desk: Desk, step: str, came: str) -> None:
    desk.fill(file("taken"))
    desk.state.plan[step] = came
    answer = desk.create(TAKEN)
    assert answer.status == (OCCUPIED if came == "after" else 503)
    assert answer.retry == (None if came == "after" else "false")
    desk.state.away = False
    assert list(desk.manifest()) == [file("taken")]
    if came == "after" or (step, came) == ("settle", "after away"):
        expect_free(desk, records=1)
        return
    receipt: Receipt | None = None if (step, came) == ("publish", "before away") else "rejected"
    expect_unsettled(desk, receipt=receipt, there=False)
    expect_settles_only(desk, "rejected")


class Failing:
    """An object port that fails at one verb."""

    def __init__(self, desk: Desk, verb: str, error: Exception) -> None:
        self._inner = desk.room.objects
        self._verb = verb
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name != self._verb:
            return getattr(self._inner, name)

        def fail(*_: Any, **__: Any) -> Any:
            raise self._error

        return fail


@pytest.mark.parametrize("verb", ["stage", "read"])
@pytest.mark.parametrize("error", [StoreUnavailable("away"), OSError("no space"), RuntimeError("a defect")])
def test_bytes_that_cannot_be_stored_are_rejected_for_nothing_was_sent(desk: Desk, verb: str, error: Exception) -> None:
    source = desk.source(b"bytes")
    failing: Any = Failing(desk, verb, error)
    broken = replace(desk, room=replace(desk.room, objects=failing))
    assert broken.copy(source) == replace(UNCERTAIN, retry="true")
    assert [(record.receipt, record.reason) for record in desk.records()] == [("rejected", "EXECUTION")]
    assert desk.names() == []
    expect_free(desk, records=1)


def test_a_manifest_that_cannot_be_stored_is_a_rejection(desk: Desk) -> None:
    failing: Any = Failing(desk, "put_new", StoreUnavailable("away"))
    limits = replace(desk.room.limits, inline_item_bytes=10)
    broken = replace(desk, room=replace(desk.room, objects=failing, limits=limits))
    assert broken.create() == replace(UNCERTAIN, retry="true")
    expect_free(desk, records=1)


@pytest.mark.parametrize("step", ["publish", "settle"])
def test_11_24_a_session_that_is_deleted_meanwhile_answers_503(desk: Desk, step: str) -> None:
    def delete() -> None:
        desk.set_workspace(emptied(desk.workspace().head))
        desk.set_head(deleted(desk.head()))

    desk.state.hooks[step] = delete
    assert desk.create() == UNCERTAIN
    assert desk.listing().status == 404
    (record,) = desk.records()
    assert record.receipt == (None if step == "publish" else "committed")


@pytest.mark.parametrize("step", ["publish", "settle"])
def test_11_23_an_operator_who_fences_an_attempt_in_flight_has_the_last_word(desk: Desk, step: str) -> None:
    outcome = "rejected" if step == "publish" else "committed"
    told: list[Answer] = []

    def settle() -> None:
        (record,) = desk.records()
        told.append(desk.ask("writes.settle", {"id": record.id, "outcome": outcome}))

    desk.state.hooks[step] = settle
    answer = desk.create()
    assert [one.status for one in told] == [200]
    assert answer == UNCERTAIN if step == "publish" else answer.status == 201
    assert desk.names() == ([] if step == "publish" else ["/workspace/a.txt"])
    (record,) = desk.records()
    assert (record.outcome, record.by) == (outcome, "operator")
    expect_free(desk, records=1)
