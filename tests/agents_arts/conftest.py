"""A Session on the local store, and one on each adapter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from shared.operations.room import Room
from shared.store.ports import Objects, State
from tests.agents_arts.made import Book, CountedObjects, CountedState, make_book
from tests.contract.adapters import ADAPTERS
from tests.fakes import House, make_room, shut


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A room on the real local store."""
    made = make_room(tmp_path)
    yield made
    shut(made)


def counted(house: House, state: State, objects: Objects) -> Room:
    """The room with stores that count."""
    return replace(house.room, state=CountedState(state), objects=cast("Objects", CountedObjects(objects)))


@pytest.fixture
def book(house: House) -> Book:
    """A Session without anything."""
    return make_book(counted(house, house.room.state, house.room.objects))


@pytest.fixture(params=sorted(ADAPTERS))
def any_book(request: pytest.FixtureRequest, house: House, tmp_path: Path) -> Iterator[Book]:
    """The same on each adapter."""
    with ADAPTERS[request.param](tmp_path / "store") as (state, objects):
        yield make_book(counted(house, state, objects))
