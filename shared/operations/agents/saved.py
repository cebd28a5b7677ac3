"""Saved agents of a project, `/v1/agents` (agents.md 1.6, 11.17, 11.27, 11.33): one row each, under its id.

The id begins with its time, so the rows are in the order of creation. A definition above the item limit is an object
that never changes; the row points at it, and the janitor takes one that no row points at any more. An agent that a
Session was made of may change or go: the Session has its own copy.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from shared.agents_errors import Fault, Refusal
from shared.domain.agents import ids
from shared.errors import Code
from shared.operations import names
from shared.operations.agents import large
from shared.operations.agents.pages import Page, PageInput, bounded, clamped_limit, walked
from shared.operations.agents.requests.agent import read_agent, read_changes
from shared.operations.agents.requests.engines import Engines
from shared.operations.agents.requests.metadata import read_metadata
from shared.operations.agents.requests.reading import refusal
from shared.operations.base import Call, Model, Raw, Route, operation
from shared.operations.room import Room
from shared.store.ports import Conflict, DeleteIf, Item, PutIf, PutNew, StoreUnavailable

_ATTEMPTS = 8
"""Attempts at one row that others change at the same time."""

_TEXT = WithJsonSchema({"type": "string"})
_MAYBE_TEXT = WithJsonSchema({"type": ["string", "null"]})
_OBJECT = WithJsonSchema({"type": ["object", "null"]})
_ARRAY = WithJsonSchema({"type": ["array", "null"], "items": {"type": "object"}})


class AgentMembers(Raw):
    """The members of an agent as they were sent: they are checked together, in the contract's order."""

    model: Annotated[Any, _TEXT] = Field(None, description="Model, or engine: `program:<language>`.")
    name: Annotated[Any, _MAYBE_TEXT] = Field(None, description="Name for people; null: none.")
    instructions: Annotated[Any, _MAYBE_TEXT] = Field(None, description="What is said to the model first; null: none.")
    tools: Annotated[Any, _ARRAY] = Field(None, description="Functions of the application; null: none.")
    reasoning: Annotated[Any, _OBJECT] = Field(None, description="Members `effort` and `summary`; null: the default.")
    text: Annotated[Any, _OBJECT] = Field(None, description="Members `format` and `verbosity`; null: plain text.")
    service_tier: Annotated[Any, _MAYBE_TEXT] = Field(None, description="`auto` or `default`; null: `auto`.")
    multi_agent: Annotated[Any, _OBJECT] = Field(None, description='Subagents: only `{"enabled": false}`.')
    compaction: Annotated[Any, _OBJECT] = Field(None, description='Only the default: null or `{"async": true}`.')
    experimental: Annotated[Any, _OBJECT] = Field(None, description="Only the default: everything off.")
    metadata: Annotated[Any, _OBJECT] = Field(None, description="At most 16 pairs of strings; null: none.")


class AgentChanges(AgentMembers):
    """A saved agent, and the members that replace its own. Those that are not sent stay."""

    agent_id: str = Field(description="Id of the agent: `agent_…`.")


class AgentId(Model):
    """A saved agent."""

    agent_id: str = Field(description="Id of the agent: `agent_…`.")


class AgentListInput(PageInput):
    """Which saved agents to list."""


class SavedAgent(Model):
    """An agent that Sessions can be made of."""

    id: str = Field(description="Id of the agent: `agent_…`.")
    object: Literal["agent"] = Field("agent", description="Always `agent`.")
    created_at: int = Field(description="When it was created, in seconds since the epoch.")
    updated_at: int = Field(description="When it was last changed, in seconds since the epoch.")
    model: str = Field(description="Model, or engine: `program:<language>`.")
    name: str | None = Field(description="Name for people, or null.")
    instructions: str | None = Field(description="What is said to the model first, or null.")
    tools: list[dict[str, Any]] = Field(description="Functions of the application.")
    reasoning: dict[str, Any] = Field(description="Members `effort` and `summary`, each null where it is the model's.")
    text: dict[str, Any] = Field(description="Members `format` and `verbosity`.")
    service_tier: str = Field(description="`auto` or `default`.")
    multi_agent: dict[str, Any] = Field(description="Subagents: always disabled.")
    metadata: dict[str, str] = Field(description="Pairs of strings of the caller's.")


class SavedAgentList(Page[SavedAgent]):
    """One page of saved agents."""


class SavedAgentDeleted(Model):
    """A saved agent that is gone."""

    id: str = Field(description="Id that the agent had.")
    object: Literal["agent.deleted"] = Field("agent.deleted", description="Always `agent.deleted`.")
    deleted: Literal[True] = Field(True, description="Always true.")


def engines_of(room: Room) -> Engines:
    """The engines of a deployment."""
    return Engines(room.engines.models, room.default_model)


def find_agent(room: Room, project: str, agent_id: str) -> Item:
    """The row of a saved agent. Errors: 404, the same for malformed, unknown and foreign ids."""
    item = None
    if ids.is_id(agent_id, "agent"):
        item = room.state.get(names.project(project), names.saved_agent_row(agent_id))
    if item is None:
        raise Refusal(Fault.NOT_FOUND)
    return item


def look_up(room: Room, call: Call, data: dict[str, Any]) -> None:
    """The lookup that comes before the body of a request is looked at (agents.md 1.1). Errors: 404."""
    find_agent(room, call.project, str(data.get("agent_id", "")))


def saved_definition(room: Room, project: str, agent_id: str) -> dict[str, Any]:
    """The definition of a saved agent in wire form, with `id` and without `metadata`: what a Session takes over.

    Errors: 404.
    """
    _, definition = _read(room, find_agent(room, project, agent_id))
    del definition["metadata"]
    return {"id": agent_id, **definition}


