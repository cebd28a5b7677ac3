"""Pages of cursor lists (agents.md 1.6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.domain.agents.cursors import Page, page


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
