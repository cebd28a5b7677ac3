"""Downloads that a front door cannot carry: 302 to a short grant of the object store (exec.md A8.1).

The bytes of an answer travel as Base64 there, so that three quarters of `answer_bytes` fit. A grant covers one whole
object. A file that lies in a pack is copied to an object of its own first, which the janitor takes away: nothing
names it.
"""

from __future__ import annotations

import os

from functions.api.workers import Workers
from shared.domain.ids import short_id
from shared.operations import names
from shared.operations.room import DownloadGrants, Room
from shared.operations.transfer import Download
from shared.store.ports import ObjectMissing, StoreUnavailable

GRANT_S = 60
"""How long a grant may be begun with: a client follows a redirect at once."""


def bytes_carried(room: Room) -> int | None:
    """How many raw bytes one answer of the front door takes; None where nothing bounds it."""
    return room.limits.answer_bytes * 3 // 4 or None


async def place_of(
    room: Room, workers: Workers, project: str, session: str, found: Download, length: int
) -> str | None:
    """The address of a file of which `length` bytes are asked for, None where they are answered here.

    Errors: StoreUnavailable, DigestMismatch.
    """
    most = bytes_carried(room)
    if room.downloads is None or most is None or length <= most:
        return None
    return await workers.slow(workers.writes, _grant, room, room.downloads, project, session, found)


def _grant(room: Room, grants: DownloadGrants, project: str, session: str, found: Download) -> str:
    name = found.name.rpartition("/")[2]
    try:
        key = _own_object(room, project, session, found)
        return grants.grant_download(key, seconds=GRANT_S, name=name, media=found.content_type).url
    except ObjectMissing:
        raise StoreUnavailable("the bytes of a file are gone") from None


def _own_object(room: Room, project: str, session: str, found: Download) -> str:
    """The key of an object that is this file and nothing else."""
    info = room.objects.head(found.entry.blob)
    if info is None:
        raise ObjectMissing
    if found.entry.offset == 0 and info.size == found.size:
        return found.entry.blob
    key = f"{names.session(project, session)}/{short_id(os.urandom)}"
    with room.objects.stage() as stage:
        for piece in found.pieces(room):
            stage.write(piece)
        stage.commit(key)
    return key
