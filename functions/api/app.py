"""The HTTP application: every route of the registry and of the table of named routes, behind one door."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.api import pages
from functions.api.addresses import served_path
from functions.api.agents import addresses as agents_addresses
from functions.api.agents import routes as agents_routes
from functions.api.agents.door import AgentsDoor
from functions.api.agents.queries import HEADLESS
from functions.api.agents.streaming import LOCAL, Pace, Streams
from functions.api.bodies import Bodies
from functions.api.document import document
from functions.api.door import Door
from functions.api.mcp import mcp_app
from functions.api.named import NAMED
from functions.api.transfers import bare_download_handler, download_handler, grant_handler, upload_handler
from functions.api.typed import START, AnyOperation, typed_handler
from functions.api.workers import Workers
from shared.operations.all import operations
from shared.operations.room import Room
from shared.settings import Settings


class _Mounted:
    """An ASGI application as a route's endpoint, at exactly its path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def published_operations() -> list[AnyOperation]:
    """The caller operations that have a route."""
    return [entry for entry in operations().values() if entry.audience == "caller" and entry.route is not None]


def create_app(room: Room, settings: Settings, *, pace: Pace | None = LOCAL) -> FastAPI:
    """The application. `app.routes` are all that is served; `app.state.workers` stops what runs when a service ends,
    `app.state.bodies` counts what is held of requests.

    `pace` is that of event streams; None: this door carries none, and what would be one is refused.
    """
    workers = Workers(room.limits)
    streams = Streams(room, workers, pace)
    start = operations()[START]
    typed = published_operations()
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.router.redirect_slashes = False
    app.state.workers = workers
    for operation in typed:
        assert operation.route is not None
        method, name = operation.route.method, operation.name
        if operation.route.contract == "agents":
            handler = agents_routes.typed_handler(operation, room, workers, streams)
            served = agents_addresses.served_path
        else:
            handler = typed_handler(operation, start if name == "exec.run" else None, room, workers)
            served = served_path
        for path in operation.route.paths:
            app.add_route(served(path), handler, methods=[method], name=name)
            if name in HEADLESS:
                _without_head(app.routes[-1])
    made = json.dumps(document(typed, start, NAMED), ensure_ascii=False).encode()
    handlers = _named_handlers(room, settings, workers, streams, made)
    for route in NAMED:
        for path in route.paths:
            app.add_route(path, handlers[route.name], methods=[route.method], name=route.name)
            if not route.head:
                _without_head(app.routes[-1])
    curious = {operation.name for operation in typed if operation.open}
    free = curious | {route.name for route in NAMED if route.free}
    bodies = app.state.bodies = Bodies(room.limits)
    app.add_middleware(Door, room=room, workers=workers, routes=app.routes, bodies=bodies, free=free, curious=curious)
    # What is added last is outermost: the other contract's requests never reach the first door.
    app.add_middleware(AgentsDoor, room=room, workers=workers, routes=app.routes, bodies=bodies)
    return app


def _without_head(route: BaseRoute) -> None:
    """A GET that takes no HEAD: its answer is not what a HEAD could tell of (agents.md 1.1)."""
    assert isinstance(route, Route)
    assert route.methods is not None
    route.methods.discard("HEAD")


def _named_handlers(
    room: Room, settings: Settings, workers: Workers, streams: Streams, made: bytes
) -> Mapping[str, Any]:
    return {
        "files.upload": upload_handler(room, workers, batch=False),
        "files.upload_batch": upload_handler(room, workers, batch=True),
        "files.download": download_handler(room, workers),
        "files.download_nothing": bare_download_handler(),
        "uploads.put": grant_handler(room, workers),
        **agents_routes.named_handlers(room, workers, streams),
        "mcp.post": _Mounted(mcp_app(room, settings)),
        "pages.openapi": pages.document_handler(made),
        "pages.docs": pages.docs,
        **{f"pages.{name}": pages.asset for name in pages.ASSETS},
        "pages.start": pages.start,
    }
