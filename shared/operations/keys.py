"""API keys: made, listed and revoked by an operator, hashed at rest, shown once (never on HTTP or MCP)."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from pydantic import Field

from shared.domain.ids import is_project, short_id
from shared.errors import Code, Failure, invalid
from shared.operations import names
from shared.operations.base import Call, Model, Nothing, Sparse, operation
from shared.operations.room import Room
from shared.operations.texts import bounded, rfc3339
from shared.store.ports import Action, Conflict, DeleteIf, Item, PutNew

_KEY = re.compile(r"wr_[A-Za-z0-9_-]{42}", re.ASCII)


class KeyRequest(Model):
    """A key to make."""

    project: str = Field(description="Project that the key belongs to: 1 to 40 of a-z, 0-9 and inner hyphens.")
    name: str = Field("", description="What the key is for, in your own words.")
    expires_in_s: int | None = Field(None, ge=1, description="Seconds until the key ends; default: never.")


class MadeKey(Sparse):
    """A key that was made. The secret is shown now and never again."""

    id: str = Field(description="Id of the key, to revoke it by.")
    key: str = Field(description="The secret. It is not kept: store it now.")
    project: str = Field(description="Project that the key belongs to.")
    expires_at: str | None = Field(None, description="When the key ends, RFC 3339 in UTC.")


class KeyRow(Sparse):
    """A key as it is listed."""

    id: str = Field(description="Id of the key.")
    project: str = Field(description="Project that the key belongs to.")
    name: str = Field(description="What the key is for.")
    created: str = Field(description="When it was made, RFC 3339 in UTC.")
    expires_at: str | None = Field(None, description="When it ends, RFC 3339 in UTC.")
    development: bool | None = Field(None, description="True for the development key.")


class KeyRows(Model):
    """All keys."""

    keys: list[KeyRow] = Field(description="The keys, by no particular order.")


class KeyId(Model):
    """A key."""

    id: str = Field(description="Id of the key.")


def is_key(text: str) -> bool:
    """Whether a text has the format of our keys."""
    return _KEY.fullmatch(text) is not None


def sort_of(key: str) -> str:
    """Where a key's row lies: under its SHA-256. A key has 252 random bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def new_key() -> str:
    """A fresh secret."""
    return "wr_" + short_id(os.urandom) + short_id(os.urandom)


def put_key(room: Room, key: str, attributes: dict[str, Any]) -> None:
    """Store a key's row and its project's row. Errors: Conflict when the key is known."""
    project = attributes["project"]
    actions: list[Action] = [PutNew(names.KEYS, sort_of(key), attributes)]
    if room.state.get(names.SYSTEM, names.project_row(project)) is None:
        actions.append(PutNew(names.SYSTEM, names.project_row(project), {"created": attributes["created"]}))
    try:
        room.state.transact(actions)
    except Conflict as conflict:
        if any(loss.index == 0 for loss in conflict.losses):
            raise
        room.state.transact(actions[:1])


@operation("keys.create", audience="operator", errors=(Code.INVALID_REQUEST,))
def create_key(room: Room, call: Call, data: KeyRequest) -> MadeKey:
    """Make an API key for a project. The project comes to be with its first key.

    The secret is shown once; only its hash is kept.
    """
    if not is_project(data.project):
        raise invalid("project", "must be 1 to 40 of a-z, 0-9 and inner hyphens")
    bounded("name", data.name, room.limits.label_bytes, empty=True)
    now = room.clock()
    until = None if data.expires_in_s is None else now + data.expires_in_s * 1000
    key, ident = new_key(), short_id(os.urandom)
    put_key(room, key, {"id": ident, "project": data.project, "name": data.name, "created": now, "until": until})
    return MadeKey(id=ident, key=key, project=data.project, expires_at=None if until is None else rfc3339(until))


@operation("keys.list", audience="operator")
def list_keys(room: Room, call: Call, data: Nothing) -> KeyRows:
    """List the API keys. Their secrets are not kept and cannot be shown."""
    return KeyRows(
        keys=[
            KeyRow(
                id=item.attributes["id"],
                project=item.attributes["project"],
                name=item.attributes["name"],
                created=rfc3339(item.attributes["created"]),
                expires_at=None if item.attributes["until"] is None else rfc3339(item.attributes["until"]),
                development=item.attributes.get("development"),
            )
            for item in _all(room)
        ]
    )


@operation("keys.revoke", audience="operator", errors=(Code.NOT_FOUND,))
def revoke_key(room: Room, call: Call, data: KeyId) -> KeyId:
    """Revoke an API key. From then on it is refused; what its project holds stays."""
    for item in _all(room):
        if item.attributes["id"] == data.id:
            try:
                room.state.transact([DeleteIf(item.partition, item.sort, item.version)])
            except Conflict:
                break
            return data
    raise Failure(Code.NOT_FOUND, "No such key.")


def _all(room: Room) -> list[Item]:
    rows: list[Item] = []
    after: str | None = None
    while page := room.state.query(names.KEYS, after=after, limit=500):
        rows += page
        after = page[-1].sort
    return rows
