"""The Turns of a Session, `…/sessions/{session_id}/turns` (agents.md 5.4)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from shared.domain.agents import cursors, ids
from shared.domain.agents.turns import Turn
from shared.errors import Code
from shared.operations.agents import places
from shared.operations.agents.config import describe
from shared.operations.agents.pages import Page, PageInput, strict_limit
from shared.operations.agents.seeing import seen
from shared.operations.agents.session import Found, missing, need
from shared.operations.base import Call, Model, Route, operation
from shared.operations.room import Room
from shared.store.ports import Item


class TurnId(Model):
    """A Turn of a Session."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")
    turn_id: str = Field(description="Id of the Turn: `turn_…`.")


class TurnListInput(PageInput):
    """Which Turns to list."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")


class AgentTurn(Model):
    """One Turn: what the agent did with input."""

    id: str = Field(description="Id of the Turn: `turn_…`.")
    object: Literal["agent.session.turn"] = Field("agent.session.turn", description="Always `agent.session.turn`.")
    session_id: str = Field(description="Id of the Session.")
    agent_id: str = Field(description="Id of the agent.")
    status: Literal["queued", "in_progress", "waiting", "completed", "failed", "cancelled"] = Field(
        description="Its state."
    )
    created_at: int = Field(description="When its input was admitted, in seconds since the epoch.")
    started_at: int | None = Field(description="When it came into progress, or null.")
    completed_at: int | None = Field(description="When it ended, whatever its end was, or null.")
    error: dict[str, Any] | None = Field(description="Why it failed: `code` and `message`; else null.")
    usage: dict[str, Any] | None = Field(description="Tokens that were used, or null where nobody counts them.")
    subagent_id: str | None = Field(None, description="Always null.")


class TurnList(Page[AgentTurn]):
    """One page of Turns."""


def need_turn(room: Room, found: Found, turn: str) -> Item:
    """The row of a Turn of this Session. Errors: 404, the same for malformed, unknown and foreign ids."""
    item = room.state.get(found.partition, places.TURNS + turn) if ids.is_id(turn, "turn") else None
    if item is None:
        raise missing()
    return item


def _shown(room: Room, found: Found, rows: list[Item]) -> list[AgentTurn]:
    if not rows:
        return []
    agent = describe(room, found).config.agent["id"]
    return [AgentTurn.model_validate(Turn.of(row.attributes).wire(found.session, agent)) for row in rows]


@operation(
    "turns.get",
    route=Route("GET", ("/v1/agents/sessions/{session_id}/turns/{turn_id}",), contract="agents"),
    errors=(Code.NOT_FOUND,),
)
def get_turn(room: Room, call: Call, data: TurnId) -> AgentTurn:
    """Get a Turn of a Session. A client that polls it sees `completed`, `failed` or `cancelled` at its end."""
    found = seen(room, need(room, call.project, data.session_id))
    return _shown(room, found, [need_turn(room, found, data.turn_id)])[0]


@operation(
    "turns.list",
    route=Route("GET", ("/v1/agents/sessions/{session_id}/turns",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
)
def list_turns(room: Room, call: Call, data: TurnListInput) -> TurnList:
    """List the Turns of a Session. The next page begins behind `last_id`."""
    limit = strict_limit(data.limit)
    found = seen(room, need(room, call.project, data.session_id))
    after = None if data.after is None else need_turn(room, found, data.after).sort
    rows = room.state.query(
        found.partition, places.TURNS, after=after, limit=limit + 1, descending=data.order == "desc"
    )
    page = cursors.page(rows, limit)
    turns = _shown(room, found, list(page.rows))
    return TurnList.of(turns, lambda turn: turn.id, has_more=page.has_more)
