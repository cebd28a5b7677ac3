"""The attempt of a file write: intent, bytes, publication, settling, each once (agents.md 4, 11.19, 11.22, 11.24).

intent    T{Session: write w · workspace: locked under fence F · record w · project: unsettled w}   refused: nothing
bytes     a new object of the Session, its digest verified while it is copied                       failed: rejected
publish   T{workspace: next version, unlocked, if F · record w: committed | rejected}
settle    T{Session: no write · record w: settled · project: no unsettled w}

The bytes are sent and published once. Where an answer is lost the record is asked, which only this attempt has
written; where it does not say, the write stays unsettled and nobody here decides (11.22). Until `publish` was sent
nothing can have come of the write, so whatever fails before it is a definite rejection.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from shared.agents_errors import Fault, Refusal
from shared.domain import session as rules
from shared.domain.agents import ids, writes
from shared.domain.agents.destination import Content, Sizes, place
from shared.domain.agents.head import in_flight
from shared.domain.agents.refusals import Reason, Refused
from shared.domain.agents.writes import Write
from shared.limits import Limits
from shared.operations import names, workspace
from shared.operations.agents import places
from shared.operations.agents.reaching import workspace_of
from shared.operations.agents.session import Draft, Found, need, put_head, swap
from shared.operations.room import Room
from shared.operations.workspace import Opened
from shared.store.ports import Conflict, DeleteIf, ObjectMissing, PutIf, PutNew, StoreUnavailable

_LOG = logging.getLogger("workroom.writes")
PATIENCE_S = 5.0
"""How long an attempt tries to begin, and to settle what it has a receipt of."""
_PAUSE_S = 0.02
_INTENT, _RECEIPT = 1, 2
"""Versions of a write's record: each is written once."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """What is to be written: its path (relative, clean), its size and SHA-256 as they must be, and its bytes, once."""

    path: str
    size: int
    sha256: str
    pieces: Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A recorded intent: the Session and the workspace as it left them, and its record."""

    found: Found
    opened: Opened
    record: Write


class _Held(Exception):
    """The workspace is locked though the gate is open: whoever holds it is about to say why."""


class _Uncertain(Exception):
    """What was asked for may have happened or may still happen."""


def write(room: Room, found: Found, incoming: Incoming) -> None:
    """Write one file that must not be there.

    Errors: Refused by the state or the gate, nothing was recorded; Refused by the workspace, the write is rejected and
    settled; 503 that must not be sent again, it is unsettled; StoreUnavailable, nothing was recorded.
    """
    try:
        attempt = _begin(room, found, incoming)
    except _Uncertain as uncertain:
        raise _unsettled(uncertain) from uncertain
    try:
        receipt = _publish(room, attempt, incoming)
        _settle(room, attempt, receipt)
    except Exception as error:
        # Whatever it was: what became of the write is not for this attempt to say any more.
        with suppress(Exception):
            swap(room, attempt.found, lambda draft: end(draft, attempt.record.id))
        raise _unsettled(error) from error
    if receipt.receipt == "rejected":
        raise Refused(Reason[receipt.reason], retry=True)


def _unsettled(error: Exception) -> Refusal:
    cause = error.__cause__ or error
    _LOG.error("a write ended without a settled receipt: %s", type(cause).__name__)
    return Refusal(Fault.EXECUTION_UNAVAILABLE, retry=False)


def _begin(room: Room, found: Found, incoming: Incoming) -> _Attempt:
    """Record the intent. Errors: Refused; 404; StoreUnavailable, nothing was recorded; _Uncertain."""
    ident = ids.new("write", os.urandom)
    made: list[_Attempt] = []

    def decide(draft: Draft) -> None:
        writes.usable(draft.head)
        opened = workspace_of(room, draft.found)
        writes.gate(draft.head, writing=in_flight(draft.head, opened.head, room.owner, draft.now))
        locked = rules.acquire(opened.head, room.owner, room.clock(), room.limits.lease_ms)
        if locked is None:
            raise _Held
        now, fence = draft.now, locked.fence
        record = Write(id=ident, path=incoming.path, size=incoming.size, sha256=incoming.sha256, since=now, fence=fence)
        draft.head = writes.begin(draft.head, ident, fence, now)
        draft.actions.append(PutIf(opened.partition, names.HEAD, opened.version, locked.attributes()))
        draft.put(places.WRITES + ident, record.attributes())
        draft.actions.append(
            PutNew(
                names.project(found.project),
                places.unsettled(now, found.session, ident),
                {"since": now, "session": found.session, "write": ident},
            )
        )
        made.append(
            _Attempt(
                replace(draft.found, version=draft.found.version + 1, head=draft.head),
                replace(opened, version=opened.version + 1, head=locked),
                record,
            )
        )

    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            swap(room, found, decide)
        except (Conflict, _Held):
            # The workspace moved behind the Session's head that was read: both are read again.
            if time.monotonic() > ends:
                raise Refused(Reason.WRITE_GATE, retry=True) from None
            time.sleep(_PAUSE_S)
            found = need(room, found.project, found.session)
        except StoreUnavailable:
            if not (made and _recorded(room, made[-1])):
                raise
            return made[-1]
        else:
            return made[-1]


def _recorded(room: Room, attempt: _Attempt) -> bool:
    """Whether the intent whose answer was lost is recorded; if not, it never will be. Errors: _Uncertain."""
    try:
        if _asked(room, attempt) is not None:
            return True
        # A request that is still on its way loses to another version of the head.
        found = need(room, attempt.found.project, attempt.found.session)
        with suppress(Conflict):
            room.state.transact([put_head(found, found.head)])
        return _asked(room, attempt) is not None
    except StoreUnavailable as error:
        raise _Uncertain from error


def _asked(room: Room, attempt: _Attempt) -> Write | None:
    item = room.state.get(attempt.found.partition, places.WRITES + attempt.record.id)
    return None if item is None else Write.of(item.attributes)


def _publish(room: Room, attempt: _Attempt, incoming: Incoming) -> Write:
    """Copy the bytes and publish them; the record with its receipt. Errors: Fenced, Conflict, StoreUnavailable."""
    opened = attempt.opened
    where = (opened.head.inline, opened.head.pointer)
    with room.heart.keep(lambda: workspace.renew(room, opened)):
        try:
            blob = _stored(room, opened, incoming)
            content = Content(size=incoming.size, sha256=incoming.sha256, blob=blob, now=room.clock())
            manifest = place(workspace.manifest_of(room, opened.head), incoming.path, content, sizes(room.limits))
            where = workspace.place(room, opened, manifest)
            record = writes.received(attempt.record, "committed")
        except Refused as refused:
            record = writes.received(attempt.record, "rejected", refused.reason.name)
        except Exception as error:
            _LOG.warning("a write is rejected: %s", type(error).__name__)
            record = writes.received(attempt.record, "rejected", Reason.EXECUTION.name)
        receipt = PutIf(opened.partition, places.WRITES + record.id, _INTENT, record.attributes())
        try:
            workspace.swap_manifest(room, opened, where, [receipt])
        except StoreUnavailable:
            if _asked(room, attempt) != record:
                raise
    return record


def _stored(room: Room, opened: Opened, incoming: Incoming) -> str:
    """Copy the bytes under a new key, which is "" for none. Errors: Refused; StoreUnavailable."""
    key = workspace.new_key(opened)
    with room.objects.stage() as stage:
        try:
            for piece in incoming.pieces():
                stage.write(piece)
                if stage.size > incoming.size:
                    raise Refused(Reason.EXECUTION)
        except ObjectMissing:
            raise Refused(Reason.MISSING) from None
        if (stage.size, stage.sha256) != (incoming.size, incoming.sha256):
            raise Refused(Reason.EXECUTION)
        if stage.size == 0:
            return ""
        stage.commit(key)
    return key


def sizes(limits: Limits) -> Sizes:
    """The limits that a written file meets."""
    return Sizes(
        workspace_bytes=limits.workspace_bytes,
        workspace_entries=limits.workspace_entries,
        names_bytes=limits.names_bytes,
        path_bytes=limits.path_bytes,
        path_depth=limits.path_depth,
        name_bytes=limits.name_bytes,
    )


def _settle(room: Room, attempt: _Attempt, record: Write) -> None:
    """Let the Session go on, again and again: to settle twice does nothing. Errors: 404; StoreUnavailable."""

    def decide(draft: Draft) -> None:
        settled = replace(record, outcome=record.receipt, settled=draft.now, by="attempt")
        close(draft, settled, _RECEIPT)

    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            swap(room, attempt.found, decide)
        except StoreUnavailable:
            if time.monotonic() > ends:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def close(draft: Draft, settled: Write, version: int) -> None:
    """Take a settled write from the Session's head; nothing where it is not there. `version` is its record's."""
    head = writes.settle(draft.head, settled.id, draft.now)
    if head is None:
        return
    found = draft.found
    draft.head = head
    draft.put(places.WRITES + settled.id, settled.attributes(), version)
    row = places.unsettled(settled.since, found.session, settled.id)
    draft.actions.append(DeleteIf(names.project(found.project), row, 1))


def end(draft: Draft, ident: str) -> None:
    """Say that the attempt is over, so that nobody waits for it (11.19)."""
    draft.head = writes.ended(draft.head, ident) or draft.head
