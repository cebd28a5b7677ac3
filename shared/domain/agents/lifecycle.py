"""A Session from its Environment's preparation to its deletion, and what is due in it (agents.md 2, 5.1, 11.8, 11.38).

Nothing here needs a timer: whoever sees a head asks what is due and does it by one swap; who loses looks again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from shared.domain.agents.head import Environment, EnvironmentKind, Pending, Session, status
from shared.domain.agents.refusals import Reason, Refused
from shared.domain.agents.turning import lapsed, overtaken, queue, runnable, waited_out
from shared.domain.session import Head as Workspace
from shared.domain.session import Owner, held

Due = Literal["provision", "provision_failed", "run", "lapsed", "waited_out", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Milliseconds: an Environment's after its last activity, a Turn's in `waiting`. `attempts` of provisioning."""

    environment: int
    waiting: int
    attempts: int = 2


def created(
    kind: EnvironmentKind, now: int, *, install: bool = False, turn: str = "", pending: Pending | None = None
) -> Session:
    """The head of a new Session. With nothing to install its Environment is connected at once (11.8).

    `turn` is the id of the Turn that its input makes, with that input as `pending`.
    """
    first: dict[EnvironmentKind, Environment] = {
        "none": Environment("none", "connected"),
        "openai_hosted": Environment("openai_hosted", "pending" if install else "connected"),
        "self_hosted": Environment("self_hosted", "disconnected"),
    }
    head = Session(created=now, used=now, clock=now, environment=first[kind])
    return head if pending is None else queue(head, turn, pending, now)


def provisioning(head: Session) -> Session:
    """The head with one more attempt begun. Errors: ValueError where nothing is to be prepared."""
    if head.gone or head.environment.status != "pending":
        raise ValueError("nothing is to be prepared")
    return replace(head, environment=replace(head.environment, attempts=head.environment.attempts + 1))


def unprovisioned(head: Session) -> Session:
    """The head after an attempt that does not count. Errors: ValueError where none was made."""
    if head.environment.status != "pending" or not head.environment.attempts:
        raise ValueError("nothing is being prepared")
    return replace(head, environment=replace(head.environment, attempts=head.environment.attempts - 1))


def connected(head: Session, now: int) -> Session:
    """The head of a prepared Environment. Errors: ValueError where it is not being prepared."""
    if head.gone or head.environment.status != "pending":
        raise ValueError("nothing is being prepared")
    return replace(head, environment=replace(head.environment, status="connected"), used=max(head.used, now))


def failed(head: Session, now: int) -> Session:
    """The head of an Environment that could not be prepared: failed for good, no Turn, no input (agents.md 2)."""
    if head.gone or head.environment.status != "pending":
        raise ValueError("nothing is being prepared")
    over = replace(head, environment=replace(head.environment, status="failed"), used=max(head.used, now))
    return over if over.active is None else overtaken(over, over.active.turn, now)


def expires(head: Session, now: int, lifetime: int) -> bool:
    """Whether the Environment is over: counted from the last activity, never while anything goes on (11.38)."""
    return (
        not head.gone
        and head.environment.status in ("connected", "disconnected")
        and head.environment.kind != "none"
        and head.active is None
        and head.pending is None
        and head.write is None
        and now >= head.used + lifetime
    )


def expired(head: Session) -> Session:
    """The head behind the expiry. The Session and its Artifacts stay until they are deleted."""
    return replace(head, environment=replace(head.environment, status="expired"))


def deleted(head: Session) -> Session:
    """The head of a deleted Session: it fences everybody out, also a write that is not settled (11.24).

    Errors: Refused unless idle or failed with nothing active or pending.
    """
    if head.gone:
        raise Refused(Reason.MISSING)
    if head.active is not None or head.pending is not None or status(head) not in ("idle", "failed"):
        raise Refused(Reason.NOT_DELETABLE)
    return replace(head, gone=True, fence=head.fence + 1, write=None)


def due(head: Session, workspace: Workspace | None, owner: Owner, now: int, lifetimes: Lifetimes) -> Due | None:
    """What whoever sees this head does now; None: nothing. `run` and `provision` are jobs, the others one swap."""
    if head.gone:
        return None
    if head.environment.status == "pending" and not (workspace is not None and held(workspace, owner, now)):
        return "provision" if head.environment.attempts < lifetimes.attempts else "provision_failed"
    if lapsed(head, owner, now):
        return "lapsed"
    if waited_out(head, now, lifetimes.waiting):
        return "waited_out"
    if runnable(head, owner, now):
        return "run"
    if expires(head, now, lifetimes.environment):
        return "expired"
    return None
