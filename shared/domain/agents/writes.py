"""A file write: intent before any byte, a definite receipt or none, and the operator's word (agents.md 4, 11.22–11.24).

intent   head.write = w, record w "unsettled", workspace locked under fence F        ─ one transaction
publish  the workspace's next version and record w "committed" | "rejected", if F    ─ one transaction
settle   head.write = none                                                           ─ one transaction
crash    between two of them: unsettled, whatever the record says, until an operator has fenced and settled it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from shared.domain.agents.head import Session, Unsettled
from shared.domain.agents.refusals import Reason, Refused

Receipt = Literal["committed", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The record of a write. `receipt` is what the Runtime said, None before; `reason` names a `Reason` of a rejection.

    `since` and `settled` are epoch milliseconds; `by` says who settled it, "attempt" or "operator".
    """

    id: str
    path: str
    size: int
    sha256: str
    since: int
    fence: int
    receipt: Receipt | None = None
    reason: str = ""
    outcome: Receipt | None = None
    settled: int | None = None
    by: str = ""

    def attributes(self) -> dict[str, Any]:
        """The item's attributes."""
        return {name: getattr(self, name) for name in Write.__slots__}

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Write:
        """Read the item's attributes."""
        return cls(**attributes)


class Contradiction(Exception):
    """The operator's outcome is not what the record says, or not what the fence lets be true (11.23)."""


class NotFenced(Exception):
    """A write is settled by an operator only after its fence was passed: it could still be published."""


def gate(head: Session, *, writing: bool) -> None:
    """Refuse a new write while input is pending, a Turn is active or a write is unsettled (agents.md 3.3 row 13).

    `writing`: that write's attempt is still going on, so that trying again soon may help. Errors: Refused.
    """
    if head.gone:
        raise Refused(Reason.MISSING)
    if head.active is not None or head.pending is not None:
        raise Refused(Reason.WRITE_GATE)
    if head.write is not None:
        raise Refused(Reason.WRITE_GATE, retry=writing)


def usable(head: Session) -> None:
    """Refuse file operations where the Environment cannot serve them (agents.md 3.1, 11.5). Errors: Refused."""
    if head.environment.kind == "openai_hosted" and head.environment.status == "pending":
        raise Refused(Reason.PROVISIONING)
    if head.environment.kind == "none" or head.environment.status != "connected":
        raise Refused(Reason.EXECUTION)


def begin(head: Session, write: str, fence: int, now: int, *, writing: bool = False) -> Session:
    """The head with the intent; `fence` is the workspace's under which it publishes. Errors: Refused."""
    gate(head, writing=writing)
    now = max(now, head.clock)
    return replace(head, write=Unsettled(write, now, fence), clock=now, used=max(head.used, now))


def received(write: Write, receipt: Receipt, reason: str = "") -> Write:
    """The record with the Runtime's receipt. Errors: ValueError where it has one: bytes are never sent twice."""
    if write.receipt is not None or write.settled is not None:
        raise ValueError("a write has one receipt")
    if (receipt == "rejected") != bool(reason):
        raise ValueError("a rejection has a reason")
    return replace(write, receipt=receipt, reason=reason)


def settle(head: Session, write: str, now: int) -> Session | None:
    """The head without that write, or None where it is settled already or gone with its Session."""
    if head.gone or head.write is None or head.write.write != write:
        return None
    return replace(head, write=None, used=max(head.used, now))


def ended(head: Session, write: str) -> Session | None:
    """The head that says that the attempt of its unsettled write is over; None where that write is not there."""
    if head.gone or head.write is None or head.write.write != write:
        return None
    return replace(head, write=replace(head.write, ended=True))


def operator(write: Write, fence: int, outcome: Receipt, now: int, *, hosted: bool) -> Write:
    """The record as an operator settles it, after `fence` (the workspace's) has passed the write's (11.23).

    Of a hosted Runtime no receipt means that nothing was published, and nothing can be any more; another Runtime keeps
    records of its own, so the operator decides. Errors: NotFenced, Contradiction; ValueError where it is settled.
    """
    if write.settled is not None:
        raise ValueError("settled already")
    if fence <= write.fence:
        raise NotFenced
    true = write.receipt if write.receipt is not None or not hosted else "rejected"
    if true is not None and outcome != true:
        raise Contradiction
    return replace(write, outcome=outcome, settled=now, by="operator")
