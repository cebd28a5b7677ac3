"""Removing what is over: expired sessions, and objects that nothing names (DESIGN §4, §5).

An expired session goes in an order that a crash may cut anywhere: a tombstone in the head, by compare and swap, so
that a commit in flight loses; the objects; the partition; its index row, by which the next sweep finds it again. An
object goes when no manifest names it and it is older than the longest run (`workspace.grace_ms`): no commit in flight
can name it any more. Where it cannot be told what is named, everything stays.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from shared.domain import session as rules
from shared.domain.session import Head
from shared.operations import names, workspace
from shared.operations.room import Room
from shared.store.ports import Conflict, DeleteIf, Item, ObjectInfo, PutIf, StoreUnavailable

_LOG = logging.getLogger("workroom.janitor")


_STAGED_S = 86_400.0
"""Seconds after which nobody writes to a temporary file any more: far above the longest upload."""


@runtime_checkable
class Staging(Protocol):
    """An object store that keeps bytes on their way in as files of its own: a crash leaves some behind."""

    def sweep_staging(self, older_than_seconds: float) -> int:
        """Remove those that nobody has written to for that long; how many."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed."""

    sessions: int
    objects: int
    records: int


def sweep(room: Room) -> Swept:
    """One sweep over every project. Safe beside running requests and other sweeps."""
    sessions = 0
    for project in _projects(room):
        for row in _pages(room, names.project(project), "session/"):
            sessions += _remove_expired(room, project, row)
        for row in _pages(room, names.project(project), "hint/"):
            _remove_stale_hint(room, project, row)
    records = room.state.sweep(room.clock() // 1000)
    objects = _remove_orphans(room)
    if isinstance(room.objects, Staging):
        room.objects.sweep_staging(_STAGED_S)
    _LOG.info("swept %d sessions, %d objects, %d records", sessions, objects, records)
    return Swept(sessions, objects, records)


def _projects(room: Room) -> list[str]:
    return [row.sort.removeprefix("project/") for row in _pages(room, names.SYSTEM, "project/")]


def _pages(room: Room, partition: str, prefix: str) -> Iterator[Item]:
    after: str | None = None
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


def _remove_stale_hint(room: Room, project: str, row: Item) -> None:
    if workspace.find(room, project, row.attributes["session"]) is None:
        _delete(room, row)


def _delete(room: Room, row: Item) -> int:
    try:
        room.state.transact([DeleteIf(row.partition, row.sort, row.version)])
    except Conflict:
        return 0
    return 1


def _remove_orphans(room: Room) -> int:
    """Remove old objects that nothing names; how many. One owner's objects lie together in key order."""
    grace = workspace.grace_ms(room)
    removed = 0
    owner = ""
    named: Container[str] | None = None
    for info in _objects(room):
        if room.clock() - info.modified * 1000 < grace:
            continue
        mine = info.key.rpartition("/")[0]
        if mine != owner:
            owner, named = mine, _named(room, mine)
        if named is not None and info.key not in named:
            room.objects.delete(info.key)
            removed += 1
    return removed


def _objects(room: Room) -> Iterator[ObjectInfo]:
    after: str | None = None
    while page := room.objects.list("p/", after=after):
        yield from page
        after = page[-1].key


def _named(room: Room, owner: str) -> Container[str] | None:
    """The keys that an owner's item names: a session's manifest and its bytes, or a record's result. None: unknown.

    A head whose manifest cannot be read keeps all its objects, and keeps no other owner's.
    """
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
