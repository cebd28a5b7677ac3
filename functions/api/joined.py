"""Headers as a gateway hands them over: those that came more than once are joined with a comma (platform.md).

A credential, an `Idempotency-Key` or a length that came twice must not pass for one. None of them may hold a comma
where it comes once, so it is taken apart again, and the rules for a header that came twice apply (`headers.py`). An
`Idempotency-Key` with a comma of its own, which one machine takes, is refused here: nobody can tell which it was.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

ONCE = frozenset((b"authorization", b"x-api-key", b"idempotency-key", b"content-length"))
"""Of the others a joined value means what its two lines would: they are lists, or it matches nothing."""

Pair = tuple[bytes, bytes]


def apart(headers: Iterable[Pair]) -> list[Pair]:
    """The headers, names in lower case, with what was joined apart again."""
    found: list[Pair] = []
    for name, value in headers:
        lower = name.lower()
        parts = value.split(b",") if lower in ONCE else [value]
        found += [(lower, part.strip(b" \t")) for part in parts]
    return found


class Apart:
    """ASGI middleware for an application whose requests come through a gateway."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": apart(scope["headers"])}
        await self._app(scope, receive, send)
