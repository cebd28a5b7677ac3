"""A client of the deployed service: HTTP alone, as anybody has it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import httpx


class Api:
    """Speaks to one address with one key. A context manager."""

    def __init__(self, url: str, key: str) -> None:
        self.key = key
        self.http = httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=120, trust_env=False)

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def post(self, lang: str, code: str, session: str | None = None, **body: Any) -> httpx.Response:
        """`POST /v1/exec`."""
        headers = body.pop("headers", {})
        if session is not None:
            body["session_id"] = session
        return self.http.post("/v1/exec", json={"lang": lang, "code": code, **body}, headers=headers)

    def run(self, lang: str, code: str, session: str | None = None, **body: Any) -> dict[str, Any]:
        """A run that is served."""
        answer = self.post(lang, code, session, **body)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        data: dict[str, Any] = answer.json()
        return data

    def upload(self, name: str, content: bytes, session: str | None = None) -> dict[str, Any]:
        """Upload a file as multipart."""
        fields = {} if session is None else {"session_id": session}
        answer = self.http.post("/v1/exec/upload", data=fields, files={"file": (name, content)})
        assert answer.status_code == 200, (answer.status_code, answer.text)
        data: dict[str, Any] = answer.json()
        return data

    def ended(self, run_id: str, seconds: float = 60) -> dict[str, Any]:
        """A background run once it is over."""
        deadline = time.monotonic() + seconds
        while True:
            data: dict[str, Any] = self.http.get(f"/v1/exec/runs/{run_id}").json()
            if data["status"] != "running":
                return data
            assert time.monotonic() < deadline, "the run does not end"
            time.sleep(0.2)
