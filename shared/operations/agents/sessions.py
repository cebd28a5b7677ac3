"""Sessions of a project, `/v1/agents/sessions` (agents.md 5.1): made, read, listed, described anew, deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, WithJsonSchema, model_serializer

from shared.domain import ids as digests
from shared.domain.agents import lifecycle
from shared.domain.agents.head import emptied
from shared.domain.agents.refusals import Refused
from shared.domain.session import Head
from shared.errors import Code
from shared.operations import names
from shared.operations.agents import places
from shared.operations.agents.config import Described, describe, session_wire
from shared.operations.agents.dispatch import dispatch
from shared.operations.agents.making import Key, make
from shared.operations.agents.pages import Page, PageInput, bounded, clamped_limit, walked
from shared.operations.agents.requests.session_create import read_session
from shared.operations.agents.requests.session_update import read_session_update
from shared.operations.agents.saved import engines_of
from shared.operations.agents.seeing import due, seen
from shared.operations.agents.session import Draft, Found, find, missing, need, refusal, swap
from shared.operations.agents.work import work
from shared.operations.base import Call, Model, Raw, Route, operation
from shared.operations.room import Room
from shared.store.ports import Conflict, DeleteIf, PutIf, PutNew

_OBJECT = WithJsonSchema({"type": ["object", "null"]})
_ATTEMPTS = 20


class SessionCreateInput(Raw):
    """A Session to be made."""

    environment: Annotated[Any, WithJsonSchema({"type": "object"})] = Field(
        description='Where it works: `{"type": "openai_hosted"}` with its files, variables and commands, or `none`.'
    )
    agent: Annotated[Any, _OBJECT] = Field(None, description="Definition of the agent; `model` names its engine.")
    agent_id: Annotated[Any, WithJsonSchema({"type": "string"})] = Field(
        None, description="Id of a saved agent, whose members those of `agent` replace."
    )
    input: Annotated[Any, WithJsonSchema({"type": ["string", "array", "null"], "items": {"type": "object"}})] = Field(
        None, description="First input: a text, or messages of the user."
    )
    metadata: Annotated[Any, _OBJECT] = Field(None, description="At most 16 pairs of strings.")
    stream: Annotated[Any, WithJsonSchema({"type": "boolean"})] = Field(
        None, description="Over HTTP: answer with the events of the Session's first Turn."
    )
    vault_ids: Annotated[Any, WithJsonSchema({"type": ["array", "null"], "items": {"type": "string"}})] = Field(
        None, description="Only an empty list."
    )


class SessionId(Model):
    """A Session."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")


