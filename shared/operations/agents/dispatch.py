"""Handing a Session's work to whoever does it: a thread of this process, or a worker behind the queue.

The message names the Session and nothing else: what is due is read there, and is claimed by compare and swap. So it
may be sent twice and by anybody.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from shared.errors import Code, Failure
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

_LOG = logging.getLogger("workroom.turn")
_PAUSE_S = 0.05

Work = Callable[[Room, str, str], None]


def dispatch(room: Room, project: str, session: str, work: Work) -> None:
    """Have `work` done for a Session, soon. A queue that takes no message loses nothing: whoever sees the Session
    next sends another one."""
    if room.queue is not None:
        try:
            room.queue.send({"project": project, "session": session})
        except StoreUnavailable:
            _LOG.warning("a Session's work was not queued")
        return
    # After the service's end nothing is begun; what is queued is found again at its next start.
    with suppress(RuntimeError):
        room.background.submit(_guarded, work, room, project, session)


def _guarded(work: Work, room: Room, project: str, session: str) -> None:
    try:
        with _place(room, project):
            work(room, project, session)
    except Exception as error:
        _LOG.error("a Session's work ended early: %s", type(error).__name__)


@contextmanager
def _place(room: Room, project: str) -> Iterator[None]:
    """A place among the runs of this process, waited for: the work is admitted already."""
    ends = time.monotonic() + room.limits.queue_ms / 1000
    while True:
        try:
            room.runs.take(project)
            break
        except Failure as failure:
            if failure.code is not Code.RATE_LIMITED or time.monotonic() > ends:
                raise
        time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        room.runs.leave(project)
