"""Answers that leave whole or not at all: for a door that carries no stream.

On a connection, an answer that breaks off is told by its length. A gateway would pass what there is of it as if it
were all, so here it becomes an error with the request's id.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.api import answers
from functions.api.addresses import raw_path
from functions.api.agents import answers as agents_answers
from functions.api.agents.addresses import family
from shared.agents_errors import Fault, Refusal
from shared.errors import Code, Failure

_OF_EVERY_ANSWER = ("x-request-id", "openai-version", "openai-processing-ms", "x-content-type-options")


class Whole:
    """ASGI middleware that holds an answer until its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {}
        parts: list[bytes] = []
        whole = False

        async def hold(message: Message) -> None:
            nonlocal start, whole
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))
                whole = not message.get("more_body", False)

        await self._app(scope, receive, hold)
        if start and whole:
            await send(start)
            await send({"type": "http.response.body", "body": b"".join(parts)})
            return
        names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start.get("headers", [])}
        kept = {name: names[name] for name in _OF_EVERY_ANSWER if name in names}
        if family(raw_path(scope)) is None:
            answer = answers.refusal(Failure(Code.INTERNAL), kept)
        else:
            answer = agents_answers.refusal(Refusal(Fault.INTERNAL), kept)
        await answer(scope, receive, send)
