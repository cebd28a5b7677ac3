"""Sending a Turn's transaction when the store loses answers: the same one again, until it is known what became of it.

    sent ── no answer ── sent again ──┬── it came to be now
                                      └── lost to another ──┬── its own record of frames is there: it came to be before
                                                            └── it is not: it never will, the versions have moved

Every version that a transaction asks for moves with it, so it cannot come to be twice, however late it comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from shared.domain.session import Fenced
from shared.operations.agents import places
from shared.operations.room import Room
from shared.store.ports import Action, Conflict, PutNew, StoreUnavailable

_PATIENCE_S = 10.0
_PAUSE_S = 0.2


def send(room: Room, actions: Sequence[Action], attempt: Callable[[], object]) -> None:
    """Have `attempt` send a transaction of these actions until it is known to have come to be.

    One without frames cannot be told from another and is sent once. Errors: Conflict or Fenced, it did not come to be
    and never will; StoreUnavailable, nobody knows.
    """
    record = next((one for one in actions if isinstance(one, PutNew) and one.sort.startswith(places.EVENTS)), None)
    ends = time.monotonic() + _PATIENCE_S
    unsure = False
    while True:
        try:
            attempt()
        except (Conflict, Fenced):
            if unsure and record is not None and _there(room, record):
                return
            raise
        except StoreUnavailable:
            if record is None or time.monotonic() > ends:
                raise
            unsure = True
        else:
            return
        time.sleep(_PAUSE_S)


def _there(room: Room, record: PutNew) -> bool:
    """Whether a record of frames is this one: its events' ids are nobody else's."""
    item = room.state.get(record.partition, record.sort)
    return item is not None and _first(item.attributes) == _first(record.attributes)


def _first(attributes: object) -> object:
    return attributes["frames"][0]["event_id"]  # type: ignore[index]
