"""A Session's status, Environment, expiry, deletion, and what is due (agents.md 2, 5.1, 11.2, 11.8, 11.36 to 11.40)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from shared.domain.agents.head import (
    Environment,
    EnvironmentKind,
    EnvironmentStatus,
    Session,
    Unsettled,
    allot,
    emptied,
    status,
)
from shared.domain.agents.lifecycle import (
    Due,
    Lifetimes,
    connected,
    created,
    deleted,
    due,
    expired,
    expires,
    failed,
    provisioning,
)
from shared.domain.agents.refusals import Refused
from shared.domain.agents.turning import overtaken
from shared.domain.session import Head, Owner, acquire
from tests.unit.agents.heads import (
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

LIFETIMES = Lifetimes(environment=100_000, waiting=5_000)


@pytest.mark.parametrize(
    ("kind", "install", "state"),
    [
        ("none", False, "connected"),
        ("openai_hosted", False, "connected"),
        ("openai_hosted", True, "pending"),
        ("self_hosted", False, "disconnected"),
    ],
)
def test_11_8_the_environment_of_a_new_session(kind: EnvironmentKind, install: bool, state: EnvironmentStatus) -> None:
    head = created(kind, NOW, install=install)
    assert (head.environment.kind, head.environment.status) == (kind, state)
    assert (status(head), head.active, head.pending, head.created) == ("idle", None, None, NOW)
    busy = created(kind, NOW, install=install, turn="turn_1", pending=ONE)
    assert busy.active is not None
    assert (busy.active.turn, busy.active.status, busy.pending) == ("turn_1", "queued", ONE)


STATUS_ROWS: list[tuple[str, Session, str]] = [
    ("none", idle(), "idle"),
    ("hosted provisioning", idle("pending"), "idle"),
    ("queued", queued(), "in_progress"),
    ("claimed", claimed(), "in_progress"),
    ("running", running(), "in_progress"),
    ("waiting for results", waiting(), "requires_action"),
    ("a failed Turn is over (11.2)", overtaken(running(), "turn_1", NOW), "idle"),
    ("expired", idle("expired"), "idle"),
    ("Environment failed", idle("failed"), "failed"),
    ("unsettled write", replace(idle(), write=Unsettled("w", 0, 0)), "idle"),
    ("self-hosted, idle", created("self_hosted", NOW), "idle"),
    ("self-hosted, queued (11.40)", created("self_hosted", NOW, turn="t", pending=ONE), "requires_action"),
]


@pytest.mark.parametrize(("row", "head", "found"), STATUS_ROWS)
def test_5_1_the_status_follows_from_the_head(row: str, head: Session, found: str) -> None:
    assert status(head) == found, row


def test_2_an_environment_is_prepared_once() -> None:
    head = provisioning(provisioning(idle("pending")))
    assert head.environment.attempts == 2
    done = connected(head, NOW + 5)
    assert (done.environment.status, done.used) == ("connected", NOW + 5)
    steps: list[Callable[[], Session]] = [
        lambda: connected(done, NOW),
        lambda: failed(done, NOW),
        lambda: provisioning(done),
    ]
    for step in steps:
        with pytest.raises(ValueError, match="prepared"):
            step()


def test_2_a_failed_environment_ends_its_turn_and_takes_no_input_along() -> None:
    head = failed(replace(queued(), environment=Environment("openai_hosted", "pending")), NOW)
    assert (status(head), head.active, head.pending) == ("failed", None, None)
    assert failed(idle("pending"), NOW).active is None


DELETIONS: list[tuple[str, Session, bool]] = [
    ("idle", idle(), True),
    ("failed", idle("failed"), True),
    ("expired", idle("expired"), True),
    ("provisioning", idle("pending"), True),
    ("unsettled write (11.24)", replace(idle(), write=Unsettled("w", 0, 0)), True),
    ("queued", queued(), False),
    ("running", running(), False),
    ("steered", steered(), False),
    ("waiting", waiting(), False),
    ("machine needed", created("self_hosted", NOW, turn="t", pending=ONE), False),
]


@pytest.mark.parametrize(("row", "head", "taken"), DELETIONS)
def test_5_1_what_is_idle_or_failed_can_be_deleted(row: str, head: Session, taken: bool) -> None:
    if taken:
        gone = deleted(head)
        assert (gone.gone, gone.fence, gone.write) == (True, head.fence + 1, None), row
        with pytest.raises(Refused) as caught:
            deleted(gone)
        assert caught.value.reason.value[0] == 404
        return
    with pytest.raises(Refused) as caught:
        deleted(head)
    assert (*caught.value.reason.value[:2], caught.value.text) == (
        409,
        "conflict_error",
        "session must be durably idle or failed without required actions before deletion",
    )


STILL = [
    queued(), running(), steered(), waiting(), idle("pending"), idle("failed"), idle("expired"),
    replace(idle(), gone=True), replace(idle(), write=Unsettled("w", 0, 0)), created("none", NOW),
]  # fmt: skip


@pytest.mark.parametrize("head", STILL)
def test_11_38_nothing_expires_while_anything_goes_on(head: Session) -> None:
    assert not expires(head, NOW + 10**9, 100)


def test_11_38_an_environment_expires_at_the_exact_millisecond_after_its_last_activity() -> None:
    head = replace(idle(), used=NOW + 50)
    assert not expires(head, NOW + 149, 100)
    assert expires(head, NOW + 150, 100)
    over = expired(head)
    assert (over.environment.status, status(over), over.gone) == ("expired", "idle", False)
    assert not expires(over, NOW + 10**9, 100)


def test_11_38_the_workspace_goes_and_nobody_locks_it_again() -> None:
    over = emptied(Head(created=0, used=0, fence=4, inline="files", pointer=""))
    assert (over.inline, over.pointer, over.fence, over.gone) == ("", "", 5, True)
    assert acquire(over, US, NOW, LEASE) is None


FREE = Head(created=0, used=0)


def locked(owner: Owner = US) -> Head:
    head = acquire(FREE, owner, NOW, LEASE)
    assert head is not None
    return head


TRIED = provisioning(provisioning(idle("pending")))
ANSWERED = replace(waiting(), calls=tuple(replace(call, batch="b") for call in waiting().calls))
PREPARING = created("openai_hosted", NOW, install=True, turn="t", pending=ONE)
DUES: list[tuple[str, Session, Head | None, int, Due | None]] = [
    ("idle", idle(), FREE, NOW, None),
    ("idle for long", idle(), FREE, NOW + 100_000, "expired"),
    ("gone", replace(idle(), gone=True), FREE, NOW + 10**9, None),
    ("pending, nobody at it", idle("pending"), FREE, NOW, "provision"),
    ("pending, somebody at it", idle("pending"), locked(OTHER), NOW + LEASE - 1, None),
    ("pending, left alone", idle("pending"), locked(OTHER), NOW + LEASE, "provision"),
    ("pending, by our past", idle("pending"), locked(US_AGAIN), NOW, "provision"),
    ("pending, tried twice", TRIED, FREE, NOW, "provision_failed"),
    ("pending, trying twice", TRIED, locked(OTHER), NOW, None),
    ("queued", queued(), FREE, NOW, "run"),
    ("claimed", claimed(OTHER), FREE, NOW, None),
    ("claimed and left", claimed(OTHER), FREE, NOW + LEASE, "run"),
    ("running", running(OTHER), FREE, NOW + LEASE - 1, None),
    ("running, left (11.36)", running(OTHER), FREE, NOW + LEASE, "lapsed"),
    ("running, by our past", running(US_AGAIN), FREE, NOW, "lapsed"),
    ("waiting", waiting(), FREE, NOW + 4_999, None),
    ("waiting for too long (11.37)", waiting(), FREE, NOW + 5_000, "waited_out"),
    ("all results", ANSWERED, FREE, NOW + 10_000, "run"),
    ("self-hosted, queued", created("self_hosted", NOW, turn="t", pending=ONE), None, NOW + 10**9, None),
    ("none, queued", created("none", NOW, turn="t", pending=ONE), None, NOW, "run"),
    ("none, idle for long", created("none", NOW), None, NOW + 10**9, None),
    ("provisioning, Turn queued", PREPARING, locked(), NOW, None),
]


@pytest.mark.parametrize(("row", "head", "workspace", "at", "found"), DUES)
def test_what_is_due_is_seen_by_whoever_looks(
    row: str, head: Session, workspace: Head | None, at: int, found: Due | None
) -> None:
    assert due(head, workspace, US, at, LIFETIMES) == found, row


def test_11_26_numbers_and_times_never_go_back_within_a_session() -> None:
    first = allot(idle(), NOW + 10, 3)
    assert (first.first, first.now, first.head.sequence) == (1, NOW + 10, 3)
    second = allot(first.head, NOW, 2)
    assert (second.first, second.now, second.head.sequence) == (4, NOW + 10, 5)
