"""The service under the probe: an address and keys, and requests exactly as they are written."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

Kind = Literal["http-api", "function-url", "own"]


class Failed(Exception):
    """An expectation that did not hold; the text says what was seen."""


class Skipped(Exception):
    """What cannot be shown here; the text says what it would need."""


class Open(Exception):
    """What a layer would stop that is not active here, as the service itself reports. The text says what is open."""


@dataclass
class Target:
    """A deployment. `isolation` is the scope that it was deployed with; `burst` how many runs to send at once."""

    url: str
    key: str
    isolation: str = "user"
    burst: int = 0
    bucket: str | None = None
    region: str | None = None
    layers: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.url = self.url.rstrip("/")
        self.http = httpx.Client(base_url=self.url, headers={"X-API-Key": self.key}, timeout=120, trust_env=False)

    @property
    def kind(self) -> Kind:
        """Which front door it is, by its address."""
        host = urlsplit(self.url).hostname or ""
        return "http-api" if ".execute-api." in host else "function-url" if ".lambda-url." in host else "own"

    @property
    def aws(self) -> bool:
        """Whether AWS's front door is in between."""
        return self.kind != "own"

    def run(self, code: str, *, args: tuple[str, ...] = (), **body: Any) -> dict[str, Any]:
        """A Python program. Errors: Failed for anything but 200."""
        answer = self.http.post("/v1/exec", json={"lang": "py", "code": code, "args": list(args), **body})
        if answer.status_code != 200:
            raise Failed(f"status {answer.status_code}")
        found: dict[str, Any] = answer.json()
        return found

    def silent(self, code: str, *, args: tuple[str, ...] = (), stopped_by: tuple[str, ...] = (), **body: Any) -> str:
        """Run an attack, which prints what it achieved. Errors: Failed; Open where no layer that stops it is active."""
        ran = self.run(code, args=args, **body)
        achieved = sorted(set(ran["stdout"].splitlines()))
        if achieved:
            said = f"{len(achieved)}: {achieved[0]}"
            if stopped_by and self.layers and not any(self.layers.get(name) for name in stopped_by):
                raise Open(f"{said} (needs {' or '.join(stopped_by)})")
            raise Failed(said)
        if ran["code"] != 0:
            raise Failed(f"the attack itself ended with {ran['code'] or ran['signal']}")
        return "stopped"

    def raw(self, method: str, target: str, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """One request whose target goes out byte for byte."""
        return self.raw_pairs(method, target, [("X-API-Key", self.key), *(headers or {}).items()])

    def raw_pairs(self, method: str, target: str, headers: list[tuple[str, str]]) -> tuple[int, bytes]:
        """The same with exactly these headers, in this order, also twice the same."""
        at = urlsplit(self.url)
        assert at.hostname is not None
        connection: http.client.HTTPConnection
        if at.scheme == "https":
            connection = http.client.HTTPSConnection(
                at.hostname, at.port, timeout=60, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
        try:
            connection.putrequest(method, at.path + target, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()
