"""`workroom serve`: uvicorn on one machine, with the janitor beside it, and an orderly end.

On the first SIGTERM or SIGINT no connection is taken any more and event streams end; what runs has a while to finish,
then its programs are stopped and their callers answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator

import uvicorn
from starlette.types import ASGIApp

from functions.api.access import ACCESS, ERRORS
from functions.api.agents.streaming import Pace, pace_of
from functions.api.app import create_app
from functions.api.protocol import KEEP_ALIVE_S, Protocol
from functions.api.workers import Workers
from shared.operations.room import Room
from shared.settings import BadSetting, Settings

_FINISH_S = 5
_GRACE_S = 20
_FILES = 65_536
_BACKLOG = 2_048

Janitor = Callable[[], object]
Around = Callable[[ASGIApp], ASGIApp]


def check_address(settings: Settings) -> None:
    """Refuse to listen beyond this machine with the development key. Errors: BadSetting."""
    if settings.dev_key and not is_loopback(settings.host):
        raise BadSetting(
            "WORKROOM_HOST is not a loopback address, and the development key is on: make keys with "
            "`workroom keys create` and set WORKROOM_DEV_KEY=0"
        )


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own. A name other than `localhost` is not believed."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def make_config(
    settings: Settings, room: Room, around: Around | None = None, pace: Pace | None = None
) -> tuple[uvicorn.Config, Workers]:
    """uvicorn's configuration for the application, in the middleware `around` it, and the application's threads.

    `pace` is that of its streams; default: the store's.
    """
    app = create_app(room, settings, pace=pace or pace_of(settings))
    config = uvicorn.Config(
        app if around is None else around(app),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
    )
    return config, app.state.workers


class Server(uvicorn.Server):
    """uvicorn's server, that says when it is ready, and ends streams and stops what runs when it ends."""

    def __init__(self, config: uvicorn.Config, workers: Workers, ready: Callable[[str, int], None]) -> None:
        super().__init__(config)
        self._workers = workers
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            address = self.servers[0].sockets[0].getsockname()
            self._ready(address[0], address[1])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._workers.end_streams()
        stopping = asyncio.ensure_future(self._stop_later())
        try:
            await super().shutdown(sockets)
        finally:
            stopping.cancel()

    async def _stop_later(self) -> None:
        await asyncio.sleep(_FINISH_S)
        await self._workers.stop_all()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """End by a signal in order: as uvicorn does, but without raising the signal again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(settings: Settings, room: Room, janitor: Janitor | None = None) -> None:
    """Serve until SIGTERM or SIGINT. `janitor` is called every `settings.janitor_s`, the first time at once.

    The caller closes the room. Errors: BadSetting, also when the address cannot be had.
    """
    check_address(settings)
    listener = listen(settings)
    _raise_file_limit()
    _log_to_stdout(settings.log_level)
    config, workers = make_config(settings, room)
    ended = threading.Event()
    sweeper = threading.Thread(target=_sweep, args=(janitor, settings.janitor_s, ended), name="janitor", daemon=True)
    if janitor is not None:
        sweeper.start()
    try:
        Server(config, workers, _say_ready).run([listener])
    finally:
        listener.close()
        ended.set()
        if janitor is not None:
            sweeper.join(timeout=10)


def listen(settings: Settings) -> socket.socket:
    """The socket of `host` and `port`. Errors: BadSetting."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise BadSetting(f"WORKROOM_HOST and WORKROOM_PORT name an address that cannot be had: {why}") from None


def _say_ready(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    print(f"Workroom is ready: http://{shown}:{port}", flush=True)


def _sweep(janitor: Janitor, pause_s: int, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            janitor()
        except Exception as error:
            ERRORS.error(json.dumps({"event": "janitor", "kind": type(error).__name__}))
        ended.wait(pause_s)


def _log_to_stdout(level: str) -> None:
    """Our two logs go to standard output as they are, everything else's warnings to standard error."""
    out = logging.StreamHandler(sys.stdout)
    out.setFormatter(logging.Formatter("%(message)s"))
    for logger in (ACCESS, ERRORS):
        logger.handlers[:] = [out]
        logger.propagate = False
        logger.setLevel(level.upper())
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")


def _raise_file_limit() -> None:
    """A batch upload holds a descriptor for each of its files until it is stored."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
