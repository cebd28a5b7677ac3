"""The outermost middleware: admission before anything else, then the address, then the route.

    request ── raw path ── open to anyone? ── yes ─────────────────────┐
                               │ no                                    │
                               └─ admitted? ── no: 401, whatever the path
                                       │ yes                           │
                                       └── known? 404 ── method? 405 ──┴── route ── answer

Every answer has an `X-Request-Id` of ours and one line in the log. An unexpected error answers 500 and says nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.api.access import Entry, unexpected
from functions.api.addresses import Matched, Table, raw_path
from functions.api.answers import refusal
from functions.api.bodies import Bodies
from functions.api.counting import Counting
from functions.api.headers import credentials
from functions.api.workers import Workers
from shared.errors import Code, Failure
from shared.identity import Caller
from shared.operations.admission import Credentials, admit
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable


class Door:
    """ASGI middleware around every route.

    `free` are the names of routes that ask for no credential of the door's; of those, `curious` ones answer an
    admitted caller more, so a credential is looked at where one is sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        room: Room,
        workers: Workers,
        routes: Sequence[BaseRoute],
        bodies: Bodies,
        free: Collection[str],
        curious: Collection[str],
    ) -> None:
        self._app = app
        self._room = room
        self._workers = workers
        self._table = Table(routes)
        self._bodies = bodies
        self._free = frozenset(free)
        self._curious = frozenset(curious)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        entry = Entry(secrets.token_hex(12), scope["method"])
        wire = Counting(entry, receive, send, head=scope["method"] == "HEAD", headers=dict)
        try:
            await self._dispatch(dict(scope), entry, wire)
        except ClientDisconnect:
            pass
        except Exception as error:
            failure = as_failure(error)
            if not isinstance(error, Failure):
                unexpected(entry.request_id, error)
            if not wire.started:
                await refusal(failure)(scope, wire.receive, wire.send)
        finally:
            entry.write()

    async def _dispatch(self, scope: Scope, entry: Entry, wire: Counting) -> None:
        path = raw_path(scope)
        found = self._table.match(path, scope["method"])
        entry.template = found.template
        entry.operation = found.route.name if found.route is not None else None
        entry.caller = await self._caller(scope, found)
        if not found.methods:
            raise Failure(Code.NOT_FOUND)
        if found.route is None:
            failure = Failure(Code.METHOD_NOT_ALLOWED)
            await refusal(failure, {"Allow": ", ".join(found.methods)})(scope, wire.receive, wire.send)
            return
        state = {**scope.get("state", {}), "caller": entry.caller, "entry": entry, "bodies": self._bodies}
        # The route is matched on the raw path: nothing below decodes it again.
        scope.update(path=path, raw_path=path.encode("latin-1"), root_path="", state=state)
        with self._workers.serving(None if entry.caller is None else entry.caller.project):
            await self._app(scope, wire.receive, wire.send)

    async def _caller(self, scope: Scope, found: Matched) -> Caller | None:
        name = found.route.name if found.route is not None else ""
        free = name in self._free
        if free and name not in self._curious:
            return None
        try:
            sent = credentials(Headers(scope=scope))
            if sent is None and not free:
                sent = Credentials(None, None, None)
            return None if sent is None else await self._workers.quick(admit, self._room, sent)
        except Failure as failure:
            if free and failure.code in (Code.UNAUTHORIZED, Code.NOT_CONFIGURED):
                return None
            raise


def as_failure(error: BaseException) -> Failure:
    """What a caller is told of an error."""
    if isinstance(error, Failure):
        return error
    return Failure(Code.STORE_UNAVAILABLE if isinstance(error, StoreUnavailable) else Code.INTERNAL)
