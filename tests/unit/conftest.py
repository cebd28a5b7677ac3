"""A house for every test that asks for one, shut when the test ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes import House, make_room, shut
from tests.unit.runner_trees import Place, Store, folder

settings.register_profile(
    "quick", max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quick")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A room on the real local store with a scripted executor."""
    made = make_room(tmp_path)
    yield made
    shut(made)


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Makes a house with other limits."""
    made: list[House] = []

    def make(**changes: Any) -> House:
        made.append(make_room(tmp_path / str(len(made)), **changes))
        return made[-1]

    yield make
    for one in made:
        shut(one)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty workspace."""
    root = folder(tmp_path / "w")
    yield tmp_path / "w", root, Store(tmp_path / "objects")
    os.close(root)
