"""What every list has in common (agents.md 1.6)."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from shared.agents_errors import Refusal
from shared.limits import Limits
from shared.operations.agents.pages import Page, bounded, clamped_limit, strict_limit
from shared.operations.room import Room


def test_an_empty_page_has_no_ids() -> None:
    made = Page[str].of([], str, has_more=False)
    assert made.model_dump() == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_a_page_names_its_first_and_last_row() -> None:
    made = Page[str].of(["b", "a"], str, has_more=True)
    assert (made.first_id, made.last_id, made.has_more) == ("b", "a", True)


@pytest.mark.parametrize(("asked", "given"), [(None, 20), (0, 1), (1, 1), (100, 100), (101, 100), (2**62, 100)])
def test_a_clamped_limit(asked: int | None, given: int) -> None:
    assert clamped_limit(asked) == given


def test_a_strict_limit() -> None:
    assert [strict_limit(asked) for asked in (None, 1, 100)] == [20, 1, 100]
    for asked in (0, 101, -1):
        with pytest.raises(Refusal) as refused:
            strict_limit(asked)
        assert refused.value.message == "limit must be between 1 and 100"


def test_a_page_ends_behind_its_rows_or_its_bytes_and_looks_one_ahead() -> None:
    room = cast("Room", SimpleNamespace(limits=Limits(answer_bytes=100)))
    read: list[int] = []

    def rows(*sizes: int) -> Iterator[int]:
        for size in sizes:
            read.append(size)
            yield size

    assert bounded(room, 3, rows(1, 1), int) == ([1, 1], False)
    assert bounded(room, 2, rows(1, 1), int) == ([1, 1], False)
    read.clear()
    assert bounded(room, 2, rows(1, 1, 1, 1), int) == ([1, 1], True)
    assert read == [1, 1, 1]
    assert bounded(room, 9, rows(60, 40), int) == ([60, 40], False)
    read.clear()
    assert bounded(room, 9, rows(60, 41, 1), int) == ([60], True)
    assert read == [60, 41]
    assert bounded(room, 9, rows(500, 1), int) == ([500], True)
