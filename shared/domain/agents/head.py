"""The head item of a Session: what is pending, what is active, what is unsettled (DESIGN §8, agents.md 5.1).

It says nothing of files: the workspace has a head of its own in the same partition (`shared.domain.session`). The
transitions of the head are in `turning`, `admission`, `writes` and `lifecycle`; here are its shape, its text and what
follows from it.

Invariants: an unsettled write excludes an active Turn and pending input; pending input has an active Turn; a Turn in
progress has a lock, a waiting one only while it is taken up again; sequence, clock, fence and revision never go back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from shared.domain.session import Head as Workspace
from shared.domain.session import Lock, Owner, held

EnvironmentKind = Literal["none", "openai_hosted", "self_hosted"]
EnvironmentStatus = Literal["pending", "connected", "disconnected", "expired", "failed"]
"""`ready` is never emitted (11.8), `suspended` neither."""
ActiveStatus = Literal["queued", "in_progress", "waiting"]
Status = Literal["idle", "in_progress", "requires_action", "failed"]


@dataclass(frozen=True, slots=True)
class Environment:
    """The Environment. `attempts` counts how often its provisioning was begun."""

    kind: EnvironmentKind
    status: EnvironmentStatus
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Open:
    """An item in progress, to be made `incomplete` by whoever ends its Turn."""

    item: str
    output_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """The root Turn that is not over. `lock` says who runs it, `fence` under which number; `since` is when it came
    into its status (epoch milliseconds)."""

    turn: str
    status: ActiveStatus
    since: int
    fence: int = 0
    lock: Lock | None = None
    cancel: bool = False
    open: tuple[Open, ...] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """An admitted batch that no Turn has taken up yet: `taken` of its `count` items are materialised (11.27)."""

    batch: str
    count: int
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A function call of the active Turn. Answered: `batch` holds its result, `digest` tells it from another."""

    call: str
    turn: str
    item: str
    batch: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The write that is not settled. `fence` is the workspace's under which it publishes; `ended` says that its
    attempt is over, so that nobody waits for it (11.19)."""

    write: str
    since: int
    fence: int
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The head. Times are epoch milliseconds; `clock` is the latest that was given to anything of the Session."""

    created: int
    used: int
    clock: int
    environment: Environment
    sequence: int = 0
    fence: int = 0
    revision: int = 0
    active: Active | None = None
    pending: Pending | None = None
    write: Unsettled | None = None
    calls: tuple[Call, ...] = ()
    gone: bool = False

    def attributes(self) -> dict[str, Any]:
        """The item's attributes."""
        return {
            "created": self.created,
            "used": self.used,
            "clock": self.clock,
            "environment": [self.environment.kind, self.environment.status, self.environment.attempts],
            "sequence": self.sequence,
            "fence": self.fence,
            "revision": self.revision,
            "active": None if self.active is None else _active(self.active),
            "pending": None if self.pending is None else [self.pending.batch, self.pending.count, self.pending.taken],
            "write": None
            if self.write is None
            else [self.write.write, self.write.since, self.write.fence, self.write.ended],
            "calls": [[call.call, call.turn, call.item, call.batch, call.digest] for call in self.calls],
            "gone": self.gone,
        }

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Session:
        """Read the item's attributes."""
        row = attributes
        return cls(
            created=row["created"],
            used=row["used"],
            clock=row["clock"],
            environment=Environment(*row["environment"]),
            sequence=row["sequence"],
            fence=row["fence"],
            revision=row["revision"],
            active=None if row["active"] is None else _active_of(row["active"]),
            pending=None if row["pending"] is None else Pending(*row["pending"]),
            write=None if row["write"] is None else Unsettled(*row["write"]),
            calls=tuple(Call(*call) for call in row["calls"]),
            gone=row["gone"],
        )


def _active(active: Active) -> dict[str, Any]:
    lock = active.lock
    return {
        "turn": active.turn,
        "status": active.status,
        "since": active.since,
        "fence": active.fence,
        "lock": None if lock is None else [lock.owner.name, lock.owner.incarnation, lock.until],
        "cancel": active.cancel,
        "open": [[item.item, item.output_index] for item in active.open],
    }


def _active_of(row: Mapping[str, Any]) -> Active:
    lock = row["lock"]
    return Active(
        turn=row["turn"],
        status=row["status"],
        since=row["since"],
        fence=row["fence"],
        lock=None if lock is None else Lock(Owner(lock[0], lock[1]), lock[2]),
        cancel=row["cancel"],
        open=tuple(Open(*item) for item in row["open"]),
    )


@dataclass(frozen=True, slots=True)
class Allotted:
    """Numbers of the sequence, from `first` on, and the time (epoch milliseconds) of everything that gets one."""

    head: Session
    first: int
    now: int


def allot(head: Session, now: int, count: int) -> Allotted:
    """Take `count` numbers. The time never goes back within a Session, whatever the clock does (11.26)."""
    time = max(now, head.clock)
    return Allotted(replace(head, sequence=head.sequence + count, clock=time), head.sequence + 1, time)


def status(head: Session) -> Status:
    """The Session's status (agents.md 5.1 with 11.2): a failed Turn leaves it idle, a failed Environment failed."""
    if head.environment.status == "failed":
        return "failed"
    if head.active is None:
        return "idle"
    if waits_for_machine(head) or any(not call.batch for call in head.calls):
        return "requires_action"
    return "in_progress"


def waits_for_machine(head: Session) -> bool:
    """Whether a queued Turn waits for a machine of the caller's (11.40)."""
    environment = head.environment
    return (
        environment.kind == "self_hosted"
        and environment.status == "disconnected"
        and head.active is not None
        and head.active.status == "queued"
    )


def in_flight(head: Session, workspace: Workspace | None, owner: Owner, now: int) -> bool:
    """Whether the attempt of the unsettled write may still go on: its lock of the workspace stands (11.19)."""
    write = head.write
    return (
        write is not None
        and not write.ended
        and workspace is not None
        and workspace.fence == write.fence
        and held(workspace, owner, now)
    )


def seized(workspace: Workspace) -> Workspace:
    """The workspace taken from whoever holds it: nothing can be committed under an older fence any more."""
    return replace(workspace, fence=workspace.fence + 1, lock=None)


def emptied(workspace: Workspace) -> Workspace:
    """The workspace of an expired Environment or a deleted Session: no files, and nobody can lock it."""
    return replace(seized(workspace), inline="", pointer="", gone=True)
