"""Request records: one execution a key, and results that are fetched later (exec.md A8.15, DESIGN §6).

    first    put record(running) if absent ── run ── [commit of the run + record(finished)] in one transaction
    repeat   the same body: running → 409, finished → the stored answer; another body → 422
    crash    the owner's incarnation is gone: the next repeat takes the record over; nothing was committed before

A result above the item limit is an object, and the record points at it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

from shared.domain.ids import digest, short_id
from shared.domain.session import Head, Lock, Owner, held
from shared.errors import Code, Failure
from shared.operations import names
from shared.operations.room import Room
from shared.store.ports import Action, Conflict, DeleteIf, Item, PutIf, PutNew


@dataclass(frozen=True, slots=True)
class Record:
    """A record that this call owns: what it must be at when it is finished."""

    partition: str
    version: int
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """A finished record's result."""

    result: dict[str, Any]


def begin(room: Room, project: str, key: str, body: dict[str, Any]) -> Record | Stored:
    """Own the record of an Idempotency-Key, or get its stored answer. Errors: 409 while it runs; 422 another body."""
    partition = names.record(project, "idem", digest(key))
    fingerprint = digest(json.dumps(body, sort_keys=True))
    fresh = _running(room, fingerprint)
    try:
        (version,) = room.state.transact([PutNew(partition, names.RECORD, fresh, _expiry(room))])
    except Conflict as conflict:
        current = conflict.losses[0].current
        if current is None:
            raise Failure(Code.IN_PROGRESS, retry_after=1) from None
        return _repeat(room, current, fingerprint, fresh)
    return Record(partition, version, fresh)


def create(room: Room, project: str, run_id: str) -> Record:
    """The record of an asynchronous run, in state "running"."""
    partition = names.record(project, "run", run_id)
    attributes = _running(room, "")
    (version,) = room.state.transact([PutNew(partition, names.RECORD, attributes, _expiry(room))])
    return Record(partition, version, attributes)


def load(room: Room, project: str, run_id: str) -> tuple[str, dict[str, Any]] | None:
    """The state ("running", "finished", "failed") and result of an asynchronous run, or None.

    A run whose process is gone has failed: it is told so, never run again.
    """
    item = room.state.get(names.record(project, "run", run_id), names.RECORD)
    if item is None or room.clock() >= item.attributes["created"] + room.limits.record_ms:
        return None
    state = item.attributes["state"]
    if state == "running":
        if _alive(room, item):
            return "running", {}
        return "failed", Failure(Code.EXECUTOR_BROKEN, "The service was stopped while the run went on.").body()
    return state, _result(room, item)


def finished(room: Room, record: Record, result: dict[str, Any], state: str = "finished") -> Action:
    """The action that finishes a record; it belongs into the transaction that commits the run."""
    text = json.dumps(result, separators=(",", ":"))
    place: dict[str, Any] = {"result": result, "pointer": ""}
    if len(text) > room.limits.inline_item_bytes:
        data = text.encode("ascii")
        key = f"{record.partition}/{short_id(os.urandom)}"
        room.objects.put_new(key, data, hashlib.sha256(data).hexdigest())
        place = {"result": None, "pointer": key}
    attributes = {**record.attributes, "state": state, **place}
    return PutIf(record.partition, names.RECORD, record.version, attributes, _expiry(room))


def drop(room: Room, record: Record) -> None:
    """Forget a record whose run failed for reasons of ours: such a failure is not stored."""
    try:
        room.state.transact([DeleteIf(record.partition, names.RECORD, record.version)])
    except Conflict:
        return


def _repeat(room: Room, item: Item, fingerprint: str, fresh: dict[str, Any]) -> Record | Stored:
    expired = room.clock() >= item.attributes["created"] + room.limits.record_ms
    if not expired:
        if item.attributes["body"] != fingerprint:
            raise Failure(Code.IDEMPOTENCY_CONFLICT)
        if item.attributes["state"] == "finished":
            return Stored(_result(room, item))
        if _alive(room, item):
            raise Failure(Code.IN_PROGRESS, retry_after=1)
    try:
        (version,) = room.state.transact([PutIf(item.partition, names.RECORD, item.version, fresh, _expiry(room))])
    except Conflict:
        raise Failure(Code.IN_PROGRESS, retry_after=1) from None
    return Record(item.partition, version, fresh)


def _running(room: Room, fingerprint: str) -> dict[str, Any]:
    now = room.clock()
    longest = room.limits.run_ms_max + room.limits.lock_wait_ms + room.limits.lease_ms
    return {
        "state": "running",
        "body": fingerprint,
        "created": now,
        "owner": [room.owner.name, room.owner.incarnation],
        "until": now + longest,
        "result": None,
        "pointer": "",
    }


def _alive(room: Room, item: Item) -> bool:
    """Whether the process that runs it may still live: the lock's own rule."""
    name, incarnation = item.attributes["owner"]
    owner = Owner(name, incarnation)
    if owner == room.owner:
        return bool(room.clock() < item.attributes["until"])
    return held(Head(created=0, used=0, lock=Lock(owner, item.attributes["until"])), room.owner, room.clock())


def _result(room: Room, item: Item) -> dict[str, Any]:
    if item.attributes["pointer"]:
        result: dict[str, Any] = json.loads(b"".join(room.objects.read(item.attributes["pointer"])))
        return result
    return dict(item.attributes["result"])


def _expiry(room: Room) -> int:
    return (room.clock() + room.limits.record_ms) // 1000 + 1
