"""The items of a Session and of one Turn, in the order in which they were first seen (agents.md 5.5, 11.43)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.domain.agents import cursors, ids
from shared.errors import Code
from shared.operations.agents import large, places
from shared.operations.agents.seeing import seen
from shared.operations.agents.session import Found, need
from shared.operations.agents.turns import DEFAULT, need_turn
from shared.operations.base import Call, Model, Route, operation
from shared.operations.room import Room
from shared.store.ports import Item

_CURSOR = "Invalid session item ID in `after`"
PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of stored items above which a page ends early: `has_more` then leads on."""


class ItemListInput(Model):
    """Which items to list."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")
    limit: int | None = Field(None, description="How many at most: 1 to 100, a number outside clamped; default: 20.")
    order: Literal["asc", "desc"] = Field("desc", description="By the order of appearance; default: newest first.")
    after: str | None = Field(None, description="Id of the item that the page begins behind.")


class TurnItemListInput(ItemListInput):
    """Which items of a Turn to list."""

    turn_id: str = Field(description="Id of the Turn: `turn_…`.")


class ItemList(Model):
    """One page of items."""

    object: Literal["list"] = Field("list", description="Always `list`.")
    data: list[dict[str, Any]] = Field(description="The items in the order that was asked for.")
    first_id: str | None = Field(description="Id of the first item of the page; null where it is empty.")
    last_id: str | None = Field(description="Id of the last item of the page; null where it is empty.")
    has_more: bool = Field(description="Whether more items follow.")


def _page(room: Room, found: Found, data: ItemListInput, keep: Callable[[Item], bool]) -> ItemList:
    """A page of the rows that `keep` keeps. Errors: 400 for a cursor that is none of them."""
    limit = cursors.clamped(DEFAULT if data.limit is None else data.limit)
    after = None
    if data.after is not None:
        sort = places.ITEMS + data.after
        item = room.state.get(found.partition, sort) if ids.is_id(data.after, "item") else None
        if item is None or not keep(item):
            raise Refusal(Fault.INVALID, _CURSOR)
        after = sort

    def rows(place: str | None, count: int) -> list[Item]:
        return room.state.query(
            found.partition, places.ITEMS, after=place, limit=count, descending=data.order == "desc"
        )

    page = cursors.scan(rows, lambda row: row.sort, after, keep, limit)
    items: list[dict[str, Any]] = []
    size = 0
    for row in page.rows:
        if row.attributes["pointer"]:
            info = room.objects.head(row.attributes["pointer"])
            size += 0 if info is None else info.size
        if items and size > PAGE_BYTES:
            break
        items.append(large.value(room, row.attributes))
    return ItemList(
        data=items,
        first_id=items[0]["id"] if items else None,
        last_id=items[-1]["id"] if items else None,
        has_more=page.has_more or len(items) < len(page.rows),
    )


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
    return _page(room, found, data, lambda row: True)


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
    return _page(room, found, data, lambda row: row.attributes["turn"] == data.turn_id)
