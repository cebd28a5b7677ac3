"""What every list has in common (agents.md 1.6)."""

from __future__ import annotations

import pytest

from shared.agents_errors import Refusal
from shared.operations.agents.pages import Page, clamped_limit, strict_limit


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
