"""The head of a session: its lock, its fence and the manifest it is at. Item in, item out (DESIGN §5).

     caller A   head v7 ── acquire(fence 8) if v7 ── run … ── commit if fence 8 ── v9
     caller B   head v8 is locked: waits, or after the lease acquires with fence 9
     late A     commit: the fence is 9, not 8 → Fenced; what A stored are orphans

The fence protects, not the clock: the lease only says when somebody else may take the lock over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


class Fenced(Exception):
    """The lock was taken over, released, or the session is gone: nothing may be committed under the old fence."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a lock. Of two incarnations of one name, at most one lives: the other's locks are free."""

    name: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Lock:
    """A held lock; `until` is epoch milliseconds."""

    owner: Owner
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head item. `inline` is the encoded manifest in Base64, `pointer` the object that holds it; both may be
    empty (no files). Times are epoch milliseconds. `gone` marks a session whose removal has begun.
    """

    created: int
    used: int
    fence: int = 0
    lock: Lock | None = None
    inline: str = ""
    pointer: str = ""
    gone: bool = False

    def attributes(self) -> dict[str, Any]:
        """The item's attributes."""
        lock = self.lock
        return {
            "created": self.created,
            "used": self.used,
            "fence": self.fence,
            "lock": None if lock is None else [lock.owner.name, lock.owner.incarnation, lock.until],
            "inline": self.inline,
            "pointer": self.pointer,
            "gone": self.gone,
        }

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Head:
        """Read the item's attributes."""
        lock = attributes["lock"]
        return cls(
            created=attributes["created"],
            used=attributes["used"],
            fence=attributes["fence"],
            lock=None if lock is None else Lock(Owner(lock[0], lock[1]), lock[2]),
            inline=attributes["inline"],
            pointer=attributes["pointer"],
            gone=attributes["gone"],
        )


def held(head: Head, owner: Owner, now: int) -> bool:
    """Whether somebody else's lock stands at `now`, as `owner` sees it."""
    lock = head.lock
    if lock is None or now >= lock.until:
        return False
    same_name = lock.owner.name == owner.name
    return not (same_name and lock.owner.incarnation != owner.incarnation)


def live(head: Head, now: int, lifetime: int) -> bool:
    """Whether the session exists for callers: not gone, and used within its lifetime or locked now (exec.md A8.14)."""
    if head.gone:
        return False
    return now < head.used + lifetime or (head.lock is not None and now < head.lock.until)


def acquire(head: Head, owner: Owner, now: int, lease: int) -> Head | None:
    """The head locked by `owner` under the next fence, or None while another holds it."""
    if head.gone or held(head, owner, now):
        return None
    return replace(head, fence=head.fence + 1, lock=Lock(owner, now + lease), used=max(now, head.used))


def renew(head: Head, fence: int, now: int, lease: int) -> Head:
    """The head with a longer lease. Errors: Fenced."""
    lock = _own(head, fence)
    return replace(head, lock=replace(lock, until=max(lock.until, now + lease)))


def commit(head: Head, fence: int, now: int, *, inline: str, pointer: str) -> Head:
    """The head at the next version, unlocked. Errors: Fenced."""
    _own(head, fence)
    return replace(head, lock=None, inline=inline, pointer=pointer, used=max(now, head.used))


def release(head: Head, fence: int) -> Head:
    """The head unlocked and otherwise unchanged. Errors: Fenced."""
    _own(head, fence)
    return replace(head, lock=None)


def _own(head: Head, fence: int) -> Lock:
    if head.gone or head.fence != fence or head.lock is None:
        raise Fenced
    return head.lock