def _read(room: Room, item: Item) -> tuple[Item, dict[str, Any]]:
    """A row and its definition, as they are now. Errors: 404 where it has gone; StoreUnavailable.

    An object that is missing was replaced after the row was read: the row is then another one.
    """
    while True:
        try:
            return item, dict(large.value(room, item.attributes))
        except StoreUnavailable:
            again = find_agent(room, item.partition.removeprefix("p/"), item.sort.removeprefix(names.SAVED_AGENTS))
            if again.version == item.version:
                raise
            item = again


def _row(
    room: Room, project: str, ident: str, definition: dict[str, Any], created: int, updated: int
) -> dict[str, Any]:
    """The attributes of a row. `created` and `updated` are epoch milliseconds."""
    kept = large.placed(room, names.saved_agent(project, ident), definition)
    return {**kept, "created": created, "updated": updated}


def _shown(ident: str, row: dict[str, Any], definition: dict[str, Any]) -> SavedAgent:
    return SavedAgent(id=ident, created_at=row["created"] // 1000, updated_at=row["updated"] // 1000, **definition)


def _sent(data: AgentMembers) -> dict[str, Any]:
    """The members that were sent, unknown ones too. The id of a change is of the path."""
    return data.sent("agent_id") if isinstance(data, AgentChanges) else data.sent()


@operation(
    "agents.create",
    route=Route("POST", ("/v1/agents",), contract="agents"),
    status=201,
    errors=(Code.INVALID_REQUEST,),
    reader=AgentMembers.read,
)
def create_agent(room: Room, call: Call, data: AgentMembers) -> SavedAgent:
    """Save an agent that Sessions can be made of. Members that are not sent have their defaults."""
    sent = _sent(data)
    definition = read_agent(sent, "", engines_of(room), besides=("metadata",))
    definition["metadata"] = read_metadata(sent)
    now = room.clock()
    ident = ids.new("agent", os.urandom, ids.stamp(now))
    row = _row(room, call.project, ident, definition, now, now)
    room.state.transact([PutNew(names.project(call.project), names.saved_agent_row(ident), row)])
    return _shown(ident, row, definition)


@operation(
    "agents.get",
    route=Route("GET", ("/v1/agents/{agent_id}",), contract="agents"),
    errors=(Code.NOT_FOUND,),
)
def get_agent(room: Room, call: Call, data: AgentId) -> SavedAgent:
    """Get a saved agent of the project. Its definition is the one that new Sessions get."""
    item, definition = _read(room, find_agent(room, call.project, data.agent_id))
    return _shown(data.agent_id, item.attributes, definition)


@operation(
    "agents.list",
    route=Route("GET", ("/v1/agents",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
)
def list_agents(room: Room, call: Call, data: AgentListInput) -> SavedAgentList:
    """List the saved agents of the project. The next page begins behind `last_id`."""
    project = call.project
    after = None if data.after is None else find_agent(room, project, data.after).sort
    rows = walked(room, names.project(project), names.SAVED_AGENTS, after, descending=data.order == "desc")
    there = (agent for row in rows if (agent := _still(room, row)) is not None)
    agents, has_more = bounded(room, clamped_limit(data.limit), there, lambda agent: len(agent.model_dump_json()))
    return SavedAgentList.of(agents, lambda agent: agent.id, has_more=has_more)


def _still(room: Room, row: Item) -> SavedAgent | None:
    """The agent of a row, or None where it has gone since the row was read."""
    try:
        item, definition = _read(room, row)
    except Refusal:
        return None
    return _shown(item.sort.removeprefix(names.SAVED_AGENTS), item.attributes, definition)


@operation(
    "agents.update",
    route=Route("POST", ("/v1/agents/{agent_id}",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.EXISTS),
    lookup=look_up,
    reader=AgentChanges.read,
)
def update_agent(room: Room, call: Call, data: AgentChanges) -> SavedAgent:
    """Change a saved agent. A member that is sent replaces the agent's own; Sessions that were made of it stay."""
    project = call.project
    item = find_agent(room, project, data.agent_id)
    sent = _sent(data)
    if not sent:
        raise refusal("At least one update field is required")
    changes = read_changes(sent, "", engines_of(room), besides=("metadata",))
    if "metadata" in sent:
        changes["metadata"] = read_metadata(sent)
    for _ in range(_ATTEMPTS):
        item, definition = _read(room, item)
        updated = max(room.clock(), item.attributes["updated"])
        definition |= changes
        row = _row(room, project, data.agent_id, definition, item.attributes["created"], updated)
        try:
            room.state.transact([PutIf(item.partition, item.sort, item.version, row)])
        except Conflict:
            item = find_agent(room, project, data.agent_id)
        else:
            return _shown(data.agent_id, row, definition)
    raise Refusal(Fault.CONFLICT)


@operation(
    "agents.delete",
    route=Route("DELETE", ("/v1/agents/{agent_id}",), contract="agents"),
    errors=(Code.NOT_FOUND, Code.EXISTS),
)
def delete_agent(room: Room, call: Call, data: AgentId) -> SavedAgentDeleted:
    """Delete a saved agent of the project. Sessions that were made of it stay."""
    for _ in range(_ATTEMPTS):
        item = find_agent(room, call.project, data.agent_id)
        try:
            room.state.transact([DeleteIf(item.partition, item.sort, item.version)])
        except Conflict:
            continue
        return SavedAgentDeleted(id=data.agent_id)
    raise Refusal(Fault.CONFLICT)
