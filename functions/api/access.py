"""One JSON line a request, and nothing in it that a caller or a program wrote (cases.md K20).

The route is the template, never the path; there is no query, header, name, body, token or message. Every value is a
number, an identifier of ours or one of a few words, so a line cannot be forged.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from shared.identity import Caller

ACCESS = logging.getLogger("workroom.access")
ERRORS = logging.getLogger("workroom.error")

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"))
GONE = 499
"""The status that is logged for a client that went away before its answer."""


@dataclass(slots=True)
class Entry:
    """What one request's line says. `template` and `operation`, the route's name, are None where nothing is served."""

    request_id: str
    method: str
    template: str | None = None
    operation: str | None = None
    caller: Caller | None = None
    status: int = GONE
    bytes_in: int = 0
    bytes_out: int = 0
    whole: bool = False
    started: float = field(default_factory=time.perf_counter)

    @property
    def elapsed_ms(self) -> int:
        """Whole milliseconds since the request came."""
        return int((time.perf_counter() - self.started) * 1000)

    def write(self) -> None:
        """Write the line."""
        ACCESS.info(
            json.dumps(
                {
                    "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    "event": "request",
                    "request_id": self.request_id,
                    "method": self.method if self.method in _METHODS else "OTHER",
                    "route": self.template,
                    "operation": self.operation,
                    "project": self.caller.project if self.caller else None,
                    "key": self.caller.key_id if self.caller else None,
                    "status": self.status,
                    "whole": self.whole,
                    "ms": round((time.perf_counter() - self.started) * 1000, 1),
                    "bytes_in": self.bytes_in,
                    "bytes_out": self.bytes_out,
                }
            )
        )


def unexpected(request_id: str, error: BaseException) -> None:
    """Log an unexpected error: its type and where it was raised. Its text may hold a caller's data and is left out."""
    frames = [
        f"{Path(frame.filename).stem}.{frame.name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)[-12:]
    ]
    line = {"event": "error", "request_id": request_id, "kind": type(error).__name__, "frames": frames}
    ERRORS.error(json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **line}))
