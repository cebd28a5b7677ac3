"""What every list with a cursor has in common: what it is asked and the envelope of its page (agents.md 1.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Literal, Self, TypeVar

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.operations.base import Model
from shared.operations.room import Room
from shared.store.ports import Item

MOST = 100
DEFAULT = 20
PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a page's rows above which it ends early: `has_more` then leads on."""
_PIECE = 21
"""Rows of one query: a page of the default length and one ahead."""
T_ = TypeVar("T_")


class PageInput(Model):
    """Which part of a list."""

    limit: int | None = Field(None, description="How many at most: 1 to 100; default: 20.")
    order: Literal["asc", "desc"] = Field("desc", description="By the order of creation; default: newest first.")
    after: str | None = Field(None, description="Id that the page begins behind: the former page's `last_id`.")


class Page(Model, Generic[T_]):
    """One page of a list."""

    object: Literal["list"] = Field("list", description="Always `list`.")
    data: list[T_] = Field(description="The page, in the order that was asked for.")
    first_id: str | None = Field(description="Id of the first of the page; null where it is empty.")
    last_id: str | None = Field(description="Id of the last of the page; null where it is empty.")
    has_more: bool = Field(description="Whether more follow.")

    @classmethod
    def of(cls, rows: Sequence[T_], ident: Callable[[T_], str], *, has_more: bool) -> Self:
        """The page with these rows."""
        return cls(
            data=list(rows),
            first_id=ident(rows[0]) if rows else None,
            last_id=ident(rows[-1]) if rows else None,
            has_more=has_more,
        )


def strict_limit(limit: int | None) -> int:
    """The limit of a list whose limit is never clamped (agents.md 1.6). Errors: 400."""
    if limit is None:
        return DEFAULT
    if not 1 <= limit <= MOST:
        raise Refusal(Fault.INVALID, f"limit must be between 1 and {MOST}")
    return limit


def clamped_limit(limit: int | None) -> int:
    """The limit of the other lists."""
    return DEFAULT if limit is None else max(1, min(MOST, limit))


def walked(
    room: Room, partition: str, prefix: str, after: str | None, *, piece: int = _PIECE, descending: bool = False
) -> Iterator[Item]:
    """The rows of a partition behind a sort, read in pieces of so many as they are asked for."""
    while True:
        page = room.state.query(partition, prefix, after=after, limit=piece, descending=descending)
        yield from page
        if len(page) < piece:
            return
        after = page[-1].sort


def bounded(room: Room, limit: int, rows: Iterable[T_], size: Callable[[T_], int]) -> tuple[list[T_], bool]:
    """The rows of one page, and whether more follow: at most `limit`, and no more bytes than an answer may have.

    One is always there, so that whoever follows `last_id` comes to the end. One row beyond the page is looked at.
    """
    most = min(PAGE_BYTES, room.limits.answer_bytes or PAGE_BYTES)
    taken: list[T_] = []
    total = 0
    for row in rows:
        total += size(row)
        if len(taken) == limit or (taken and total > most):
            return taken, True
        taken.append(row)
    return taken, False
