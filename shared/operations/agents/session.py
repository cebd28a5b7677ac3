"""Reading a Session and swapping its head: get, decide by the pure rules, one transaction, else look again.

A transaction is the head, the rows that belong to the step, and one record of the frames that tell of it. Whoever
loses the head reads what won and decides again; what a rule refuses is refused on what is true then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.agents_errors import Fault, Refusal
from shared.domain.agents import head as heads
from shared.domain.agents import ids
from shared.domain.agents.events import Frame
from shared.domain.agents.head import Session
from shared.domain.agents.refusals import Reason, Refused
from shared.domain.agents.stored import stored
from shared.operations import names
from shared.operations.agents import places
from shared.operations.agents.requests.reading import may_echo
from shared.operations.room import Room
from shared.store.ports import Action, Conflict, Item, PutIf, PutNew, StoreUnavailable

EVENT_S = 86_400
"""Seconds for which a record of frames is kept: longer than any stream lasts."""
_PATIENCE_S = 20.0
_FAULTS = {(fault.value.status, fault.value.code): fault for fault in Fault}


@dataclass(frozen=True, slots=True)
class Found:
    """A Session as it was read: its head and the version of the item."""

    project: str
    session: str
    version: int
    head: Session

    @property
    def partition(self) -> str:
        """The Session's partition."""
        return names.session(self.project, self.session)

    @property
    def environment(self) -> str:
        """The id of its Environment."""
        return ids.environment_of(self.session)


def refusal(refused: Refused) -> Refusal:
    """A rule's refusal as the contract answers it (agents.md 1.3, 11.19)."""
    row = refused.reason.value
    retry = None if row.status in (400, 404, 413) else refused.retry
    # The id of a call is the caller's own text: it is repeated where it may be (agents.md 1.4, 11.11).
    own = refused.text.removeprefix(row.message)
    text = refused.text if may_echo(own) else f"{row.message.rstrip(' :')}."
    return Refusal(_FAULTS[row.status, row.code], text, retry=retry)


def missing() -> Refusal:
    """The answer for what is not there: malformed, unknown and foreign ids have the same."""
    return Refusal(Fault.NOT_FOUND)


def find(room: Room, project: str, session: str) -> Found | None:
    """The Session of that id in this project; None where there is none, or it is deleted."""
    if not ids.is_id(session, "sess"):
        return None
    item = room.state.get(names.session(project, session), places.HEAD)
    return None if item is None else _found(project, session, item)


def need(room: Room, project: str, session: str) -> Found:
    """The Session, or 404."""
    found = find(room, project, session)
    if found is None:
        raise missing()
    return found


def need_environment(room: Room, project: str, environment: str) -> Found:
    """The Session of an Environment, or 404. That of type `none` cannot be addressed (agents.md 11.5)."""
    session = ids.session_of(environment)
    return need(room, project, session or "")


def _found(project: str, session: str, item: Item) -> Found | None:
    head = Session.of(item.attributes)
    return None if head.gone else Found(project, session, item.version, head)


@dataclass(slots=True)
class Draft:
    """A step in the making: the next head, the rows and frames of its transaction, and the time of all of it.

    `now` is epoch milliseconds and never before anything that the Session told of (agents.md 11.26). `outputs` counts
    the output items that the step makes.
    """

    found: Found
    head: Session
    now: int
    actions: list[Action] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    outputs: int = 0

    @classmethod
    def on(cls, room: Room, found: Found) -> Draft:
        """An empty step on a head."""
        return cls(found, found.head, max(room.clock(), found.head.clock))

    def number(self) -> int:
        """The next number of the Session's sequence."""
        allotted = heads.allot(self.head, self.now, 1)
        self.head = allotted.head
        return allotted.first

    def new_id(self, prefix: ids.Prefix) -> tuple[str, int]:
        """An id that begins with the next number, and the number."""
        number = self.number()
        return ids.new(prefix, os.urandom, ids.order(number)), number

    def put(self, sort: str, attributes: Mapping[str, Any], version: int | None = None) -> None:
        """A new row of the Session's partition, or the next version of one."""
        partition = self.found.partition
        self.actions.append(
            PutNew(partition, sort, attributes) if version is None else PutIf(partition, sort, version, attributes)
        )

    def tell(self, *frames: Frame) -> None:
        """Frames of the event stream, in order."""
        self.frames += frames

    def closed(self) -> tuple[Session, list[Action]]:
        """The head and the other actions, with the record of the frames. To be called once, when all is said."""
        actions = list(self.actions)
        if self.frames:
            allotted = heads.allot(self.head, self.now, len(self.frames))
            self.head = allotted.head
            actions.append(event_record(self.found.partition, allotted.first, self.frames, self.now))
        return self.head, actions


def event_record(partition: str, first: int, frames: Sequence[Frame], now: int) -> PutNew:
    """The record of one transaction's frames, numbered from `first` on."""
    return PutNew(
        partition,
        places.event(first),
        {"frames": stored(frames, first, os.urandom)},
        now // 1000 + EVENT_S,
    )


Decide = Callable[[Draft], None]


def put_head(found: Found, head: Session) -> PutIf:
    """The action that makes `head` the next version of the Session's head."""
    return PutIf(found.partition, places.HEAD, found.version, head.attributes())


def swap(room: Room, found: Found, decide: Decide) -> Found:
    """Make a step by `decide`, which changes a draft of it and may raise; again on whatever won meanwhile.

    A step that changes nothing is not written. Errors: what `decide` raises; 404 where the Session is gone; Conflict,
    where a row beside the head lost (its losses count from the draft's first action); 503 when it never gets through.
    """
    ends = time.monotonic() + _PATIENCE_S
    while True:
        draft = Draft.on(room, found)
        decide(draft)
        head, actions = draft.closed()
        if head == found.head and not actions:
            return found
        try:
            version, *_ = room.state.transact([put_head(found, head), *actions])
        except Conflict as conflict:
            found = again(found, conflict)
            if time.monotonic() > ends:
                raise StoreUnavailable("a Session that changes all the time") from None
            continue
        room.bells.ring(found.partition)
        return Found(found.project, found.session, version, head)


def again(found: Found, conflict: Conflict, place: int = 0) -> Found:
    """The Session as it won at action `place` of a lost transaction.

    Errors: 404 where it is gone; Conflict where the head did not lose (its losses count from behind `place`).
    """
    lost = next((loss for loss in conflict.losses if loss.index == place), None)
    if lost is None:
        raise Conflict([type(loss)(loss.index - place - 1, loss.current) for loss in conflict.losses])
    current = None if lost.current is None else _found(found.project, found.session, lost.current)
    if current is None:
        raise refusal(Refused(Reason.MISSING))
    return current
