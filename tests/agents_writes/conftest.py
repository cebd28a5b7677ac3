"""A desk for every test: on the local store, or on each adapter for those that ask for `anywhere`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shared.operations.agents import writing
from tests.agents_writes.desk import OTHER, PROJECT, Desk, Losing, make_session
from tests.contract.adapters import ADAPTERS
from tests.fakes import House, make_room, shut


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PATIENCE_S", 0.2)


def _desk(house: House) -> Desk:
    for project in (PROJECT, OTHER):
        house.do("keys.create", {"project": project})
    losing = Losing(house.state.inner)
    room = replace(house.room, state=losing)
    return Desk(house, room, losing, house.clock, make_session(room))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A Session on the local store."""
    house = make_room(tmp_path)
    yield _desk(house)
    shut(house)


@pytest.fixture(params=sorted(ADAPTERS))
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """A Session on each store."""
    house = make_room(tmp_path / "house")
    with ADAPTERS[request.param](tmp_path) as (state, objects):
        local = house.state.inner
        house.state.inner = state
        yield _desk(replace(house, room=replace(house.room, objects=objects)))
        house.state.inner = local
    shut(house)
