"""What passes through a door: one request's bytes in and out, and the headers that each of its answers has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Send

from functions.api.access import Entry


class Counting:
    """`receive` and `send` of one request: they count bytes, add `headers` to its answer, drop the body of a HEAD."""

    def __init__(
        self, entry: Entry, receive: Receive, send: Send, *, head: bool, headers: Callable[[], Mapping[str, str]]
    ) -> None:
        self._entry = entry
        self._receive = receive
        self._send = send
        self._head = head
        self._headers = headers
        self.started = False

    async def receive(self) -> Message:
        """See ASGI."""
        message = await self._receive()
        self._entry.bytes_in += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        """See ASGI."""
        if message["type"] == "http.response.start":
            self.started = True
            self._entry.status = message["status"]
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            headers["X-Request-Id"] = self._entry.request_id
            for name, value in self._headers().items():
                headers[name] = value
            message = {**message, "headers": headers.raw}
        elif message["type"] == "http.response.body":
            self._entry.whole = not message.get("more_body", False)
            if self._head:
                message = {**message, "body": b""}
            self._entry.bytes_out += len(message.get("body", b""))
        await self._send(message)
