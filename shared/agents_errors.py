"""Every error of the Agents API: its status, `type`, `code` and default sentence, in one table (agents.md 1.3).

A Refusal is a Failure too, so every other door answers it in its own form. A message never holds an id, a path, a key
or a stack.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from shared.errors import Code, Failure


class Row(NamedTuple):
    """One row: the HTTP status, `type`, `code` (null is possible), the sentence where none is given, the other code."""

    status: int
    type: str
    code: str | None
    text: str
    other: Code


_REQUEST = "invalid_request_error"


class Fault(Enum):
    """The errors; the value is the row. `other` is what the other doors call it."""

    INVALID = Row(400, _REQUEST, "invalid_request_error", "The request is not valid.", Code.INVALID_REQUEST)
    LOCAL = Row(
        400, _REQUEST, "invalid_request", "Invalid resource identifier or request limits.", Code.INVALID_REQUEST
    )
    UNCODED = Row(400, _REQUEST, None, "The request is not valid for this file.", Code.INVALID_REQUEST)
    REPEATED = Row(
        400, _REQUEST, "unsupported_parameter", "A parameter must not be sent more than once.", Code.INVALID_REQUEST
    )
    BETA = Row(
        400,
        "invalid_beta",
        "invalid_beta",
        "To access the Agents API, set the 'OpenAI-Beta' header to 'agents=v1'.",
        Code.INVALID_REQUEST,
    )
    UNAUTHENTICATED = Row(401, _REQUEST, None, "A valid Agents API bearer key is required.", Code.UNAUTHORIZED)
    BAD_KEY = Row(401, _REQUEST, "invalid_api_key", "A valid Agents API bearer key is required.", Code.UNAUTHORIZED)
    NO_CALLER = Row(403, _REQUEST, "forbidden", "This operation needs an admitted caller.", Code.FORBIDDEN)
    NOT_FOUND = Row(404, "not_found_error", "not_found_error", "Resource not found.", Code.NOT_FOUND)
    FILE_NOT_FOUND = Row(404, _REQUEST, None, "Resource not found.", Code.NOT_FOUND)
    UNSUPPORTED_OPERATION = Row(
        404, _REQUEST, "unsupported_operation", "This API operation is not supported.", Code.NOT_FOUND
    )
    UNSUPPORTED_METHOD = Row(
        405, _REQUEST, "unsupported_operation", "This API method is not supported.", Code.METHOD_NOT_ALLOWED
    )
    CONFLICT = Row(409, "conflict_error", "conflict_error", "The resource is in another state.", Code.EXISTS)
    TURN_CONFLICT = Row(409, "conflict_error", "turn_conflict", "The Session has unfinished work.", Code.BUSY)
    IDEMPOTENCY_CONFLICT = Row(
        409,
        "conflict_error",
        "idempotency_conflict",
        "This idempotency key was used with different input.",
        Code.IDEMPOTENCY_CONFLICT,
    )
    ENVIRONMENT_UNAVAILABLE = Row(
        409,
        "conflict_error",
        "environment_unavailable",
        "The environment is no longer available for new input.",
        Code.EXISTS,
    )
    ENVIRONMENT_INPUT_EXPIRED = Row(
        409, "conflict_error", "environment_input_expired", "The environment's input has expired.", Code.EXISTS
    )
    ENVIRONMENT_INPUT_CANCELLED = Row(
        409, "conflict_error", "environment_input_cancelled", "The environment's input was cancelled.", Code.EXISTS
    )
    TOO_LARGE = Row(413, _REQUEST, "request_too_large", "The request is larger than the limit.", Code.TOO_LARGE)
    RATE_LIMITED = Row(
        429, "rate_limit_error", "rate_limit_exceeded", "Too many requests. Retry later.", Code.RATE_LIMITED
    )
    INTERNAL = Row(500, "server_error", "internal_error", "The operation could not be completed.", Code.INTERNAL)
    AUTHENTICATION_UNAVAILABLE = Row(
        503,
        "server_error",
        "authentication_unavailable",
        "Authentication is not available at the moment.",
        Code.STORE_UNAVAILABLE,
    )
    EXECUTION_UNAVAILABLE = Row(
        503,
        "server_error",
        "execution_unavailable",
        "Execution is not available on this service.",
        Code.EXECUTOR_UNAVAILABLE,
    )
    STORE_UNAVAILABLE = Row(
        503, "server_error", "store_unavailable", "The store cannot be reached at the moment.", Code.STORE_UNAVAILABLE
    )

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value.status


_NO_RETRY = frozenset({Fault.IDEMPOTENCY_CONFLICT})


class Refusal(Failure):
    """A refusal of the Agents API. `param` names what was wrong; `retry` False tells the SDK not to send it again.

    Source of the header: agents.md 11.19. The SDK sends a 409, a 429 and everything from 500 on again by itself.
    """

    def __init__(
        self,
        fault: Fault,
        message: str | None = None,
        *,
        param: str | None = None,
        retry: bool | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(
            fault.value.other,
            message if message is not None else fault.value.text,
            field=param,
            retry_after=retry_after,
        )
        self.fault = fault
        self.param = param
        self.retry = False if fault in _NO_RETRY else retry

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.fault.status

    def envelope(self) -> dict[str, dict[str, str | None]]:
        """The body: all four members are always there."""
        row = self.fault.value
        return {"error": {"message": self.message, "type": row.type, "code": row.code, "param": self.param}}

    def wire_headers(self) -> dict[str, str]:
        """The headers that belong to this error and to no other answer."""
        named = {"Cache-Control": "no-store", **self.headers()}
        if self.status == 401:
            named["WWW-Authenticate"] = "Bearer"
        if self.retry is not None:
            named["x-should-retry"] = "true" if self.retry else "false"
        return named


_OTHERS = {
    Code.INVALID_REQUEST: Fault.LOCAL,
    Code.UNAUTHORIZED: Fault.UNAUTHENTICATED,
    Code.FORBIDDEN: Fault.NO_CALLER,
    Code.NOT_FOUND: Fault.NOT_FOUND,
    Code.METHOD_NOT_ALLOWED: Fault.UNSUPPORTED_METHOD,
    Code.BUSY: Fault.TURN_CONFLICT,
    Code.IN_PROGRESS: Fault.TURN_CONFLICT,
    Code.EXISTS: Fault.CONFLICT,
    Code.TOO_LARGE: Fault.TOO_LARGE,
    Code.IDEMPOTENCY_CONFLICT: Fault.IDEMPOTENCY_CONFLICT,
    Code.CANCELLED: Fault.INTERNAL,
    Code.RATE_LIMITED: Fault.RATE_LIMITED,
    Code.INTERNAL: Fault.INTERNAL,
    Code.UNSUPPORTED: Fault.UNSUPPORTED_OPERATION,
    Code.EXECUTOR_BROKEN: Fault.EXECUTION_UNAVAILABLE,
    Code.EXECUTOR_UNAVAILABLE: Fault.EXECUTION_UNAVAILABLE,
    Code.EXECUTOR_TIMEOUT: Fault.EXECUTION_UNAVAILABLE,
    Code.STORE_UNAVAILABLE: Fault.STORE_UNAVAILABLE,
    Code.NOT_CONFIGURED: Fault.UNAUTHENTICATED,
}
_OWN_WORDS = (Code.INVALID_REQUEST, Code.TOO_LARGE)


def as_refusal(failure: Failure) -> Refusal:
    """A failure of what both contracts share, in this contract's terms. Only what names a field keeps its words."""
    if isinstance(failure, Refusal):
        return failure
    message = failure.message if failure.code in _OWN_WORDS else None
    return Refusal(_OTHERS[failure.code], message, param=failure.field, retry_after=failure.retry_after)
