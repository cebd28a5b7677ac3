"""The service inside the command: the same application on the data folder, behind a socket that only this user has.

A thread serves it on a Unix socket in a folder of its own (0700), so that transfers stream as they do over a network
and no port is opened.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from functions.cli.opened import key_of, opened_room
from functions.cli.show import Refused
from shared.operations.room import Room
from shared.settings import Settings

_START_S = 60


@contextmanager
def embedded(settings: Settings, *, programs: bool) -> Iterator[tuple[httpx.BaseTransport, str | None]]:
    """Serve on the data folder while the context lasts: the transport to it, and the development key."""
    with opened_room(settings, programs=programs) as room, _socket_of(room, settings) as path:
        yield httpx.HTTPTransport(uds=str(path)), key_of(settings, room)
        # What was begun and nobody waits for, such as a Turn, has no other process that would go on with it.
        room.background.shutdown(wait=True)


@contextmanager
def _socket_of(room: Room, settings: Settings) -> Iterator[Path]:
    from functions.api.serve import make_config  # noqa: PLC0415

    config, _ = make_config(settings, room)
    config.timeout_graceful_shutdown = 5
    server = uvicorn.Server(config)
    with tempfile.TemporaryDirectory(prefix="workroom-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "socket"
        listener.bind(str(path))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="service-inside", daemon=True)
        thread.start()
        try:
            limit = time.monotonic() + _START_S
            while not server.started:
                if not thread.is_alive() or time.monotonic() > limit:
                    raise Refused("the service did not start")
                time.sleep(0.005)
            yield path
        finally:
            server.should_exit = True
            thread.join(10)
