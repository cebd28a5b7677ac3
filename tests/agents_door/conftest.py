"""Services whose streams have a pace that tests can wait for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.api.agents.streaming import Pace
from functions.api.serve import Server, make_config
from shared.limits import Limits
from shared.operations.room import Room
from shared.settings import Settings
from tests.agents.asking import Asker
from tests.wire.scripted import Scripted
from tests.wire.service import Service, make_key, open_test_room

QUICK = Pace(first=0.005, longest=0.02, check=0.02, keepalive=0.2)
SILENT = Pace(first=600, longest=600, check=600, keepalive=600)
"""Nothing but a bell wakes a stream of this pace."""


@contextlib.contextmanager
def served(room: Room, pace: Pace = QUICK) -> Iterator[tuple[Asker, Server]]:
    """The service on a loopback port, as `serve` does it, and its server."""
    config, workers = make_config(Settings(port=0, dev_key=False), room, pace=pace)
    ready = threading.Event()
    where: list[tuple[str, int]] = []

    def say(host: str, port: int) -> None:
        where.append((host, port))
        ready.set()

    server = Server(config, workers, say)
    thread = threading.Thread(target=server.run, name="service", daemon=True)
    thread.start()
    try:
        assert ready.wait(20), "the service did not start"
        yield Asker(Service(*where[0], make_key(room, "first"), make_key(room, "second"), room)), server
    finally:
        server.should_exit = True
        thread.join(40)
        assert not thread.is_alive(), "the service did not end"
        room.background.shutdown(wait=True)
        room.executor.close()


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A room with a scripted executor and few places for streams."""
    return open_test_room(tmp_path, Limits(streams=3, project_streams=2), Scripted())


@pytest.fixture
def api(room: Room) -> Iterator[Asker]:
    """A running service."""
    with served(room) as (asker, _):
        yield asker
