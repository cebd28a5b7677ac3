"""Every error that a caller can get: code, status and default sentence, in one table.

A message names the field and the limit. It never holds a path of ours, a key or a stack. Source of the body's
shape: exec.md A8.9.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Row(NamedTuple):
    """One row of the table: the wire code, the HTTP status, the sentence used where none is given."""

    code: str
    status: int
    text: str


class Code(Enum):
    """The codes of `error`; the value is the row."""

    INVALID_REQUEST = Row("invalid_request", 400, "The request is not valid.")
    UNAUTHORIZED = Row("unauthorized", 401, "A valid credential is required.")
    FORBIDDEN = Row("forbidden", 403, "This operation needs an admitted caller.")
    NOT_FOUND = Row("not_found", 404, "Not found.")
    METHOD_NOT_ALLOWED = Row("method_not_allowed", 405, "This address does not take that method.")
    BUSY = Row("busy", 409, "The session is in use by another run.")
    IN_PROGRESS = Row("in_progress", 409, "A request with this Idempotency-Key is still running.")
    EXISTS = Row("already_exists", 409, "It exists already and is not replaced.")
    TOO_LARGE = Row("too_large", 413, "The upload is larger than the limit.")
    IDEMPOTENCY_CONFLICT = Row("idempotency_conflict", 422, "This Idempotency-Key was used with another request body.")
    CANCELLED = Row("cancelled", 499, "The caller went away; nothing of the run is kept.")
    RATE_LIMITED = Row("rate_limited", 429, "Too many requests. Retry later.")
    INTERNAL = Row("internal_error", 500, "The service met an unexpected condition.")
    UNSUPPORTED = Row("unsupported_capability", 501, "This server does not offer that capability.")
    EXECUTOR_BROKEN = Row("executor_failed", 502, "The executor broke off or answered what it must not.")
    EXECUTOR_UNAVAILABLE = Row("executor_unavailable", 503, "No program can be run at the moment.")
    STORE_UNAVAILABLE = Row("store_unavailable", 503, "The store cannot be reached at the moment.")
    NOT_CONFIGURED = Row("not_configured", 503, "No API key is configured on this server.")
    EXECUTOR_TIMEOUT = Row("executor_timeout", 504, "The executor did not answer in time.")

    @property
    def status(self) -> int:
        """The HTTP status of this code."""
        return self.value.status


class Failure(Exception):
    """A refusal or failure that the caller is told of.

    `retry_after` is whole seconds (429 and 409 busy). `field` is the name of the offending member, if one is.
    """

    def __init__(
        self,
        code: Code,
        message: str | None = None,
        *,
        field: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        self.code = code
        self.message = message if message is not None else code.value.text
        self.field = field
        self.retry_after = retry_after
        super().__init__(code.value.code)

    def body(self) -> dict[str, object]:
        """The body of exec.md A8.9: `error`, `message`, and `retry_after_seconds` on 429."""
        body: dict[str, object] = {"error": self.code.value.code, "message": self.message}
        if self.code is Code.RATE_LIMITED:
            body["retry_after_seconds"] = self.retry_after or 1
        return body

    def headers(self) -> dict[str, str]:
        """`Retry-After` where a later attempt may succeed."""
        if self.retry_after is None and self.code is not Code.RATE_LIMITED:
            return {}
        return {"Retry-After": str(self.retry_after or 1)}


def invalid(field: str, why: str) -> Failure:
    """A 400 that names the field: `` `field` why ``."""
    return Failure(Code.INVALID_REQUEST, f"`{field}` {why}", field=field)
