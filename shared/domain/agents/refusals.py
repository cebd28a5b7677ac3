"""What the rules of the Agents API refuse, with the status, code and sentence that the contract gives each.

The pure rules raise `Refused`; a door turns its reason into the envelope of agents.md 1.3. `retry` says whether the
SDK may send the request again by itself (agents.md 11.19).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Row(NamedTuple):
    """One refusal on the wire. The error's `type` follows from the status (agents.md 1.3)."""

    status: int
    code: str
    message: str


_STATE = "The Turn cannot accept this input in its current state."
_LOCAL = "Invalid resource identifier or request limits."


class Reason(Enum):
    """Why something is refused; the value is the row."""

    MISSING = Row(404, "not_found_error", "Resource not found.")
    PENDING_INPUT = Row(409, "conflict_error", "Earlier input to this Session is still pending.")
    TURN_STATE = Row(409, "conflict_error", _STATE)
    WRITE_GATE = Row(409, "turn_conflict", _STATE)
    DIFFERENT_RESULT = Row(409, "conflict_error", "The tool call already has a different result.")
    UNKNOWN_CALL = Row(400, "invalid_request_error", "Unknown pending tool call: ")
    OTHER_TURN = Row(400, "invalid_request_error", "The tool call belongs to a different Turn.")
    ENVIRONMENT_FAILED = Row(409, "conflict_error", "the hosted environment failed to provision")
    ENVIRONMENT_EXPIRED = Row(409, "environment_unavailable", "The environment is no longer available for new input.")
    PROVISIONING = Row(
        400,
        "invalid_request_error",
        "the hosted environment is still provisioning; wait until it is connected before accessing files",
    )
    EXECUTION = Row(503, "execution_unavailable", "Execution is not available on this service.")
    NOT_DELETABLE = Row(
        409,
        "conflict_error",
        "session must be durably idle or failed without required actions before deletion",
    )
    PATH_ABSOLUTE = Row(
        400, "invalid_request_error", "environment.files[0].path must be an absolute POSIX path inside /workspace"
    )
    PATH_COMPONENTS = Row(
        400, "invalid_request_error", "environment.files[0].path cannot contain empty, . or .. path components"
    )
    DIRECTORY = Row(400, "invalid_request_error", "path must be an absolute directory inside /workspace")
    DIRECTORY_CLEAN = Row(400, "invalid_request_error", "path must identify a non-reserved directory inside /workspace")
    FILE_PAGE = Row(400, "invalid_request_error", "Invalid file page token for this request")
    OCCUPIED = Row(
        400,
        "invalid_request_error",
        "environment.files paths must not traverse symlinks or overwrite existing files",
    )
    DIRECTORY_THERE = Row(400, "invalid_request_error", "file path conflicts with an existing environment file")
    BAD_PARENT = Row(400, "invalid_request", _LOCAL)
    FULL = Row(413, "request_too_large", "File exceeds this operation's content limit.")

    @property
    def message(self) -> str:
        """The sentence of the contract. That of UNKNOWN_CALL is completed by the call's id (11.11)."""
        return self.value.message


class Refused(Exception):
    """A rule refuses. `text` is the whole sentence; `retry` is False where the SDK must not try again by itself."""

    def __init__(self, reason: Reason, detail: str = "", *, retry: bool = False) -> None:
        self.reason = reason
        self.text = reason.message + detail
        self.retry = retry
        super().__init__(reason.name)
