"""The items of a Session and of one Turn, in the order in which they were first seen (agents.md 5.5, 11.43)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.domain.agents import ids
from shared.errors import Code
from shared.operations.agents import large, places
from shared.operations.agents.pages import Page, PageInput, bounded, clamped_limit, walked
from shared.operations.agents.seeing import seen
from shared.operations.agents.session import Found, need
from shared.operations.agents.turns import need_turn
from shared.operations.base import Call, Route, operation
from shared.operations.room import Room
from shared.store.ports import Item

_CURSOR = "Invalid session item ID in `after`"


class ItemListInput(PageInput):
    """Which items to list."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")


class TurnItemListInput(ItemListInput):
    """Which items of a Turn to list."""

    turn_id: str = Field(description="Id of the Turn: `turn_…`.")


class ItemList(Page[dict[str, Any]]):
    """One page of items."""


def _cursor(room: Room, found: Found, after: str | None, turn: str | None) -> str | None:
    """The sort that a page begins behind. Errors: 400 for what names no item of the list."""
    if after is None:
        return None
    item = room.state.get(found.partition, places.ITEMS + after) if ids.is_id(after, "item") else None
    if item is None or turn not in (None, item.attributes["turn"]):
        raise Refusal(Fault.INVALID, _CURSOR)
    return item.sort


def _rows(room: Room, found: Found, after: str | None, descending: bool) -> Iterator[Item]:
    """Rows behind a sort, read in pieces."""
    return walked(room, found.partition, places.ITEMS, after, descending=descending)


def _of_turn(room: Room, found: Found, turn: str, after: str | None, descending: bool) -> Iterator[Item]:
    """The rows of one Turn behind a sort, without reading those of others.

    A Turn's items are made from its own number on, and before any of the next Turn: the Turns' ids, which sort as
    their numbers do, never go back along the items.
    """
    if after is None:
        after = _end(room, found, turn) if descending else places.ITEMS + _place(turn)
    for row in _rows(room, found, after, descending):
        of = row.attributes["turn"]
        if of == turn:
            yield row
        elif (of < turn) == descending:
            return


def _end(room: Room, found: Found, turn: str) -> str | None:
    """The sort of the first item behind a Turn's; None where it has the last one.

    The next Turn may be numbered before the last items of this one, in the transaction that ends it.
    """
    following = room.state.query(found.partition, places.TURNS, after=places.TURNS + turn, limit=1)
    if not following:
        return None
    first = places.ITEMS + _place(following[0].attributes["id"])
    return next((row.sort for row in _rows(room, found, first, False) if row.attributes["turn"] > turn), None)


def _place(turn: str) -> str:
    """What ids of items begin with that are numbered from a Turn on."""
    return "item_" + ids.order(ids.sequence_of(turn, "turn") or 0)


def _page(room: Room, limit: int | None, rows: Iterator[Item]) -> ItemList:
    """A page of rows, read one by one."""
    found = (large.value(room, row.attributes) for row in rows)
    items, has_more = bounded(room, clamped_limit(limit), found, _size)
    return ItemList.of(items, lambda item: str(item["id"]), has_more=has_more)


def _size(item: dict[str, Any]) -> int:
    return len(json.dumps(item, separators=(",", ":")))


@operation(
    "items.list",
    route=Route("GET", ("/v1/agents/sessions/{session_id}/items",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
)
def list_items(room: Room, call: Call, data: ItemListInput) -> ItemList:
    """List the items of a Session: messages, commands, function calls and their results. Next page: behind `last_id`.

    A page ends early where its items are large.
    """
    found = seen(room, need(room, call.project, data.session_id))
    after = _cursor(room, found, data.after, None)
    return _page(room, data.limit, _rows(room, found, after, data.order == "desc"))


@operation(
    "turns.items",
    route=Route("GET", ("/v1/agents/sessions/{session_id}/turns/{turn_id}/items",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
)
def list_turn_items(room: Room, call: Call, data: TurnItemListInput) -> ItemList:
    """List the items of one Turn. The next page begins behind `last_id`.

    A page ends early where its items are large.
    """
    found = seen(room, need(room, call.project, data.session_id))
    need_turn(room, found, data.turn_id)
    after = _cursor(room, found, data.after, data.turn_id)
    return _page(room, data.limit, _of_turn(room, found, data.turn_id, after, data.order == "desc"))
