"""The janitor's part in Sessions: what is due is done without a reader, what is deleted goes, what is named stays.

A deleted Session goes in an order that a crash may cut anywhere: its tombstone is there already, so nothing can be
committed in it; its objects; its rows; the tombstone's `swept`, without which the next sweep does it again.

An object of a Session stays while anything names it: the workspace's version, a large row, an Artifact that was not
deleted. While anything goes on in the Session all of them stay: what goes on may name one that nothing names yet.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator

from shared.domain.agents.head import Session
from shared.domain.session import Head
from shared.errors import Failure
from shared.operations import names, workspace
from shared.operations.agents import places, publishing, seeing
from shared.operations.agents.session import Found, find
from shared.operations.room import Room
from shared.store.ports import Conflict, Item, PutIf, StoreUnavailable

_LOG = logging.getLogger("workroom.janitor")
_LARGE = (places.BATCHES, places.ITEMS)
"""Rows whose value may be an object, beside the description and the publications."""


def tend(room: Room, project: str, row: Item, *, workers: bool) -> None:
    """Do what is due in the Session of an index row; with `workers` its jobs are handed to them.

    One that cannot be read keeps no other from being looked at.
    """
    found = find(room, project, row.sort.removeprefix(places.SESSIONS))
    if found is None:
        return
    try:
        seeing.seen(room, found, patience_ms=0, workers=workers)
    except StoreUnavailable:
        _LOG.error("a Session cannot be read; what is due in it waits")
    except Failure:
        # It was deleted meanwhile.
        return


def remove(room: Room, project: str, row: Item) -> int:
    """Remove what a deleted Session has left, if its tombstone says that it is still there; how many went."""
    if row.attributes["swept"]:
        return 0
    partition = names.session(project, row.sort.removeprefix(places.DELETED))
    room.objects.delete_prefix(partition + "/")
    room.state.delete_partition(partition)
    try:
        swept = {**row.attributes, "swept": True}
        expires = row.attributes["at"] // 1000 + places.TOMBSTONE_S
        room.state.transact([PutIf(row.partition, row.sort, row.version, swept, expires)])
    except Conflict:
        return 0
    return 1


def named(room: Room, project: str, session: str) -> Container[str] | None:
    """The keys of a Session's objects that something names. None: all of them are to stay."""
    partition = names.session(project, session)
    item = room.state.get(partition, places.HEAD)
    if item is None:
        return ()
    head = Session.of(item.attributes)
    if head.gone:
        return ()
    if head.active is not None or head.write is not None or head.environment.status == "pending":
        return None
    found = Found(project, session, item.version, head)
    try:
        keys = _named(room, found)
    except StoreUnavailable:
        _LOG.error("a part of a Session cannot be read; its objects are kept")
        return None
    again = room.state.get(partition, places.HEAD)
    # What has happened meanwhile may name what nothing named when it was looked at.
    return keys if again is not None and again.version == item.version else None


def _named(room: Room, found: Found) -> set[str]:
    """What the rows of an idle Session name. Errors: StoreUnavailable."""
    keys: set[str] = set()
    item = room.state.get(found.partition, names.HEAD)
    if item is not None:
        files = Head.of(item.attributes)
        keys |= workspace.manifest_of(room, files, hold=False).blobs | {files.pointer}
    config = room.state.get(found.partition, places.CONFIG)
    if config is None:
        raise StoreUnavailable("a Session's description")
    keys.add(config.attributes["pointer"])
    for prefix in _LARGE:
        keys |= {row.attributes["pointer"] for row in _rows(room, found.partition, prefix)}
    for row in _rows(room, found.partition, places.PUBLICATIONS):
        keys.add(row.attributes["pointer"])
        made = publishing.load(room, row)
        removed = publishing.removed(room, found, made.sequence)
        keys |= {artifact.blob for artifact in made.artifacts if artifact.size and artifact.id not in removed}
    return keys


def _rows(room: Room, partition: str, prefix: str) -> Iterator[Item]:
    after: str | None = None
    while page := room.state.query(partition, prefix, after=after, limit=200):
        yield from page
        after = page[-1].sort
