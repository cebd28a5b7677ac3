"""Reading and committing the versions of a workspace: get, decide by the pure rules, compare and swap.

Nothing is changed in place. A crash before the swap leaves objects that no manifest names; the janitor takes them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shared.domain import session as rules
from shared.domain.ids import is_short_id, short_id
from shared.domain.manifest import BadManifest, Manifest
from shared.domain.session import Head
from shared.errors import Code, Failure
from shared.limits import Limits
from shared.operations import names
from shared.operations.budget import Budget
from shared.operations.room import Room
from shared.store.ports import Action, Conflict, DeleteIf, Item, ObjectMissing, PutIf, PutNew, StoreUnavailable

_POLL_S = (0.005, 0.02)
_SLOWER = 0.1
_SLOWEST_S = 0.1
_SLACK_MS = 60_000


@dataclass(frozen=True, slots=True)
class Opened:
    """A session as it was read: its item's version and its head. `version` 0 means that it is not stored yet."""

    project: str
    session: str
    version: int
    head: Head

    @property
    def partition(self) -> str:
        """The session's partition."""
        return names.session(self.project, self.session)


def find(room: Room, project: str, session: str) -> Opened | None:
    """The live session of that id in this project, or None: unknown, foreign, expired and malformed are the same."""
    if not is_short_id(session):
        return None
    opened = at(room, project, session)
    if opened is None or not rules.live(opened.head, room.clock(), room.limits.session_ms):
        return None
    return opened


def at(room: Room, project: str, session: str) -> Opened | None:
    """The session as its head item says, or None where there is none. Neither its id nor its lifetime is looked at."""
    item = room.state.get(names.session(project, session), names.HEAD)
    return None if item is None else Opened(project, session, item.version, Head.of(item.attributes))


def need(room: Room, project: str, session: str) -> Opened:
    """The live session, or 404."""
    opened = find(room, project, session)
    if opened is None:
        raise Failure(Code.NOT_FOUND, "No such session.")
    return opened


def fresh(room: Room, project: str, session: str | None = None) -> Opened:
    """A session that is not stored yet: its id is known to nobody, so it needs no lock until it is committed."""
    now = room.clock()
    return Opened(project, session or short_id(os.urandom), 0, Head(created=now, used=now))


def creation(opened: Opened, head: Head) -> list[Action]:
    """The actions that store a new session: its head and its index row, in one transaction."""
    return [
        PutNew(opened.partition, names.HEAD, head.attributes()),
        PutNew(names.project(opened.project), names.session_row(opened.session), {"created": head.created}),
    ]


def manifest_of(room: Room, head: Head, *, hold: bool = True) -> Manifest:
    """The manifest that a head is at; `hold` keeps it decoded for the next. Errors: StoreUnavailable, it is lost."""
    where = head.inline or head.pointer
    if not where:
        return Manifest()
    found = room.manifests.get(where)
    if found is None:
        try:
            data = base64.b64decode(head.inline) if head.inline else b"".join(room.objects.read(head.pointer))
            found = Manifest.decode(data)
        except (BadManifest, ObjectMissing, ValueError) as error:
            raise StoreUnavailable("manifest") from error
        if hold:
            room.manifests.put(where, found)
    return found


def place(room: Room, opened: Opened, manifest: Manifest) -> tuple[str, str]:
    """Store a manifest and say where: (inline, pointer). A large one becomes an object."""
    if len(manifest) == 0:
        return "", ""
    data = manifest.encode()
    inline, pointer = "", ""
    if len(data) <= room.limits.inline_item_bytes:
        inline = base64.b64encode(data).decode("ascii")
    else:
        pointer = put_object(room, opened, data)
    room.manifests.put(inline or pointer, manifest)
    return inline, pointer


def excess(limits: Limits, *, entries: int, size: int, names: int) -> str | None:
    """Which limit a workspace of that many entries, bytes, and bytes of names would break, in words."""
    if entries > limits.workspace_entries:
        return f"{limits.workspace_entries} entries"
    if size > limits.workspace_bytes:
        return f"{limits.workspace_bytes} bytes"
    if names > limits.names_bytes:
        return f"{limits.names_bytes} bytes of names"
    return None


def grace_ms(room: Room) -> int:
    """How long an object that nothing names is left alone: no commit may name an older one that is new to it.

    It covers the longest run, wait for a lock and upload grant in a row.
    """
    limits = room.limits
    return limits.run_ms_max + limits.lock_wait_ms + limits.grant_ms + limits.lease_ms + _SLACK_MS


def new_key(opened: Opened) -> str:
    """A fresh object key of the session. No path ever stands in a key."""
    return f"{opened.partition}/{short_id(os.urandom)}"


def put_object(room: Room, opened: Opened, data: bytes) -> str:
    """Store bytes under a fresh key of the session; the key."""
    key = new_key(opened)
    room.objects.put_new(key, data, hashlib.sha256(data).hexdigest())
    return key


def waited(
    room: Room,
    attempt: Callable[[], Opened | None],
    gone: Callable[[], bool] = lambda: False,
    most_ms: int | None = None,
) -> Opened:
    """Try until the session is free, with jitter, for as long as the wait allows; then 409 busy.

    The pauses grow to a tenth of the time waited, so that a crowd of waiters does not keep the store busy. `gone`
    says that nobody waits any more: 499. `most_ms` bounds the wait; by default the limits do.
    """
    begun = time.monotonic()
    most = (Budget(room.limits.answer_ms).wait_ms(room.limits) if most_ms is None else most_ms) / 1000
    while True:
        if gone():
            raise Failure(Code.CANCELLED)
        opened = attempt()
        if opened is not None:
            return opened
        passed = time.monotonic() - begun
        if passed >= most:
            raise Failure(Code.BUSY, retry_after=1)
        time.sleep(random.uniform(_POLL_S[0], max(_POLL_S[1], min(_SLOWER * passed, _SLOWEST_S))))


