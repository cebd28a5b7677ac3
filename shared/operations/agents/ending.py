"""How a Turn's end is written, whoever writes it: its holder, a cancel, or whoever finds it in nobody's hand.

The head's own step is made by the pure rules before; here are the rows and frames that go with it (agents.md 5.3, 5.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.domain.agents import events, turns
from shared.domain.agents.head import Active, Open, seized
from shared.domain.agents.turns import Outcome, Turn, TurnError
from shared.domain.session import Fenced, Head
from shared.operations import names
from shared.operations.agents import large, places
from shared.operations.agents.config import Described, changing
from shared.operations.agents.session import Draft
from shared.operations.room import Room
from shared.store.ports import Item, PutIf, StoreUnavailable


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A Turn as it was read."""

    version: int
    turn: Turn


def read_turn(room: Room, partition: str, active: Active) -> TurnRow:
    """The row of the Turn that a head has as active.

    Errors: StoreUnavailable; Fenced where the row is newer than that head, whose swap would lose: it is to be looked at
    again.
    """
    item = room.state.get(partition, places.TURNS + active.turn)
    if item is None:
        raise StoreUnavailable("a Turn")
    turn = Turn.of(item.attributes)
    if turn.status != active.status:
        raise Fenced
    return TurnRow(item.version, turn)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An item in progress, to be made incomplete."""

    item: Item
    wire: dict[str, Any]
    output_index: int


def read_open(room: Room, partition: str, opened: Sequence[Open]) -> list[Unfinished]:
    """The items that a Turn leaves in progress. Errors: StoreUnavailable."""
    found = []
    for one in opened:
        item = room.state.get(partition, places.ITEMS + one.item)
        if item is None:
            raise StoreUnavailable("an item")
        found.append(Unfinished(item, large.value(room, item.attributes), one.output_index))
    return found


def tell_end(
    room: Room,
    draft: Draft,
    described: Described,
    row: TurnRow,
    outcome: Outcome,
    *,
    error: TurnError | None = None,
    usage: Mapping[str, Any] | None = None,
    unfinished: Sequence[Unfinished] = (),
) -> None:
    """Add a Turn's end to a draft whose head is behind it already. `unfinished` become incomplete."""
    if outcome == "failed" and row.turn.status == "queued":
        assert error is not None
        turn = turns.undone(row.turn, error, draft.now)
    else:
        turn = turns.ended(row.turn, outcome, draft.now, error=error, usage=usage)
    draft.put(places.TURNS + turn.id, turn.attributes(), row.version)
    left = []
    for one in unfinished:
        wire = {**one.wire, "status": "incomplete"}
        draft.put(
            one.item.sort, {**one.item.attributes, **large.placed(room, draft.found.partition, wire)}, one.item.version
        )
        left.append((wire, one.output_index))
    idle = replace(draft.head, active=None, pending=None, calls=())
    draft.tell(*events.turn_ended(turn_wire(draft, described, turn), changing(idle), left))


def turn_wire(draft: Draft, described: Described, turn: Turn) -> dict[str, Any]:
    """A Turn as it is shown."""
    return turn.wire(draft.found.session, described.config.agent["id"])


def new_turn(draft: Draft, described: Described, turn: str, number: int) -> None:
    """The row and the frame of a Turn that the head has queued."""
    made = Turn(id=turn, sequence=number, created=draft.now)
    draft.put(places.TURNS + turn, made.attributes())
    draft.tell(events.turn_frame(turn_wire(draft, described, made)))


def seize(room: Room, draft: Draft) -> None:
    """Take the workspace from the Turn that ends, in the same transaction; what comes late is fenced out.

    While an Environment is prepared its workspace is in the hand of its preparation, which goes on.
    """
    if draft.found.head.environment.status != "pending":
        take(room, draft)


def take(room: Room, draft: Draft) -> None:
    """Take the workspace from whoever holds it, in the same transaction."""
    item = room.state.get(draft.found.partition, names.HEAD)
    if item is not None:
        head = seized(Head.of(item.attributes))
        draft.actions.append(PutIf(item.partition, item.sort, item.version, head.attributes()))
