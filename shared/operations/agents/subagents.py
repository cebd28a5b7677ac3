"""The subagents of a Session: there are none, and the list says so (agents.md 1.6, 11.34)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.errors import Code
from shared.operations.agents.pages import Page, PageInput, strict_limit
from shared.operations.agents.session import need
from shared.operations.base import Call, Route, operation
from shared.operations.room import Room


class SubagentListInput(PageInput):
    """Which subagents to list."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")


class SubagentList(Page[dict[str, Any]]):
    """One page of subagents: always empty."""


@operation(
    "subagents.list",
    route=Route("GET", ("/v1/agents/sessions/{session_id}/subagents",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
)
def list_subagents(room: Room, call: Call, data: SubagentListInput) -> SubagentList:
    """List the subagents of a Session. Agents here have none, so the page is empty."""
    strict_limit(data.limit)
    need(room, call.project, data.session_id)
    if data.after is not None:
        raise Refusal(Fault.INVALID, "Invalid resource ID in `after`")
    return SubagentList.of([], str, has_more=False)
