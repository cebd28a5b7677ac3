"""How a Turn moves through the Session's head: who runs it, under which fence, and what follows it (agents.md 5.4).

     queued ─ claim(fence f) ─ take… ─ start ─ … ─ finish under f
     somebody else's cancel or recovery: `overtaken` advances the fence; what comes late under f is Fenced

The fence protects, not the clock. Every function is head in, head out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from shared.domain.agents.head import Active, Call, Open, Pending, Session
from shared.domain.agents.turns import Outcome
from shared.domain.session import Fenced, Lock, Owner, held
from shared.domain.session import Head as Workspace

__all__ = ["Fenced"]


class NotFinal(Exception):
    """A Turn cannot complete yet: input is pending, it is to be cancelled, or a deletion moved the artifacts."""


def queue(head: Session, turn: str, pending: Pending, now: int) -> Session:
    """A new Turn for admitted input; there is no other one. Errors: ValueError."""
    if head.active is not None:
        raise ValueError("a Turn is active")
    return replace(head, active=Active(turn=turn, status="queued", since=now), pending=pending, used=_later(head, now))


def runnable(head: Session, owner: Owner, now: int) -> bool:
    """Whether a Turn is there to be claimed: queued or with all its results, its Environment usable, held by nobody."""
    active = head.active
    if active is None or head.gone or active.cancel or _held(active, owner, now):
        return False
    if head.environment.kind != "none" and head.environment.status != "connected":
        return False
    if active.status == "waiting":
        return all(call.batch for call in head.calls)
    return active.status == "queued"


def claim(head: Session, turn: str, owner: Owner, now: int, lease: int) -> Session | None:
    """The head with that Turn held by `owner` under the next fence, or None: it is not to be run, or not now.

    A Turn in progress is never claimed: it is never run twice (11.36).
    """
    active = head.active
    if active is None or active.turn != turn or not runnable(head, owner, now):
        return None
    fence = head.fence + 1
    return replace(head, fence=fence, active=replace(active, fence=fence, lock=Lock(owner, now + lease)))


def renew(head: Session, turn: str, fence: int, now: int, lease: int) -> Session:
    """The head with a longer lease. Errors: Fenced."""
    active, lock = own(head, turn, fence)
    return replace(head, active=replace(active, lock=replace(lock, until=max(lock.until, now + lease))))


def take(head: Session, turn: str, fence: int, count: int) -> Session:
    """`count` more items of the pending batch are materialised; with the last one nothing is pending (11.27).

    A Turn that is to be cancelled takes nothing more: what is pending then is the next one's.
    Errors: Fenced; NotFinal where it is to be cancelled; ValueError for more than there are.
    """
    active, _ = own(head, turn, fence)
    if active.cancel:
        raise NotFinal
    pending = head.pending
    if pending is None or not 0 <= count <= pending.count - pending.taken:
        raise ValueError("more items than the batch has")
    taken = pending.taken + count
    return replace(head, pending=replace(pending, taken=taken) if taken < pending.count else None)


def start(head: Session, turn: str, fence: int, now: int) -> Session:
    """The Turn in progress: all its input is materialised, and so are the results of its calls. Errors: Fenced."""
    active, _ = own(head, turn, fence)
    if active.status == "queued" and head.pending is not None:
        raise ValueError("input is not materialised yet")
    return replace(head, active=replace(active, status="in_progress", since=now), calls=())


def opened(head: Session, turn: str, fence: int, items: Iterable[Open]) -> Session:
    """The items that are in progress from now on, in the place of the former ones. Errors: Fenced."""
    active, _ = own(head, turn, fence)
    return replace(head, active=replace(active, open=tuple(items)))


def wait(head: Session, turn: str, fence: int, calls: Iterable[Call], now: int) -> Session:
    """The Turn waits for the results of its calls; nobody holds it meanwhile (11.37).

    Errors: Fenced; NotFinal where it is to be cancelled; ValueError without a call.
    """
    active, _ = own(head, turn, fence)
    if active.cancel:
        raise NotFinal
    waiting = tuple(calls)
    if not waiting or active.status != "in_progress":
        raise ValueError("a Turn in progress waits for a call at least")
    return replace(
        head, active=replace(active, status="waiting", since=now, lock=None), calls=waiting, used=_later(head, now)
    )


def finish(
    head: Session,
    turn: str,
    fence: int,
    outcome: Outcome,
    now: int,
    *,
    successor: str = "",
    revision: int | None = None,
) -> Session:
    """The head behind a Turn's end, as its holder writes it.

    `successor` is the id of the Turn that takes up what is pending, needed where something is. A completed Turn
    published under `revision`. Errors: Fenced; NotFinal where it cannot complete, so that its holder looks again.
    """
    active, _ = own(head, turn, fence)
    if outcome == "completed" and (
        active.status != "in_progress" or active.cancel or head.pending is not None or revision != head.revision
    ):
        raise NotFinal
    if outcome == "failed" and active.cancel:
        raise NotFinal
    return _over(head, now, successor)


def overtaken(head: Session, turn: str, now: int, *, successor: str = "") -> Session:
    """The head behind a Turn's end, as anybody writes it who may: its holder is fenced out.

    Errors: Fenced where that Turn is over already.
    """
    if head.gone or head.active is None or head.active.turn != turn:
        raise Fenced
    return replace(_over(head, now, successor), fence=head.fence + 1)


def _over(head: Session, now: int, successor: str) -> Session:
    """No Turn, no call; or, where input is pending, the next one: what was admitted is not lost with a Turn."""
    active = None
    pending = head.pending
    if pending is not None and head.environment.status not in ("failed", "expired"):
        if not successor:
            raise ValueError("pending input needs a successor")
        active = Active(turn=successor, status="queued", since=now)
    else:
        pending = None
    return replace(head, active=active, pending=pending, calls=(), used=_later(head, now))


def lapsed(head: Session, owner: Owner, now: int) -> bool:
    """Whether a Turn is in progress in nobody's hand: whoever sees it ends it (11.36)."""
    active = head.active
    return active is not None and active.status == "in_progress" and not _held(active, owner, now)


def waited_out(head: Session, now: int, lifetime: int) -> bool:
    """Whether a Turn has waited for a result as long as it may: it fails with `request_timeout` (11.37)."""
    active = head.active
    unanswered = any(not call.batch for call in head.calls)
    return active is not None and active.status == "waiting" and unanswered and now >= active.since + lifetime


def own(head: Session, turn: str, fence: int) -> tuple[Active, Lock]:
    """The Turn and its lock, if it is still in the hand of whoever claimed it under `fence`. Errors: Fenced."""
    active = head.active
    if head.gone or active is None or active.turn != turn or active.fence != fence or active.lock is None:
        raise Fenced
    return active, active.lock


def _held(active: Active, owner: Owner, now: int) -> bool:
    """By the rule of the workspace's lock: another incarnation of the same name no longer lives."""
    return active.lock is not None and held(Workspace(created=0, used=0, lock=active.lock), owner, now)


def _later(head: Session, now: int) -> int:
    return max(head.used, now)
