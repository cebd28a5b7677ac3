"""Sending input to a Session: `POST …/sessions/{session_id}/events` (agents.md 5.2).

The order of checks: the request, the Session, the key, the gates, each event. One immutable record of the batch and
one swap of the head admit all of it or nothing (11.27).
"""

from __future__ import annotations

import os
import threading
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from shared.agents_errors import Fault, Refusal
from shared.domain.agents import admission, events, ids
from shared.domain.agents.admission import Admitted
from shared.domain.agents.head import Session
from shared.domain.agents.refusals import Refused
from shared.domain.session import Fenced
from shared.errors import Code
from shared.operations.agents import ending, large, places, seeing
from shared.operations.agents.config import Described, changing, describe, machine_action
from shared.operations.agents.requests.engines import check_images
from shared.operations.agents.requests.events import Batch, Message, read_events
from shared.operations.agents.session import Draft, Found, need, refusal, swap
from shared.operations.agents.sessions import start
from shared.operations.base import Call, Nothing, Raw, Route, operation
from shared.operations.room import Hand, Room
from shared.store.ports import Conflict, StoreUnavailable

_STOP_S = 1.5
"""How long a stopped Turn's holder may take to write its end; then it is written without it (11.35)."""
_ATTEMPTS = 50


class EventsInput(Raw):
    """Input for a Session."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")
    events: Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "object"}})] = Field(
        None, description="At most 64: messages, cancellations and results of function calls, in order."
    )


@operation(
    "events.create",
    route=Route("POST", ("/v1/agents/sessions/{session_id}/events",), contract="agents"),
    status=202,
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.EXISTS, Code.BUSY, Code.IDEMPOTENCY_CONFLICT),
    reader=EventsInput.read,
)
def create_events(room: Room, call: Call, data: EventsInput) -> Nothing:
    """Send input to a Session: all events are admitted, or none. A message begins a Turn or steers the one that runs.

    With an Idempotency-Key the same batch is admitted once.
    """
    batch = read_events(data.sent("session_id"))
    found = need(room, call.project, data.session_id)
    described = describe(room, found)
    for index, event in enumerate(batch.events):
        if isinstance(event, Message):
            check_images(described.config.agent["model"], event.items, f"events[{index}].input")
    if batch.events:
        found = seeing.seen(room, found)
        _admit(room, found, described, batch, call.idempotency_key)
    return Nothing()


def _known(room: Room, found: Found, key: str, digest: str) -> bool:
    """Whether the batch of a key was admitted already. Errors: 409 where it was another one."""
    item = room.state.get(found.partition, places.key(key))
    if item is None:
        return False
    if item.attributes["digest"] != digest:
        raise Refusal(Fault.IDEMPOTENCY_CONFLICT)
    return True


def _admit(room: Room, found: Found, described: Described, batch: Batch, key: str | None) -> None:
    """Admit a batch. Errors: 400, 404, 409; StoreUnavailable."""
    digest = batch.digest()
    ident = ids.new("batch", os.urandom)
    placed = large.placed(room, found.partition, batch.to_json())
    admitted: list[Admitted] = []

    def decide(draft: Draft) -> None:
        admitted[:] = [_apply(room, draft, described, batch, ident)]
        draft.put(places.batch(ident), placed)
        if key is not None:
            draft.put(places.key(key), {"digest": digest})

    for _ in range(_ATTEMPTS):
        if key is not None and _known(room, found, key, digest):
            return
        try:
            found = swap(room, found, decide)
        except (Conflict, Fenced):
            # The key, or a row of the Turn that is cancelled: both are looked at again.
            found = need(room, found.project, found.session)
            continue
        except Refused as refused:
            # What stands in its way may be the same batch, admitted by another request since the key was looked up.
            if key is not None and _known(room, found, key, digest):
                return
            raise refusal(refused) from None
        except StoreUnavailable:
            # Only this batch's own record tells whether it was admitted.
            if room.state.get(found.partition, places.batch(ident)) is None:
                raise
            found = need(room, found.project, found.session)
        break
    else:
        raise Refusal(Fault.EXECUTION_UNAVAILABLE)
    _follow(room, found, admitted[0])


def _apply(room: Room, draft: Draft, described: Described, batch: Batch, ident: str) -> Admitted:
    """The rule's decision on a draft, with the rows and frames that go with it. Errors: Refused."""
    found = draft.found
    turn, number = draft.new_id("turn")
    before = draft.head
    admitted = admission.admit(
        before,
        batch.rules(),
        batch=ident,
        turn=turn,
        owner=room.owner,
        now=room.clock(),
        writing=seeing.writing(room, found),
    )
    if admitted.ended:
        _tell_cancelled(room, draft, described, before)
    draft.head = admitted.head
    if admitted.created:
        ending.new_turn(draft, described, turn, number)
        actions = machine_action(found, draft.head)
        if actions:
            draft.tell(events.session_frame("requires_action", changing(draft.head, actions)))
    return admitted


def _tell_cancelled(room: Room, draft: Draft, described: Described, before: Session) -> None:
    """A Turn that is cancelled in this transaction: whoever holds it or the workspace is fenced out."""
    active = before.active
    assert active is not None
    row = ending.read_turn(room, draft.found.partition, active)
    unfinished = ending.read_open(room, draft.found.partition, active.open)
    ending.seize(room, draft)
    ending.tell_end(room, draft, described, row, "cancelled", unfinished=unfinished)


def _follow(room: Room, found: Found, admitted: Admitted) -> None:
    """What an admitted batch has done: a Turn to run, a program to stop."""
    if admitted.ended:
        room.hands.stop(admitted.ended)
    if admitted.stop:
        hand = room.hands.stop(admitted.stop)
        thread = threading.Thread(
            target=_insist, args=(room, found, admitted.stop, hand), name="cancelling", daemon=True
        )
        thread.start()
    start(room, found)


def _insist(room: Room, found: Found, turn: str, hand: Hand | None) -> None:
    """End a cancelled Turn whose holder does not (11.35)."""
    if hand is not None and hand.over.wait(_STOP_S):
        return
    try:
        described = describe(room, found)

        def decide(draft: Draft) -> None:
            active = draft.head.active
            if active is not None and active.turn == turn and active.cancel:
                seeing.end_active(room, draft, described, "cancelled")

        for _ in range(_ATTEMPTS):
            try:
                start(room, swap(room, need(room, found.project, found.session), decide))
            except (Conflict, Fenced):
                continue
            return
    except (Refusal, StoreUnavailable):
        # It is gone, or whoever sees it next ends it: its lease lapses.
        return
