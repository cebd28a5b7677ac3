"""Handing a Session's work to whoever does it: a thread of this process, or a worker behind the queue.

The message names the Session and nothing else: what is due is read there, and is claimed by compare and swap. So it
may be sent twice and by anybody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

_LOG = logging.getLogger("workroom.turn")
_AGAIN_S = 10.0
"""Whoever polls a Session whose worker is late sends for one so often, and not with each look."""

Work = Callable[[Room, str, str], None]


def dispatch(room: Room, project: str, session: str, work: Work, *, again: bool = False) -> None:
    """Have `work` done for a Session, soon. `again` says that it was asked for before.

    A queue that takes no message loses nothing: whoever sees the Session next sends another one.
    """
    key = f"{project}/{session}"
    if again and room.jobs.recently(key, _AGAIN_S):
        return
    if room.queue is None:
        room.jobs.submit(room.runs, room.background, project, key, lambda: work(room, project, session))
        return
    try:
        room.queue.send({"project": project, "session": session})
    except StoreUnavailable:
        _LOG.warning("a Session's work was not queued")
