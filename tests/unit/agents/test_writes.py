"""Write ordering: gate, intent, receipt, and what an operator may settle (agents.md 4, 11.5, 11.19, 11.22 to 11.24)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain import session as workspaces
from shared.domain.agents.head import Environment, EnvironmentKind, EnvironmentStatus, Session, in_flight, seized
from shared.domain.agents.lifecycle import deleted
from shared.domain.agents.refusals import Refused
from shared.domain.agents.writes import (
    Contradiction,
    NotFenced,
    Receipt,
    Write,
    begin,
    ended,
    gate,
    operator,
    received,
    settle,
    usable,
)
from shared.domain.session import Fenced, Head, Owner, acquire, commit
from tests.unit.agents.heads import LEASE, NOW, OTHER, US, US_AGAIN, claimed, idle, queued, running, steered, waiting

CONFLICT = (409, "turn_conflict", "The Turn cannot accept this input in its current state.")
RECORD = Write(id="write_1", path="a", size=1, sha256="00", since=NOW, fence=1)


def writing() -> Session:
    return begin(idle(), "write_1", 1, NOW)


@pytest.mark.parametrize("head", [queued(), claimed(), running(), steered(), waiting(), writing()])
@pytest.mark.parametrize("in_hand", [True, False])
def test_4_2_row_13_a_write_waits_for_nothing(head: Session, in_hand: bool) -> None:
    with pytest.raises(Refused) as caught:
        begin(head, "write_2", 2, NOW, writing=in_hand)
    assert (*caught.value.reason.value[:2], caught.value.text) == CONFLICT
    assert caught.value.retry is (in_hand and head.write is not None), "11.19"


def test_4_4_a_settled_write_lets_the_next_one_in() -> None:
    after = settle(writing(), "write_1", NOW + 1)
    assert after is not None
    gate(after, writing=False)
    assert begin(after, "write_2", 2, NOW).write is not None


def test_a_write_is_settled_once_and_only_itself() -> None:
    assert settle(writing(), "write_2", NOW) is None
    assert settle(idle(), "write_1", NOW) is None
    assert ended(writing(), "write_2") is None
    over = ended(writing(), "write_1")
    assert over is not None
    assert over.write is not None
    assert over.write.ended


def test_a_deleted_session_takes_no_write() -> None:
    with pytest.raises(Refused) as caught:
        gate(replace(idle(), gone=True), writing=False)
    assert caught.value.reason.value[0] == 404


@pytest.mark.parametrize(
    ("kind", "state", "status"),
    [
        ("openai_hosted", "connected", None),
        ("self_hosted", "connected", None),
        ("openai_hosted", "pending", 400),
        ("openai_hosted", "failed", 503),
        ("openai_hosted", "expired", 503),
        ("self_hosted", "disconnected", 503),
        ("none", "connected", 503),
    ],
)
def test_3_1_11_5_where_file_operations_work(
    kind: EnvironmentKind, state: EnvironmentStatus, status: int | None
) -> None:
    head = replace(idle(), environment=Environment(kind, state))
    if status is None:
        usable(head)
        return
    with pytest.raises(Refused) as caught:
        usable(head)
    assert caught.value.reason.value[0] == status
    if status == 400:
        assert caught.value.text == (
            "the hosted environment is still provisioning; wait until it is connected before accessing files"
        )
    else:
        assert caught.value.reason.value[1] == "execution_unavailable"


@pytest.mark.parametrize(
    ("owner", "at", "flying"),
    [(US, NOW, True), (OTHER, NOW + LEASE - 1, True), (OTHER, NOW + LEASE, False), (US_AGAIN, NOW, False)],
)
def test_11_19_a_write_is_in_flight_while_its_lock_stands(owner: Owner, at: int, flying: bool) -> None:
    workspace = acquire(Head(created=0, used=0), US, NOW, LEASE)
    assert workspace is not None
    assert in_flight(writing(), workspace, owner, at) is flying
    assert not in_flight(idle(), workspace, owner, at)
    assert not in_flight(writing(), None, owner, at)
    assert not in_flight(writing(), seized(workspace), owner, at)
    assert not in_flight(begin(idle(), "w", 7, NOW), workspace, owner, at)
    over = ended(writing(), "write_1")
    assert over is not None
    assert not in_flight(over, workspace, owner, at)


def test_11_23_a_seized_workspace_takes_no_late_publish() -> None:
    workspace = acquire(Head(created=0, used=0, inline="old"), US, NOW, LEASE)
    assert workspace is not None
    taken = seized(workspace)
    assert (taken.lock, taken.inline, taken.fence) == (None, "old", 2)
    with pytest.raises(Fenced):
        commit(taken, workspace.fence, NOW, inline="late", pointer="")
    assert workspaces.acquire(taken, OTHER, NOW, LEASE) is not None


def test_4_5_a_write_has_one_receipt() -> None:
    done = received(RECORD, "committed")
    for again in (done, replace(RECORD, settled=NOW, outcome="rejected")):
        with pytest.raises(ValueError, match="one receipt"):
            received(again, "rejected", "OCCUPIED")


@pytest.mark.parametrize(("receipt", "reason"), [("rejected", ""), ("committed", "OCCUPIED")])
def test_only_a_rejection_has_a_reason_and_always_one(receipt: Receipt, reason: str) -> None:
    with pytest.raises(ValueError, match="reason"):
        received(RECORD, receipt, reason)


SETTLES = [
    (None, True, "committed", False),
    (None, True, "rejected", True),
    (None, False, "committed", True),
    (None, False, "rejected", True),
    ("committed", True, "committed", True),
    ("committed", True, "rejected", False),
    ("rejected", True, "committed", False),
    ("rejected", True, "rejected", True),
    ("committed", False, "rejected", False),
    ("rejected", False, "committed", False),
]


@pytest.mark.parametrize(("receipt", "hosted", "outcome", "taken"), SETTLES)
def test_11_23_an_operator_says_nothing_against_the_record(
    receipt: Receipt | None, hosted: bool, outcome: Receipt, taken: bool
) -> None:
    record = RECORD if receipt is None else received(RECORD, receipt, "OCCUPIED" if receipt == "rejected" else "")
    if not taken:
        with pytest.raises(Contradiction):
            operator(record, 2, outcome, NOW, hosted=hosted)
        return
    done = operator(record, 2, outcome, NOW, hosted=hosted)
    assert (done.outcome, done.settled, done.by, done.receipt) == (outcome, NOW, "operator", receipt)
    with pytest.raises(ValueError, match="settled"):
        operator(done, 3, outcome, NOW, hosted=hosted)


@pytest.mark.parametrize("fence", [0, 1])
def test_11_23_an_operator_fences_first(fence: int) -> None:
    with pytest.raises(NotFenced):
        operator(RECORD, fence, "rejected", NOW, hosted=True)


def test_11_24_a_session_with_an_unsettled_write_can_be_deleted() -> None:
    gone = deleted(writing())
    assert gone.gone
    assert gone.fence == writing().fence + 1
    assert settle(gone, "write_1", NOW) is None
    assert ended(gone, "write_1") is None


@given(
    st.builds(
        Write,
        id=st.text(max_size=4),
        path=st.text(max_size=4),
        size=st.integers(0, 2**40),
        sha256=st.text(max_size=4),
        since=st.integers(0, 2**45),
        fence=st.integers(0, 2**31),
        receipt=st.sampled_from([None, "committed", "rejected"]),
        reason=st.text(max_size=4),
        outcome=st.sampled_from([None, "committed", "rejected"]),
        settled=st.none() | st.integers(0, 2**45),
        by=st.text(max_size=4),
    )
)
def test_a_write_is_read_as_it_was_written(record: Write) -> None:
    assert Write.of(record.attributes()) == record
