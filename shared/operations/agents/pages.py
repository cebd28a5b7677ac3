"""What every list with a cursor has in common: what it is asked and the envelope of its page (agents.md 1.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, Self, TypeVar

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.operations.base import Model

MOST = 100
DEFAULT = 20
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
