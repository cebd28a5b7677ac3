"""The publications of a Session as rows: what a completing Turn decides on and writes (agents.md 6.1, 11.28).

A publication is one immutable row under its Turn's number, inline or an object that was put before. Nothing is cached
by a name that could mean something else later: the text or the key of a publication never changes what it is.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Sequence

from shared.domain.agents import publication
from shared.domain.agents.publication import BadPublication, Publication
from shared.domain.manifest import Entry
from shared.operations.agents import large, places
from shared.operations.agents.session import Found
from shared.operations.room import Room
from shared.store.ports import Item, ObjectMissing, PutNew, StoreUnavailable

_PAGE = 20


def load(room: Room, item: Item) -> Publication:
    """The publication of a row. Errors: StoreUnavailable."""
    row = item.attributes
    try:
        data = base64.b64decode(row["inline"]) if row["inline"] else b"".join(room.objects.read(row["pointer"]))
        return Publication.decode(data)
    except (BadPublication, ObjectMissing, ValueError) as error:
        raise StoreUnavailable("a publication") from error


def removed(room: Room, found: Found) -> set[str]:
    """The ids of all Artifacts of a Session that were deleted."""
    gone: set[str] = set()
    after: str | None = None
    while page := room.state.query(found.partition, places.REMOVED, after=after, limit=1000):
        gone |= {item.sort.removeprefix(places.REMOVED) for item in page}
        after = page[-1].sort
    return gone


def decide(room: Room, found: Found, files: Sequence[Entry]) -> list[Entry]:
    """Which files a Turn publishes: those that differ from the newest Artifact of their path that remains.

    It holds for the artifact revision of `found`. Errors: StoreUnavailable.
    """
    if not files:
        return []
    paths = {file.path for file in files}
    newest = publication.newest(_newest_first(room, found), removed(room, found), paths)
    return publication.decide(files, newest)


def _newest_first(room: Room, found: Found) -> Iterator[Publication]:
    after: str | None = None
    while page := room.state.query(found.partition, places.PUBLICATIONS, after=after, limit=_PAGE, descending=True):
        yield from (load(room, item) for item in page)
        after = page[-1].sort


def record(
    room: Room,
    found: Found,
    turn_sequence: int,
    turn_id: str,
    environment_id: str,
    created_ms: int,
    files: Sequence[Entry],
) -> PutNew | None:
    """The row of a Turn's publication of these files, or None where there are none; a large one is stored."""
    made = publication.publish(
        files, sequence=turn_sequence, turn=turn_id, environment=environment_id, created=created_ms, random=os.urandom
    )
    if made is None:
        return None
    data = made.encode()
    row = {"created": created_ms, "inline": "", "pointer": ""}
    if len(data) <= room.limits.inline_item_bytes:
        row["inline"] = base64.b64encode(data).decode("ascii")
    else:
        row["pointer"] = large.put(room, found.partition, data)
    return PutNew(found.partition, places.publication(turn_sequence), row)
