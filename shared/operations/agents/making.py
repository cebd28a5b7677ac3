"""Making a Session: one transaction of its head, its workspace, its description, its input and its frames.

Objects come first: a crash before the transaction leaves orphans, after it the Session stands and whoever sees it has
its work done. Only the record of an Idempotency-Key can lose (agents.md 11.20).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.agents_errors import Fault, Refusal
from shared.domain.agents import events, ids, lifecycle
from shared.domain.agents.events import Source
from shared.domain.agents.head import Pending, Session
from shared.domain.ids import short_id
from shared.domain.session import Head
from shared.operations import names
from shared.operations.agents import ending, large, places
from shared.operations.agents.config import Config, Described, InitialFile, attributes, changing, machine_action
from shared.operations.agents.requests.environment import EnvironmentRequest, file_entries, session_environment
from shared.operations.agents.requests.events import Batch, Message
from shared.operations.agents.requests.session_create import SessionRequest
from shared.operations.agents.saved import saved_definition
from shared.operations.agents.session import Draft, Found, find
from shared.operations.room import Room
from shared.operations.sources import find_source
from shared.store.ports import Conflict, Item, PutIf, PutNew

_KEY_MS = 86_400_000
"""How long the Idempotency-Key of a creation is kept (agents.md 11.20)."""
_FILE_BYTES = 50 * 1024 * 1024
"""A source file that an Environment takes (agents.md 2)."""


@dataclass(frozen=True, slots=True)
class Key:
    """An Idempotency-Key and what it was sent with."""

    key: str
    digest: str


def repeated(room: Room, project: str, key: Key) -> tuple[Found | None, Item | None]:
    """The Session that a key has made, and the key's record; both None where there is none that counts.

    Errors: 409 where the body was another one, or the Session is deleted.
    """
    item = room.state.get(places.creation(project, key.key), names.RECORD)
    if item is None or room.clock() >= item.attributes["created"] + _KEY_MS:
        return None, item
    found = find(room, project, item.attributes["session"]) if item.attributes["digest"] == key.digest else None
    if found is None:
        raise Refusal(Fault.IDEMPOTENCY_CONFLICT)
    return found, item


def make(room: Room, project: str, request: SessionRequest, key: Key | None) -> Found:
    """Make a Session. Errors: 400, 404, 409, 413; StoreUnavailable."""
    record: Item | None = None
    if key is not None:
        made, record = repeated(room, project, key)
        if made is not None:
            return made
    saved = None if request.agent_id is None else saved_definition(room, project, request.agent_id)
    agent = {"id": request.agent_id or ids.new("agent", os.urandom, ids.stamp(room.clock())), **request.resolved(saved)}
    if request.agent_id is not None:
        agent["id"] = request.agent_id
    now = room.clock()
    session = ids.new("sess", os.urandom, ids.stamp(now))
    found, actions = _rows(room, project, session, request, agent, now)
    if key is not None:
        row = {"digest": key.digest, "session": session, "created": now}
        partition, expiry = places.creation(project, key.key), (now + _KEY_MS) // 1000 + 1
        actions.append(
            PutNew(partition, names.RECORD, row, expiry)
            if record is None
            else PutIf(partition, names.RECORD, record.version, row, expiry)
        )
    try:
        room.state.transact(actions)
    except Conflict:
        if key is None:
            raise
        made, _ = repeated(room, project, key)
        if made is None:
            raise
        return made
    return found


def _rows(
    room: Room, project: str, session: str, request: SessionRequest, agent: dict[str, Any], now: int
) -> tuple[Found, list[Any]]:
    """The Session as it is born, and every row of it."""
    partition = names.session(project, session)
    asked = request.environment
    files = _files(room, project, partition, asked)
    config = Config(
        agent=agent,
        environment=_shown(session, asked, files),
        files=files,
        env=asked.env,
        setup=asked.setup_commands,
    )
    blank = Session(created=now, used=now, clock=now, environment=lifecycle.created(asked.kind, now).environment)
    draft = Draft(Found(project, session, 0, blank), blank, now)
    described = Described(1, config, {}, request.metadata)
    install = bool(files or asked.setup_commands)
    batch, turn, number = "", "", 0
    pending = None
    if request.input:
        batch = ids.new("batch", os.urandom)
        turn, number = draft.new_id("turn")
        pending = Pending(batch, len(request.input))
    sequence = draft.head.sequence
    draft.head = replace(
        lifecycle.created(asked.kind, now, install=install, turn=turn, pending=pending), sequence=sequence
    )
    head = draft.head
    found = Found(project, session, 1, head)
    draft.tell(events.session_frame("created", changing(head, machine_action(found, head))))
    if asked.kind != "none":
        source = Source(session)
        draft.tell(events.environment_frame(source, found.environment, asked.kind, head.environment.status))
    if pending is not None:
        stored = Batch((Message(request.input),)).to_json()
        draft.put(places.batch(batch), large.placed(room, partition, stored))
        ending.new_turn(draft, described, turn, number)
    draft.put(places.CONFIG, attributes(room, partition, config, request.metadata))
    if asked.kind != "none":
        draft.put(names.HEAD, Head(created=now, used=now).attributes())
    row = {"created": now, "agent_id": agent["id"]}
    last, actions = draft.closed()
    actions.append(PutNew(names.project(project), places.SESSIONS + session, row))
    return Found(project, session, 1, last), [PutNew(partition, places.HEAD, last.attributes()), *actions]


def _files(room: Room, project: str, partition: str, asked: EnvironmentRequest) -> tuple[InitialFile, ...]:
    """The initial files: the inline ones are stored as one object, source files are looked up.

    Errors: 404, 413 (agents.md 2, 3.3).
    """
    pack = b"".join(file.data or b"" for file in asked.files)
    key = ""
    files: list[InitialFile] = []
    offset = 0
    for file in asked.files:
        ident = short_id(os.urandom)
        if file.file_id is not None:
            row = _source(room, project, file.file_id)
            if row["size"] > _FILE_BYTES:
                raise Refusal(Fault.TOO_LARGE, "File exceeds this operation's content limit.")
            files.append(
                InitialFile(id=ident, path=file.path, size=row["size"], sha256=row["sha256"], file_id=file.file_id)
            )
            continue
        data = file.data or b""
        if data and not key:
            key = large.put(room, partition, pack)
        digest = hashlib.sha256(data).hexdigest()
        files.append(
            InitialFile(
                id=ident,
                path=file.path,
                size=len(data),
                sha256=digest,
                blob=key if data else "",
                offset=offset if data else 0,
            )
        )
        offset += len(data)
    return tuple(files)


def _source(room: Room, project: str, file_id: str) -> Mapping[str, Any]:
    try:
        return find_source(room, project, file_id).attributes
    except Refusal:
        raise Refusal(Fault.NOT_FOUND) from None


def _shown(session: str, asked: EnvironmentRequest, files: tuple[InitialFile, ...]) -> dict[str, Any]:
    entries = file_entries(asked.files, [file.id for file in files], [file.size for file in files])
    remote = "" if asked.kind != "self_hosted" else f"wss://self-hosted.invalid/{ids.environment_of(session)}"
    return session_environment(
        asked.kind,
        ids.environment_of(session),
        files=entries,
        workspace_directory=asked.workspace_directory,
        remote_url=remote,
    )
