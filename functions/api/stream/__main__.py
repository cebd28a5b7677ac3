"""Serve every route on the port that Lambda Web Adapter passes requests to, one at a time.

    AWS_LWA_PORT   the port, 8080 where it is not set

The room is opened before the port is: the adapter's readiness check waits for it. So this function must not start
from a snapshot, whose environments would share the room's names and random bits.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.api.joined import Apart
from functions.api.serve import Server, listen, make_config
from functions.environment import HERE
from functions.room import close_room
from functions.telemetry import Telemetry, install
from shared.settings import BadSetting

_PORT = "AWS_LWA_PORT"
_DEFAULT_PORT = 8080
_CONTEXT = "x-amzn-lambda-context"


def port_of(environ: Mapping[str, str]) -> int:
    """The port. Errors: BadSetting, also for a function that starts from a snapshot."""
    if environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
        raise BadSetting("the streaming function must not start from a snapshot (SnapStart)")
    text = environ.get(_PORT, "") or str(_DEFAULT_PORT)
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > 65535:
        raise BadSetting(f"{_PORT} must be a port")
    return int(text)


@dataclass(frozen=True, slots=True)
class _Context:
    aws_request_id: object


class Begun:
    """ASGI middleware: each request is a call of the function, whose id the adapter sends along."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._telemetry.begin(_context(Headers(scope=scope).get(_CONTEXT)))
        await self._app(scope, receive, send)


def _context(text: str | None) -> _Context:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        found = {}
    return _Context(found.get("request_id") if isinstance(found, dict) else None)


def main(environ: Mapping[str, str]) -> int:
    """Serve until SIGTERM or SIGINT."""
    telemetry = install("stream")
    try:
        settings = replace(HERE.settings, host="127.0.0.1", port=port_of(environ))
        listener = listen(settings)
        room = HERE.room()
    except BadSetting as error:
        print(error, file=sys.stderr)
        return 2
    try:
        config, workers = make_config(settings, room, lambda app: Begun(Apart(app), telemetry))
        Server(config, workers, lambda host, port: print(f"Workroom is ready: http://{host}:{port}", flush=True)).run(
            [listener]
        )
    finally:
        listener.close()
        close_room(room)
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
