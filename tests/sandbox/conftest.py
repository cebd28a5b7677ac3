"""One environment of each configuration for a module's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.rooms import Room, room


@pytest.fixture(scope="module", params=["strict", "like lambda"])
def sole(request: pytest.FixtureRequest) -> Iterator[Room]:
    """Both configurations, one after the other."""
    with room(request.param) as made:
        yield made
