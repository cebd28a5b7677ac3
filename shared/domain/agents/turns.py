"""A Turn: its states, its item and its shape on the wire (agents.md 5.4).

    queued ──▶ in_progress ──▶ completed | failed | cancelled
      │          ▲    │
      │          └─ waiting ──▶ failed | cancelled
      └──▶ cancelled

Terminal states are final. Times are epoch milliseconds here and whole seconds on the wire (agents.md 1.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

TurnStatus = Literal["queued", "in_progress", "waiting", "completed", "failed", "cancelled"]
Outcome = Literal["completed", "failed", "cancelled"]
TERMINAL: frozenset[str] = frozenset({"completed", "failed", "cancelled"})

ErrorCode = Literal[
    "artifact_capture_failed",
    "context_length_exceeded",
    "max_output_tokens",
    "usage_limit_exceeded",
    "rate_limit_exceeded",
    "server_overloaded",
    "connection_failed",
    "server_error",
    "authentication_error",
    "invalid_request",
    "resource_not_found",
    "sandbox_error",
    "request_timeout",
    "internal_error",
]
"""What we send: codes of the SDK's enumeration, and `artifact_capture_failed` (11.1)."""

_NEXT: Mapping[str, frozenset[str]] = {
    "queued": frozenset({"in_progress", "cancelled"}),
    "in_progress": frozenset({"waiting", "completed", "failed", "cancelled"}),
    "waiting": frozenset({"in_progress", "failed", "cancelled"}),
}


class BadTransition(ValueError):
    """A Turn cannot go from its status to that one."""


@dataclass(frozen=True, slots=True)
class TurnError:
    """Why a Turn failed."""

    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A root Turn. `sequence` is its place in the Session. `usage` is the SDK's TokenUsage as JSON, or None."""

    id: str
    sequence: int
    created: int
    status: TurnStatus = "queued"
    started: int | None = None
    ended: int | None = None
    error: TurnError | None = None
    usage: Mapping[str, Any] | None = None

    def attributes(self) -> dict[str, Any]:
        """The item's attributes."""
        return {
            "id": self.id,
            "sequence": self.sequence,
            "created": self.created,
            "status": self.status,
            "started": self.started,
            "ended": self.ended,
            "error": None if self.error is None else [self.error.code, self.error.message],
            "usage": None if self.usage is None else dict(self.usage),
        }

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Turn:
        """Read the item's attributes."""
        row = dict(attributes)
        row["error"] = None if row["error"] is None else TurnError(*row["error"])
        return cls(**row)

    def wire(self, session: str, agent: str) -> dict[str, Any]:
        """The Turn as a client sees it."""
        return {
            "id": self.id,
            "object": "agent.session.turn",
            "session_id": session,
            "agent_id": agent,
            "status": self.status,
            "created_at": self.created // 1000,
            "started_at": None if self.started is None else self.started // 1000,
            "completed_at": None if self.ended is None else self.ended // 1000,
            "error": None if self.error is None else {"code": self.error.code, "message": self.error.message},
            "usage": None if self.usage is None else dict(self.usage),
            "subagent_id": None,
        }


def moved(turn: Turn, status: TurnStatus, now: int) -> Turn:
    """The Turn in another status; `started` is when it first came into progress. Errors: BadTransition."""
    if status not in _NEXT.get(turn.status, frozenset()):
        raise BadTransition(f"{turn.status} to {status}")
    return replace(
        turn,
        status=status,
        started=now if status == "in_progress" and turn.started is None else turn.started,
        ended=now if status in TERMINAL else None,
    )


def ended(
    turn: Turn,
    outcome: Outcome,
    now: int,
    *,
    error: TurnError | None = None,
    usage: Mapping[str, Any] | None = None,
) -> Turn:
    """The Turn at its end. Only a failed one has an error, and always one. Errors: BadTransition, ValueError."""
    if (outcome == "failed") != (error is not None):
        raise ValueError("a failed Turn has an error, another one has none")
    return replace(moved(turn, outcome, now), error=error, usage=usage)


def undone(turn: Turn, error: TurnError, now: int) -> Turn:
    """A Turn that was queued when its Environment failed: it came into progress and failed in one instant."""
    begun = turn if turn.status != "queued" else moved(turn, "in_progress", now)
    return ended(begun, "failed", now, error=error)