def lock(
    room: Room,
    project: str,
    session: str,
    gone: Callable[[], bool] = lambda: False,
    most_ms: int | None = None,
    need: Callable[[Room, str, str], Opened] = need,
) -> Opened:
    """Lock a session, waiting while another run holds it, as `waited`. Errors: 404; 409 busy; 499; those of `need`.

    `need` reads it at each attempt and raises where it may not be locked, by default where no live one is there.
    """

    def attempt() -> Opened | None:
        opened = need(room, project, session)
        head = rules.acquire(opened.head, room.owner, room.clock(), room.limits.lease_ms)
        if head is None:
            return None
        try:
            (version,) = room.state.transact([_put(opened, head)])
        except Conflict:
            return None
        return Opened(project, session, version, head)

    return waited(room, attempt, gone, most_ms)


def renew(room: Room, opened: Opened) -> None:
    """Lengthen the lease. Errors: Fenced."""
    _swap(room, opened, lambda head: rules.renew(head, opened.head.fence, room.clock(), room.limits.lease_ms))


def release(room: Room, opened: Opened) -> None:
    """Unlock without a new version; a lock that is no longer ours stays as it is."""
    try:
        _swap(room, opened, lambda head: rules.release(head, opened.head.fence))
    except rules.Fenced:
        return


def abandon(room: Room, opened: Opened, rows: Sequence[Item]) -> None:
    """Remove a session that was made for a run that came to nothing, with its rows, if its lock is still ours."""
    item = room.state.get(opened.partition, names.HEAD)
    while item is not None:
        try:
            rules.release(Head.of(item.attributes), opened.head.fence)
        except rules.Fenced:
            return
        doomed = [item, *rows]
        try:
            room.state.transact([DeleteIf(row.partition, row.sort, row.version) for row in doomed])
        except Conflict as conflict:
            if any(loss.index != 0 for loss in conflict.losses):
                release(room, opened)
                return
            item = conflict.losses[0].current
        else:
            return


def commit_run(room: Room, opened: Opened, manifest: Manifest | None, also: Sequence[Action] = ()) -> None:
    """Commit a run's version and unlock, in one transaction with `also`. None keeps the manifest as it is.

    Errors: as `swap_manifest`.
    """
    where = (opened.head.inline, opened.head.pointer) if manifest is None else place(room, opened, manifest)
    swap_manifest(room, opened, where, also)


def swap_manifest(room: Room, opened: Opened, where: tuple[str, str], also: Sequence[Action] = ()) -> None:
    """Make a manifest that `place` has stored the session's and unlock it, in one transaction with `also`.

    It may be called again with the same `where` after a Conflict. A session that is not stored yet is created.
    Errors: Fenced, when the lock was lost meanwhile; Conflict, when one of `also` lost: the index of each loss is its
    place in `also`, and a negative one is the session's own row, which is there already.
    """
    inline, pointer = where
    if opened.version == 0:
        head = Head(created=opened.head.created, used=room.clock(), inline=inline, pointer=pointer)
        rows = creation(opened, head)
        try:
            room.state.transact([*rows, *also])
        except Conflict as conflict:
            raise _shifted(conflict, len(rows)) from None
        return
    fence = opened.head.fence
    _swap(room, opened, lambda head: rules.commit(head, fence, room.clock(), inline=inline, pointer=pointer), also)


def change(
    room: Room,
    project: str,
    session: str,
    edit: Callable[[Opened, Manifest], Manifest],
    also: Sequence[Action] = (),
) -> None:
    """Make the next version of an unlocked session by `edit`, waiting while a run holds it, in one transaction.

    Errors: 404; 409 busy; Conflict, when one of `also` lost, indexed as in `swap_manifest`.
    """

    def attempt() -> Opened | None:
        opened = need(room, project, session)
        now = room.clock()
        locked = rules.acquire(opened.head, room.owner, now, room.limits.lease_ms)
        if locked is None:
            return None
        inline, pointer = place(room, opened, edit(opened, manifest_of(room, opened.head)))
        head = rules.commit(locked, locked.fence, now, inline=inline, pointer=pointer)
        try:
            room.state.transact([_put(opened, head), *also])
        except Conflict as conflict:
            if any(loss.index != 0 for loss in conflict.losses):
                raise _shifted(conflict, 1) from None
            return None
        return opened

    waited(room, attempt)


def _put(opened: Opened, head: Head) -> PutIf:
    return PutIf(opened.partition, names.HEAD, opened.version, head.attributes())


def _swap(room: Room, opened: Opened, step: Callable[[Head], Head], also: Sequence[Action] = ()) -> None:
    """Apply `step` to the head as it is now. Our own renewal may move the version; only the fence decides."""
    item: Item | None = Item(opened.partition, names.HEAD, opened.version, opened.head.attributes())
    while True:
        if item is None:
            raise rules.Fenced
        head = step(Head.of(item.attributes))
        try:
            room.state.transact([PutIf(opened.partition, names.HEAD, item.version, head.attributes()), *also])
        except Conflict as conflict:
            if any(loss.index != 0 for loss in conflict.losses):
                raise _shifted(conflict, 1) from None
            item = conflict.losses[0].current
        else:
            return


def _shifted(conflict: Conflict, own: int) -> Conflict:
    """The same losses, counted from behind the `own` first actions."""
    return Conflict([replace(loss, index=loss.index - own) for loss in conflict.losses])
