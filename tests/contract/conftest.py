"""Each test of the suite runs once for each adapter, on stores of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.store.ports import Objects, State

from .adapters import ADAPTERS, Store


@pytest.fixture(params=sorted(ADAPTERS))
def adapter(request: pytest.FixtureRequest) -> str:
    """The adapter's name."""
    return str(request.param)


@pytest.fixture
def store(adapter: str, tmp_path: Path) -> Iterator[Store]:
    """Both ports, empty."""
    with ADAPTERS[adapter](tmp_path) as opened:
        yield opened


@pytest.fixture
def state(store: Store) -> State:
    """The state port, empty."""
    return store[0]


@pytest.fixture
def objects(store: Store) -> Objects:
    """The object port, empty."""
    return store[1]
