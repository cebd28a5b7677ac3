"""Services whose streams have a pace that tests can wait for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.api.agents.streaming import Pace
from functions.api.serve import Server
from shared.limits import Limits
from shared.operations.room import Room
from shared.settings import Settings
from tests.agents.asking import Asker
from tests.wire.scripted import Scripted
from tests.wire.service import Service, make_key, open_test_room, started

QUICK = Pace(first=0.005, longest=0.02, check=0.02, keepalive=0.2)
SILENT = Pace(first=600, longest=600, check=600, keepalive=600)
"""Nothing but a bell wakes a stream of this pace."""


@contextlib.contextmanager
def served(room: Room, pace: Pace = QUICK) -> Iterator[tuple[Asker, Server]]:
    """The service on a loopback port, as `serve` does it, and its server."""
    with started(room, Settings(port=0, dev_key=False), pace) as (host, port, server):
        yield Asker(Service(host, port, make_key(room, "first"), make_key(room, "second"), room)), server


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A room with a scripted executor and few places for streams."""
    return open_test_room(tmp_path, Limits(streams=3, project_streams=2), Scripted())


@pytest.fixture
def api(room: Room) -> Iterator[Asker]:
    """A running service."""
    with served(room) as (asker, _):
        yield asker