class SessionUpdateInput(Raw):
    """A Session, and what describes it anew."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")
    metadata: Annotated[Any, _OBJECT] = Field(None, description="Pairs that replace all there are; null: none.")


class SessionListInput(PageInput):
    """Which Sessions to list."""

    agent_id: str | None = Field(None, description="Only Sessions of this agent.")
    metadata: dict[str, str] | None = Field(None, description="Only Sessions with all these pairs.")


class AgentSession(Model):
    """A Session: an agent, the Environment that it works in, and its state."""

    id: str = Field(description="Id of the Session: `sess_…`.")
    object: Literal["agent.session"] = Field("agent.session", description="Always `agent.session`.")
    agent: dict[str, Any] = Field(description="Definition of the agent.")
    created_at: int = Field(description="When it was created, in seconds since the epoch.")
    environment: dict[str, Any] = Field(description="The Environment as it was created.")
    error: str | None = Field(description="Why it has failed, or null.")
    last_active_at: int = Field(description="When it was last active, in seconds since the epoch.")
    metadata: dict[str, str] = Field(description="Pairs of strings of the caller's.")
    required_actions: list[dict[str, Any]] = Field(description="What it waits for.")
    status: Literal["idle", "in_progress", "requires_action", "failed"] = Field(description="Its state.")
    usage: dict[str, Any] | None = Field(description="Tokens that were used, or null where nobody counts them.")
    vault_ids: list[str] = Field(description="Always empty.")
    unsettled_write: dict[str, Any] | None = Field(
        None, description="A file write of which it is not known whether it happened; only while there is one."
    )

    @model_serializer(mode="wrap")
    def _settled(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        row: dict[str, Any] = handler(self)
        if self.unsettled_write is None:
            del row["unsettled_write"]
        return row


class SessionList(Page[AgentSession]):
    """One page of Sessions."""


class SessionDeleted(Model):
    """A Session that is gone."""

    id: str = Field(description="Id that the Session had.")
    object: Literal["agent.session.deleted"] = Field(
        "agent.session.deleted", description="Always `agent.session.deleted`."
    )
    deleted: Literal[True] = Field(True, description="Always true.")


def look_up(room: Room, call: Call, data: Mapping[str, Any]) -> None:
    """The lookup of a Session, before anything else of the input is looked at (agents.md 1.1). Errors: 404."""
    need(room, call.project, str(data.get("session_id", "")))


def shown(room: Room, found: Found, described: Described | None = None) -> AgentSession:
    """A Session as it is answered. Errors: StoreUnavailable."""
    return AgentSession.model_validate(session_wire(room, found, described or describe(room, found)))


def start(room: Room, found: Found) -> None:
    """Have the work of a Session done that has become due."""
    if due(room, found) in ("run", "provision"):
        dispatch(room, found.project, found.session, work)


@operation(
    "sessions.create",
    route=Route("POST", ("/v1/agents/sessions",), contract="agents"),
    status=201,
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.TOO_LARGE, Code.IDEMPOTENCY_CONFLICT),
    reader=SessionCreateInput.read,
)
def create_session(room: Room, call: Call, data: SessionCreateInput) -> AgentSession:
    """Create a Session of an agent. Its Environment is ready at once unless files or commands prepare it.

    With an Idempotency-Key the same request gives the same Session for a day.
    """
    sent = data.sent()
    request = read_session(sent, engines_of(room))
    key = None
    if call.idempotency_key is not None:
        key = Key(call.idempotency_key, digests.digest("session", json.dumps(sent, sort_keys=True)))
    found = make(room, call.project, request, key)
    start(room, found)
    return shown(room, found)


@operation(
    "sessions.get",
    route=Route("GET", ("/v1/agents/sessions/{session_id}",), contract="agents"),
    errors=(Code.NOT_FOUND,),
)
def get_session(room: Room, call: Call, data: SessionId) -> AgentSession:
    """Get a Session of the project. Its `status` says whether it takes input or is at work."""
    return shown(room, seen(room, need(room, call.project, data.session_id)))


@operation(
    "sessions.list",
    route=Route("GET", ("/v1/agents/sessions",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
)
def list_sessions(room: Room, call: Call, data: SessionListInput) -> SessionList:
    """List the Sessions of the project. The next page begins behind `last_id`."""
    project = call.project
    if data.after is not None:
        need(room, project, data.after)
    after = None if data.after is None else places.SESSIONS + data.after

    def listed() -> Iterator[AgentSession]:
        rows = walked(room, names.project(project), places.SESSIONS, after, descending=data.order == "desc")
        for row in rows:
            if data.agent_id in (None, row.attributes["agent_id"]):
                session = _still(room, project, row.sort.removeprefix(places.SESSIONS), data.metadata)
                if session is not None:
                    yield session

    sessions, has_more = bounded(
        room, clamped_limit(data.limit), listed(), lambda session: len(session.model_dump_json())
    )
    return SessionList.of(sessions, lambda session: session.id, has_more=has_more)


def _still(room: Room, project: str, session: str, wanted: Mapping[str, str] | None) -> AgentSession | None:
    """A listed Session with these pairs; None where it has others, or is gone since its row was read."""
    found = find(room, project, session)
    item = None if found is None else room.state.get(found.partition, places.CONFIG)
    if found is None or item is None:
        return None
    if wanted is not None and not _has(item.attributes["metadata"], wanted.items()):
        return None
    return shown(room, found)


def _has(metadata: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> bool:
    return all(metadata.get(name) == value for name, value in pairs)


@operation(
    "sessions.update",
    route=Route("POST", ("/v1/agents/sessions/{session_id}",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
    lookup=look_up,
    reader=SessionUpdateInput.read,
)
def update_session(room: Room, call: Call, data: SessionUpdateInput) -> AgentSession:
    """Describe a Session anew. Its metadata are replaced; nothing else of it can be changed."""
    update = read_session_update(data.sent("session_id"))
    found = need(room, call.project, data.session_id)
    for _ in range(_ATTEMPTS):
        described = describe(room, found)
        if update.metadata is None:
            return shown(room, found, described)
        new = replace(described, metadata=update.metadata)

        def decide(draft: Draft, new: Described = new) -> None:
            draft.head = replace(draft.head, used=max(draft.head.used, draft.now))
            draft.put(places.CONFIG, new.attributes(), new.version)

        try:
            found = swap(room, found, decide)
        except Conflict:
            found = need(room, call.project, data.session_id)
        else:
            return shown(room, found, replace(new, version=new.version + 1))
    raise Conflict(())


@operation(
    "sessions.delete",
    route=Route("DELETE", ("/v1/agents/sessions/{session_id}",), contract="agents"),
    errors=(Code.NOT_FOUND, Code.EXISTS),
)
def delete_session(room: Room, call: Call, data: SessionId) -> SessionDeleted:
    """Delete a Session with its files and Artifacts. While something goes on in it, it is refused."""
    found = find(room, call.project, data.session_id)
    if found is None:
        tombstone = None
        if data.session_id.startswith("sess_"):
            tombstone = room.state.get(names.project(call.project), places.DELETED + data.session_id)
        if tombstone is None:
            raise missing()
        return SessionDeleted(id=data.session_id)
    found = seen(room, found)
    while True:
        try:
            swap(room, found, lambda draft: _delete(room, draft))
        except Conflict:
            again = find(room, call.project, data.session_id)
            if again is None:
                break
            found = again
        else:
            break
    return SessionDeleted(id=data.session_id)


def _delete(room: Room, draft: Draft) -> None:
    """A Session's end: from here on nothing of it is found, and nobody can commit anything in it (11.24).

    The janitor takes its objects and rows. The evidence of a write that is not settled stays with the tombstone.
    """
    found = draft.found
    write = found.head.write
    try:
        draft.head = lifecycle.deleted(draft.head)
    except Refused as refused:
        raise refusal(refused) from None
    project = names.project(found.project)
    workspace = room.state.get(found.partition, names.HEAD)
    if workspace is not None:
        gone = emptied(Head.of(workspace.attributes))
        draft.actions.append(PutIf(workspace.partition, workspace.sort, workspace.version, gone.attributes()))
    evidence = None
    if write is not None:
        record = room.state.get(found.partition, places.WRITES + write.write)
        evidence = None if record is None else record.attributes
        row = room.state.get(project, places.unsettled(write.since, found.session, write.write))
        if row is not None:
            draft.actions.append(DeleteIf(row.partition, row.sort, row.version))
    index = room.state.get(project, places.SESSIONS + found.session)
    if index is not None:
        draft.actions.append(DeleteIf(index.partition, index.sort, index.version))
    tombstone = {"at": draft.now, "swept": False, "evidence": evidence}
    expires = draft.now // 1000 + places.TOMBSTONE_S
    draft.actions.append(PutNew(project, places.DELETED + found.session, tombstone, expires))
