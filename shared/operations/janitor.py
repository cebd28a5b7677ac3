"""Removing what is over: expired and deleted sessions, and objects that nothing names (DESIGN §4, §5).

An expired session goes in an order that a crash may cut anywhere: a tombstone in the head, by compare and swap, so
that a commit in flight loses; the objects; the partition; its index row, by which the next sweep finds it again. An
object goes when no manifest names it and it is older than the longest run (`workspace.grace_ms`): no commit in flight
can name it any more. Where it cannot be told what is named, everything stays.

A sweep whose time is bounded stops between two steps and keeps its place, from which the next one goes on: however
much there is, all of it is looked at in turn.

Sessions of agents are seen too: an Environment that has expired, a Turn that nobody holds any more and a queued one
need no reader (`agents.tidying`). So the first sweep of a service recovers what a crash has left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from shared.domain import session as rules
from shared.domain.agents.ids import is_id
from shared.domain.session import Head
from shared.operations import names, workspace
from shared.operations.agents import places, tidying
from shared.operations.room import Room
from shared.operations.source_uploads import parts_named
from shared.store.ports import Action, Conflict, DeleteIf, Item, ObjectInfo, PutIf, PutNew, StoreUnavailable

_LOG = logging.getLogger("workroom.janitor")


_STAGED_S = 86_400.0
"""Seconds after which nobody writes to a temporary file any more: far above the longest upload."""


@runtime_checkable
class Staging(Protocol):
    """An object store that keeps bytes on their way in as files of its own: a crash leaves some behind."""

    def sweep_staging(self, older_than_seconds: float) -> int:
        """Remove those that nobody has written to for that long; how many."""


UNSETTLED = "unsettled/"
"""Rows of a project's partition, one for each write that is not settled: `since` (epoch ms) is in the attributes and,
in 15 digits, at the head of the sort, so that the first is the oldest."""
_PLACE = "sweep"


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed, and whether it came to its end."""

    sessions: int
    objects: int
    records: int
    whole: bool = True


@dataclass(slots=True)
class _Sweep:
    """A sweep on its way. `part`, `project` and `after` are the place behind the last step that was done."""

    late: Callable[[], bool]
    workers: bool = True
    part: str = "session/"
    project: str = ""
    after: str | None = None
    sessions: int = 0
    objects: int = 0
    records: int = 0

    def swept(self, *, whole: bool) -> Swept:
        return Swept(self.sessions, self.objects, self.records, whole)


def sweep(room: Room, late: Callable[[], bool] | None = None, *, workers: bool = True) -> Swept:
    """One sweep over every project. Safe beside running requests and other sweeps.

    `late` says that no further step is to be begun: the sweep then keeps its place and ends. Without it a sweep is a
    whole one, and neither looks for a place nor keeps one. `workers` says that Sessions' jobs may be handed out:
    this process runs programs, or there is a queue.
    """
    going = _Sweep(lambda: False) if late is None else _resumed(room, late)
    going.workers = workers
    whole = _sweep(room, going)
    if late is not None:
        _keep_place(room, None if whole else going)
    swept = going.swept(whole=whole)
    _LOG.info("swept %d sessions, %d objects, %d records", swept.sessions, swept.objects, swept.records)
    return swept


def oldest_unsettled_ms(room: Room) -> int:
    """The age of the oldest write that is not settled, in milliseconds; 0 when there is none (DESIGN §8)."""
    rows = (room.state.query(names.project(project), UNSETTLED, limit=1) for project in _projects(room))
    return max((max(0, room.clock() - row[0].attributes["since"]) for row in rows if row), default=0)


