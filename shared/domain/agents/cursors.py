"""Pages of a list with a cursor: one row is looked ahead, so that `has_more` is the truth (agents.md 1.6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

T_ = TypeVar("T_")


@dataclass(frozen=True, slots=True)
class Page(Generic[T_]):
    """Rows of a list in the asked order, and whether more follow."""

    rows: tuple[T_, ...]
    has_more: bool


def page(rows: Iterable[T_], limit: int) -> Page[T_]:
    """The first `limit` rows behind a cursor; the source is read to one row more and no further."""
    found = list(islice(rows, limit + 1))
    return Page(tuple(found[:limit]), len(found) > limit)
