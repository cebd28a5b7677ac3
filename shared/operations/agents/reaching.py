"""How an operation on an Environment comes to its Session and its workspace (agents.md 3.1, 11.5)."""

from __future__ import annotations

from typing import Any

from shared.domain.agents.refusals import Reason, Refused
from shared.domain.agents.writes import usable
from shared.operations import workspace
from shared.operations.agents.seeing import seen
from shared.operations.agents.session import Found, need, need_environment
from shared.operations.base import Call
from shared.operations.room import Room
from shared.operations.workspace import Opened


def find_environment(room: Room, call: Call, data: dict[str, Any]) -> None:
    """The lookup of every operation on an Environment: before anything else of its input. Errors: 404."""
    given = data.get("environment_id")
    need_environment(room, call.project, given if isinstance(given, str) else "")


def usable_environment(room: Room, project: str, environment: str) -> Found:
    """The Session of an Environment whose files can be reached. Errors: 404; Refused: PROVISIONING, EXECUTION."""
    found = seen(room, need_environment(room, project, environment))
    usable(found.head)
    return found


def workspace_of(room: Room, found: Found) -> Opened:
    """The workspace as it is now, without its lock.

    Errors: Refused(EXECUTION) where it is gone; 404 where the Session is, meanwhile.
    """
    opened = workspace.at(room, found.project, found.session)
    if opened is None or opened.head.gone:
        need(room, found.project, found.session)
        raise Refused(Reason.EXECUTION)
    return opened
