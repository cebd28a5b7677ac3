"""Admitting one batch of input events: the gates, then each event in order; all or nothing (agents.md 5.2, 11.27).

The batch becomes one immutable record and the head is swapped once; the Turn materialises the items afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.domain.agents.head import Call, Pending, Session
from shared.domain.agents.refusals import Reason, Refused
from shared.domain.agents.turning import overtaken, queue
from shared.domain.session import Owner


@dataclass(frozen=True, slots=True)
class Message:
    """`agent.session.input.message`: so many user messages."""

    count: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """`agent.session.input.cancel`."""


@dataclass(frozen=True, slots=True)
class Result:
    """`agent.session.input.tool_result`; `digest` is over success, output and error."""

    turn: str
    call: str
    digest: str


Event = Message | Cancel | Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """What a batch makes of the head, and what else its transaction writes.

    `messages`: indices of the message events that become items, those behind the last cancel. `created`: the Turn
    that it queues. `ended`: the Turn that is cancelled in the same transaction (with its open items, and the workspace
    seized). `stop`: the Turn whose program this process is to stop; its holder writes the end.
    """

    head: Session
    messages: tuple[int, ...] = ()
    created: str = ""
    ended: str = ""
    stop: str = ""


def effective(events: Sequence[Event]) -> tuple[int, ...]:
    """The message events that become items: a cancel also takes back what the same batch said before it."""
    cancels = [index for index, event in enumerate(events) if isinstance(event, Cancel)]
    begin = cancels[-1] + 1 if cancels else 0
    return tuple(index for index in range(begin, len(events)) if isinstance(events[index], Message))


def admit(
    head: Session,
    events: Sequence[Event],
    *,
    batch: str,
    turn: str,
    owner: Owner,
    now: int,
    writing: bool = False,
) -> Admitted:
    """Apply a batch. `turn` is the id of a Turn that it may queue; `writing` says that the unsettled write's attempt
    is still going on (`head.in_flight`). A running Turn of another holder than `owner` is overtaken by a cancel.

    Errors: Refused.
    """
    if head.gone:
        raise Refused(Reason.MISSING)
    said = any(isinstance(event, Message) for event in events)
    if said and head.write is not None:
        raise Refused(Reason.TURN_STATE, retry=writing)
    if said and head.pending is not None:
        raise Refused(Reason.PENDING_INPUT)
    now = max(now, head.clock)
    done = Admitted(head=head)
    for event in events:
        if isinstance(event, Cancel):
            done = _cancel(done, owner, now)
        elif isinstance(event, Result):
            done = replace(done, head=_answered(done.head, event, batch))
        elif head.environment.status == "failed":
            raise Refused(Reason.ENVIRONMENT_FAILED)
        elif head.environment.status == "expired":
            raise Refused(Reason.ENVIRONMENT_EXPIRED)
    chosen = effective(events)
    if chosen:
        count = sum(event.count for event in map(events.__getitem__, chosen) if isinstance(event, Message))
        done = _say(replace(done, messages=chosen), Pending(batch, count), turn, now)
    return replace(done, head=replace(done.head, used=max(done.head.used, now))) if done.head != head else done


def _say(done: Admitted, pending: Pending, turn: str, now: int) -> Admitted:
    """On an idle Session a new Turn; else it steers the one that runs, or follows the one that is to be cancelled."""
    if done.head.active is None:
        return replace(done, head=queue(done.head, turn, pending, now), created=turn)
    return replace(done, head=replace(done.head, pending=pending))


def _cancel(done: Admitted, owner: Owner, now: int) -> Admitted:
    """Without an active Turn nothing happens. What is pending goes with the Turn."""
    active = done.head.active
    if active is None:
        return done
    head = replace(done.head, pending=None)
    mine = active.lock is not None and active.lock.owner == owner
    if active.status == "in_progress" and mine:
        return replace(done, head=replace(head, active=replace(active, cancel=True)), stop=active.turn)
    return replace(done, head=overtaken(head, active.turn, now), ended=active.turn)


def _answered(head: Session, result: Result, batch: str) -> Session:
    """The result recorded with its call; the same one again changes nothing (agents.md 5.2, 11.11)."""
    for index, call in enumerate(head.calls):
        if call.call != result.call:
            continue
        if call.turn != result.turn:
            raise Refused(Reason.OTHER_TURN)
        if call.batch and call.digest != result.digest:
            raise Refused(Reason.DIFFERENT_RESULT)
        if call.batch:
            return head
        answered: tuple[Call, ...] = (replace(call, batch=batch, digest=result.digest),)
        return replace(head, calls=head.calls[:index] + answered + head.calls[index + 1 :])
    raise Refused(Reason.UNKNOWN_CALL, result.call)
