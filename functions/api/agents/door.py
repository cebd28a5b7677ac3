"""The middleware in front of this contract's addresses; every other request passes it untouched.

    request ── address ── another contract's ───────────────────────────── the exec door
                  │ ours
                  └── OpenAI-Beta? 400 ── bearer? 401 / 503 ── route? 404 ── method? 405 ── route ── answer

Source: agents.md 1.1. What an address is, is looked up first and told last.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.api.access import Entry, unexpected
from functions.api.addresses import Table, raw_path
from functions.api.agents.addresses import Family, family
from functions.api.agents.admission import admitted, check_beta
from functions.api.agents.answers import refusal
from functions.api.bodies import Bodies
from functions.api.counting import Counting
from functions.api.workers import Workers
from shared.agents_errors import Fault, Refusal, as_refusal
from shared.errors import Failure
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

VERSION = "2020-10-01"
_ALLOW = ("GET", "HEAD", "POST", "DELETE")


class AgentsDoor:
    """ASGI middleware around the other door and its routes. `routes` are those of the application."""

    def __init__(
        self, app: ASGIApp, *, room: Room, workers: Workers, routes: Sequence[BaseRoute], bodies: Bodies
    ) -> None:
        self._app = app
        self._room = room
        self._workers = workers
        self._table = Table(routes)
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = family(raw_path(scope)) if scope["type"] == "http" else None
        if kind is None:
            await self._app(scope, receive, send)
            return
        entry = Entry(f"req_{secrets.token_hex(16)}", scope["method"])

        def headers() -> dict[str, str]:
            return {
                "OpenAI-Version": VERSION,
                "OpenAI-Processing-Ms": str(entry.elapsed_ms),
                "X-Content-Type-Options": "nosniff",
            }

        wire = Counting(entry, receive, send, head=scope["method"] == "HEAD", headers=headers)
        try:
            await self._dispatch(dict(scope), kind, entry, wire)
        except ClientDisconnect:
            pass
        except Exception as error:
            if not isinstance(error, Failure):
                unexpected(entry.request_id, error)
            if not wire.started:
                await refusal(_refusal(error))(scope, wire.receive, wire.send)
        finally:
            entry.write()

    async def _dispatch(self, scope: Scope, kind: Family, entry: Entry, wire: Counting) -> None:
        path = raw_path(scope)
        found = self._table.match(path, scope["method"])
        entry.template = found.template
        entry.operation = found.route.name if found.route is not None else None
        headers = Headers(scope=scope)
        if kind == "beta":
            check_beta(headers)
        entry.caller = await admitted(self._room, self._workers, headers, kind)
        if not found.methods:
            raise Refusal(Fault.UNSUPPORTED_OPERATION)
        if found.route is None:
            allow = ", ".join(method for method in _ALLOW if method in found.methods)
            await refusal(Refusal(Fault.UNSUPPORTED_METHOD), {"Allow": allow})(scope, wire.receive, wire.send)
            return
        state = {**scope.get("state", {}), "caller": entry.caller, "entry": entry, "bodies": self._bodies}
        # The route is matched on the raw path: nothing below decodes it again.
        scope.update(path=path, raw_path=path.encode("latin-1"), root_path="", state=state)
        _, child = found.route.matches(scope)
        scope.update(child)
        with self._workers.serving(entry.caller.project):
            await found.route.handle(scope, wire.receive, wire.send)


def _refusal(error: BaseException) -> Refusal:
    if isinstance(error, Failure):
        return as_refusal(error)
    return Refusal(Fault.STORE_UNAVAILABLE if isinstance(error, StoreUnavailable) else Fault.INTERNAL)
