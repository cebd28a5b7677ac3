"""Pages of a list with a cursor: one row is looked ahead, so that `has_more` is the truth (agents.md 1.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


def scan(
    read: Callable[[str | None, int], Sequence[T_]],
    key: Callable[[T_], str],
    after: str | None,
    keep: Callable[[T_], bool],
    limit: int,
) -> Page[T_]:
    """A page of the rows that `keep` keeps, from a source that is read in pieces.

    `read(after, count)` gives at most `count` rows behind a key, in order; fewer mean that it is at its end.
    """

    def kept() -> Iterable[T_]:
        place = after
        while True:
            rows = read(place, limit + 1)
            yield from filter(keep, rows)
            if len(rows) <= limit:
                return
            place = key(rows[-1])

    return page(kept(), limit)
