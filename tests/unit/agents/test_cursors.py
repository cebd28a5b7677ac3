"""Pages of cursor lists (agents.md 1.6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.agents.cursors import Page, page, scan


@pytest.mark.parametrize(("count", "has_more"), [(0, False), (2, False), (3, True), (9, True)])
def test_one_row_is_looked_ahead_and_no_more(count: int, has_more: bool) -> None:
    read: list[int] = []

    def rows() -> Iterator[int]:
        for at in range(count):
            read.append(at)
            yield at

    found = page(rows(), 2)
    assert found == Page(tuple(range(min(count, 2))), has_more)
    assert len(read) == min(count, 3)


@given(st.sets(st.integers(0, 60)), st.integers(1, 7), st.integers(2, 5))
def test_a_filtered_list_is_paged_without_a_gap_or_a_repetition(keys: set[int], limit: int, every: int) -> None:
    rows = [f"{key:03}" for key in sorted(keys)]

    def read(after: str | None, count: int) -> list[str]:
        return [row for row in rows if after is None or row > after][:count]

    def keep(row: str) -> bool:
        return int(row) % every == 0

    found: list[str] = []
    after = None
    while True:
        got = scan(read, lambda row: row, after, keep, limit)
        found += got.rows
        if not got.has_more:
            break
        assert len(got.rows) == limit
        after = got.rows[-1]
    assert found == [row for row in rows if keep(row)]
