"""What the template's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.routing import Route

from functions.api.app import create_app
from shared.settings import Settings
from tests.fakes import make_room, shut
from tests.template.reading import Node, load

Served = frozenset[tuple[str, str]]


@pytest.fixture
def template() -> Node:
    """template.yaml, a copy that a test may change."""
    return load()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """Every method and path that the application serves, by a walk of its routes."""
    house = make_room(Path(tmp_path_factory.mktemp("served")))
    try:
        app = create_app(house.room, Settings.read({}))
        routes = [route for route in app.routes if isinstance(route, Route)]
        assert len(routes) == len(app.routes)
        return frozenset((method, route.path) for route in routes for method in route.methods or ())
    finally:
        shut(house)