def _sweep(room: Room, going: _Sweep) -> bool:
    """Go on from a sweep's place; whether it came to its end."""
    if going.part != "objects":
        for project in _projects(room):
            if project >= going.project and not _sweep_project(room, project, going):
                return False
        going.records = room.state.sweep(room.clock() // 1000)
        going.part, going.project, going.after = "objects", "", None
    if not _remove_orphans(room, going):
        return False
    if isinstance(room.objects, Staging):
        room.objects.sweep_staging(_STAGED_S)
    return True


def _sweep_project(room: Room, project: str, going: _Sweep) -> bool:
    """The expired sessions of a project, the hints that point at none, then its Sessions; whether it came to its
    end."""
    steps: dict[str, Callable[[Item], int]] = {
        "session/": lambda row: _remove_expired(room, project, row),
        "hint/": lambda row: _remove_stale_hint(room, project, row),
        places.SESSIONS: lambda row: _tend(room, project, row, going),
        places.DELETED: lambda row: tidying.remove(room, project, row),
    }
    parts = list(steps)
    if project != going.project:
        going.part, going.project, going.after = parts[0], project, None
    for part in parts[parts.index(going.part) :]:
        if part != going.part:
            going.part, going.after = part, None
        for row in _pages(room, names.project(project), part, going.after):
            if going.late():
                return False
            going.sessions += steps[part](row)
            going.after = row.sort
    return True


def _tend(room: Room, project: str, row: Item, going: _Sweep) -> int:
    tidying.tend(room, project, row, workers=going.workers)
    return 0


def _resumed(room: Room, late: Callable[[], bool]) -> _Sweep:
    """A sweep at the place that the last one kept, or at the beginning."""
    item = room.state.get(names.SYSTEM, _PLACE)
    if item is None:
        return _Sweep(late)
    kept = item.attributes
    return _Sweep(late, part=kept["part"], project=kept["project"], after=kept["after"])


def _keep_place(room: Room, going: _Sweep | None) -> None:
    """Keep a sweep's place, or forget it. Where two sweeps run, one's place is as good as the other's."""
    item = room.state.get(names.SYSTEM, _PLACE)
    action: Action
    if going is None:
        if item is None:
            return
        action = DeleteIf(names.SYSTEM, _PLACE, item.version)
    else:
        place = {"part": going.part, "project": going.project, "after": going.after}
        old = item.version if item is not None else None
        action = PutNew(names.SYSTEM, _PLACE, place) if old is None else PutIf(names.SYSTEM, _PLACE, old, place)
    try:
        room.state.transact([action])
    except Conflict:
        return


def _projects(room: Room) -> list[str]:
    return [row.sort.removeprefix("project/") for row in _pages(room, names.SYSTEM, "project/")]


def _pages(room: Room, partition: str, prefix: str, after: str | None = None) -> Iterator[Item]:
    while page := room.state.query(partition, prefix, after=after, limit=500):
        yield from page
        after = page[-1].sort


def _remove_expired(room: Room, project: str, row: Item) -> int:
    """Remove the session of an index row if it is over; how many went."""
    session = row.sort.removeprefix("session/")
    partition = names.session(project, session)
    item = room.state.get(partition, names.HEAD)
    if item is not None:
        head = Head.of(item.attributes)
        if rules.live(head, room.clock(), room.limits.session_ms):
            return 0
        if not head.gone:
            tombstone = replace(head, gone=True, lock=None, fence=head.fence + 1)
            try:
                room.state.transact([PutIf(partition, names.HEAD, item.version, tombstone.attributes())])
            except Conflict:
                return 0
    room.objects.delete_prefix(partition + "/")
    room.state.delete_partition(partition)
    return _delete(room, row)


def _remove_stale_hint(room: Room, project: str, row: Item) -> int:
    if workspace.find(room, project, row.attributes["session"]) is None:
        _delete(room, row)
    return 0


def _delete(room: Room, row: Item) -> int:
    try:
        room.state.transact([DeleteIf(row.partition, row.sort, row.version)])
    except Conflict:
        return 0
    return 1


def _remove_orphans(room: Room, going: _Sweep) -> bool:
    """Remove old objects that nothing names; whether it came to its end. One owner's objects lie together in order."""
    grace = workspace.grace_ms(room)
    owner = ""
    named: Container[str] | None = None
    for info in _objects(room, going.after):
        if going.late():
            return False
        if room.clock() - info.modified * 1000 >= grace:
            mine = info.key.rpartition("/")[0]
            if mine != owner:
                owner, named = mine, _named(room, mine)
            if named is not None and info.key not in named:
                room.objects.delete(info.key)
                going.objects += 1
        going.after = info.key
    return True


def _objects(room: Room, after: str | None) -> Iterator[ObjectInfo]:
    while page := room.objects.list("p/", after=after):
        yield from page
        after = page[-1].key


def _named(room: Room, owner: str) -> Container[str] | None:
    """The keys that an owner's item names: a session's manifest and its bytes, a record's result, a source file's
    bytes or its parts, a saved agent's definition; what an agent's Session names. None: unknown.

    A head whose manifest cannot be read keeps all its objects, and keeps no other owner's.
    """
    kind = owner.split("/")[2] if owner.count("/") == 3 else ""
    _, project, _, ident = owner.split("/") if kind else ("", "", "", "")
    if kind == "s" and is_id(ident, "sess"):
        return tidying.named(room, project, ident)
    if kind == "source":
        return _source_named(room, owner)
    if kind == "parts":
        return parts_named(room, owner)
    if kind == "agent":
        return _agent_named(room, owner)
    head = room.state.get(owner, names.HEAD)
    if head is not None:
        read = Head.of(head.attributes)
        if read.gone:
            return ()
        try:
            return workspace.manifest_of(room, read, hold=False).blobs | {read.pointer}
        except StoreUnavailable:
            _LOG.error("a manifest cannot be read; its session's objects are kept")
            return None
    record = room.state.get(owner, names.RECORD)
    return {record.attributes.get("pointer", "")} if record is not None else ()


def _source_named(room: Room, owner: str) -> set[str]:
    """The object of a source file while its row is there."""
    _, project, _, ident = owner.split("/")
    item = room.state.get(names.project(project), names.source_row(ident))
    return {item.attributes["key"]} if item is not None else set()


def _agent_named(room: Room, owner: str) -> set[str]:
    """The object of a saved agent's present definition, if it is large."""
    _, project, _, ident = owner.split("/")
    item = room.state.get(names.project(project), names.saved_agent_row(ident))
    return {item.attributes["pointer"]} if item is not None else set()
