"""The publications of a Session as rows: what a completing Turn decides on and writes (agents.md 6.1, 11.28).

A publication is one immutable row under its Turn's number, inline or an object that was put before. The row of an
object says which paths can be in it, so that a Turn that publishes a new path opens none of the former objects. Nothing
is cached by a name that could mean something else later: the text or the key of a publication never changes what it
is.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from shared.domain.agents import ids, publication
from shared.domain.agents.publication import BadPublication, Publication
from shared.domain.manifest import Entry
from shared.operations.agents import large, places
from shared.operations.agents.pages import walked
from shared.operations.agents.session import Found
from shared.operations.room import Room
from shared.store.ports import Item, ObjectMissing, PutNew, StoreUnavailable

_PAGE = 20
"""Rows of one query: each holds up to 44 KB, and DynamoDB ends a page after 1 MB."""
_TOMBSTONES = 500
_MARK = struct.Struct("<I")


def load(room: Room, item: Item) -> Publication:
    """The publication of a row. Errors: StoreUnavailable."""
    row = item.attributes
    place = row["inline"] or row["pointer"]
    made = room.publications.get(place)
    if made is None:
        try:
            data = base64.b64decode(row["inline"]) if row["inline"] else b"".join(room.objects.read(row["pointer"]))
            made = Publication.decode(data)
        except (BadPublication, ObjectMissing, ValueError) as error:
            raise StoreUnavailable("a publication") from error
        room.publications.put(place, made)
    return made


def rows(room: Room, found: Found, *, start: int | None = None, descending: bool = True) -> Iterator[Item]:
    """The rows of a Session's publications in order of their Turns, from that of number `start` on."""
    after = None if start is None else places.publication(_before(start, descending))
    yield from walked(room, found.partition, places.PUBLICATIONS, after, piece=_PAGE, descending=descending)


def tombstones(room: Room, found: Found, *, start: int | None = None, descending: bool = True) -> Iterator[str]:
    """The ids of deleted Artifacts in the same order, from those of the Turn of number `start` on.

    A head of revision 0 has none: nothing is asked then.
    """
    if found.head.revision == 0:
        return
    after = None if start is None else f"{places.REMOVED}art_{ids.order(_before(start, descending))}"
    if after is not None and not descending:
        # Everything of the number before sorts below this, for no id holds a `~`.
        after += "~"
    for item in walked(room, found.partition, places.REMOVED, after, piece=_TOMBSTONES, descending=descending):
        yield item.sort.removeprefix(places.REMOVED)


def _before(sequence: int, descending: bool) -> int:
    """The number that a walk begins behind. Numbers of a Session begin at 1."""
    return sequence + 1 if descending else sequence - 1


def decide(room: Room, found: Found, files: Sequence[Entry]) -> list[Entry]:
    """Which files a Turn publishes: those that differ from the newest Artifact of their path that remains.

    It holds for the artifact revision of `found`. Errors: StoreUnavailable.
    """
    paths = {file.path for file in files}
    newest = publication.newest(_remaining(room, found, paths), (), paths)
    return publication.decide(files, newest)


def _remaining(room: Room, found: Found, wanted: Collection[str]) -> Iterator[Publication]:
    """Publications newest first, each with no more than what remains in it of the paths that none before it has.

    Neither an object nor a tombstone is read of a publication that has none of these.
    """
    missing = {path: _mark(path) for path in wanted}
    if not missing:
        return
    for item in rows(room, found):
        if not _may_have(item, missing.values()):
            continue
        made = load(room, item)
        artifacts = [row for row in made.artifacts if row.path in missing]
        if artifacts:
            gone = removed(room, found, made.sequence)
            artifacts = [row for row in artifacts if row.id not in gone]
            for row in artifacts:
                del missing[row.path]
            yield replace(made, artifacts=tuple(artifacts))


def removed(room: Room, found: Found, sequence: int) -> set[str]:
    """The ids of the deleted Artifacts of one Turn. None is asked for where the head's revision says so."""
    if found.head.revision == 0:
        return set()
    prefix = f"{places.REMOVED}art_{ids.order(sequence)}"
    return {
        item.sort.removeprefix(places.REMOVED)
        for item in walked(room, found.partition, prefix, None, piece=_TOMBSTONES)
    }


def _mark(path: str) -> int:
    """32 bits of a path: two paths may have the same, one path never has two."""
    return int(_MARK.unpack(hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()[: _MARK.size])[0])


def _may_have(item: Item, marks: Collection[int]) -> bool:
    """Whether a row's publication can have one of these paths. That of an inline one is as quickly read."""
    text = item.attributes.get("paths", "")
    if not text:
        return True
    return not {mark for (mark,) in _MARK.iter_unpack(base64.b64decode(text))}.isdisjoint(marks)


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
    row = {"created": created_ms, "inline": "", "pointer": "", "paths": ""}
    if len(data) <= room.limits.inline_item_bytes:
        row["inline"] = base64.b64encode(data).decode("ascii")
    else:
        row["pointer"] = large.put(room, found.partition, data)
        marks = b"".join(_MARK.pack(_mark(artifact.path)) for artifact in made.artifacts)
        row["paths"] = base64.b64encode(marks).decode("ascii")
    room.publications.put(str(row["inline"] or row["pointer"]), made)
    return PutNew(found.partition, places.publication(turn_sequence), row)
