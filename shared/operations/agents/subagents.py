"""The subagents of a Session: there are none, and the list says so (agents.md 1.6, 11.34)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.errors import Code
from shared.operations.agents.session import need
from shared.operations.agents.turns import strict_limit
from shared.operations.base import Call, Model, Route, operation
from shared.operations.room import Room


class SubagentListInput(Model):
    """Which subagents to list."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")
    limit: int | None = Field(None, description="How many at most: 1 to 100; default: 20.")
    order: Literal["asc", "desc"] = Field("desc", description="By the order of creation; default: newest first.")
    after: str | None = Field(None, description="Id of the subagent that the page begins behind: there is none.")


class SubagentList(Model):
    """One page of subagents: always empty."""

    object: Literal["list"] = Field("list", description="Always `list`.")
    data: list[dict[str, Any]] = Field(description="Always empty.")
    first_id: str | None = Field(None, description="Always null.")
    last_id: str | None = Field(None, description="Always null.")
    has_more: bool = Field(False, description="Always false.")


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
    return SubagentList(data=[])
