"""Requests of the Agents API as bytes, and what must be true of every answer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.wire.forms import MULTIPART, Raw, field, file, form
from tests.wire.service import Answer, Service

BETA = ("OpenAI-Beta", "agents=v1")
JSON = ("Content-Type", "application/json")
Pair = tuple[str, str]
_KEY: Pair = ("", "")


def envelope(message: str, kind: str, code: str | None, param: str | None = None) -> bytes:
    """The body of agents.md 1.3 in its bytes."""
    error = {"message": message, "type": kind, "code": code, "param": param}
    return json.dumps({"error": error}, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Asker:
    """A running service, asked as a client of the Agents API would."""

    service: Service

    def ask(
        self,
        method: str,
        target: str,
        *headers: Pair,
        body: bytes = b"",
        key: str | None = None,
        sized: bool = True,
    ) -> Answer:
        """One request with exactly these headers; `key` "" sends no credential."""
        lines = [f"{method} {target} HTTP/1.1", "Host: h", "Connection: close"]
        if key != "":
            lines.append(f"Authorization: Bearer {key or self.service.key}")
        lines += [f"{name}: {value}" for name, value in headers]
        if body or (method == "POST" and sized):
            lines.append(f"Content-Length: {len(body)}")
        answer = self.service.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        check_headers(answer)
        return answer

    def json(self, method: str, target: str, *headers: Pair, **more: Any) -> Any:
        """The same, for an answer of 200."""
        answer = self.ask(method, target, *headers, **more)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def upload(self, parts: Sequence[Raw], target: str = "/v1/files", *, key: str | None = None) -> Answer:
        """Send a form."""
        return self.ask("POST", target, *MULTIPART.items(), body=form(parts), key=key)

    def made(self, name: str = "a.txt", body: bytes = b"hello", *, key: str | None = None) -> dict[str, Any]:
        """A new source file."""
        answer = self.upload([field("purpose", "user_data"), file(name, body)], key=key)
        assert answer.status == 200, answer.body
        found: dict[str, Any] = json.loads(answer.body)
        return found


def check_headers(answer: Answer) -> None:
    """What agents.md 1.3 says of the headers of every answer."""
    headers = answer.headers
    assert re.fullmatch("req_[0-9a-f]{32}", headers["x-request-id"])
    assert headers["openai-version"] == "2020-10-01"
    assert headers["openai-processing-ms"].isdigit()
    assert headers["x-content-type-options"] == "nosniff"
    if answer.status >= 400:
        assert headers["cache-control"] == "no-store"
        assert headers["content-type"] == "application/json"
        if answer.body:
            assert set(json.loads(answer.body)["error"]) == {"message", "type", "code", "param"}
