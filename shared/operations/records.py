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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shared.domain.ids import digest, is_short_id, short_id
from shared.domain.session import Head, Lock, Owner, held
from shared.errors import Code, Failure
from shared.operations import names
from shared.operations.room import Room
from shared.store.ports import (
    Action,
    Conflict,
    DeleteIf,
    Item,
    ObjectMissing,
    PutIf,
    PutNew,
    StoreUnavailable,
)


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
    """Own the record of an Idempotency-Key, or get its stored answer. Errors: 409 while it runs; 422 another body.

    Whoever owns a record works `in_hand`.
    """
    partition = names.record(project, "idem", digest(key))
    fresh = _running(room, digest(json.dumps(body, sort_keys=True)))
    found: Record | Stored | None = None
    try:
        found = _begin(room, partition, fresh)
        return found
    finally:
        if not isinstance(found, Record):
            room.active.discard(fresh["token"])


def _begin(room: Room, partition: str, fresh: dict[str, Any]) -> Record | Stored:
    action: Action = PutNew(partition, names.RECORD, fresh, _expiry(room))
    item = None
    for _ in range(2):
        try:
            (version,) = room.state.transact([action])
        except Conflict as conflict:
            item = conflict.losses[0].current
        else:
            return Record(partition, version, fresh)
        if item is None:
            continue
        if room.clock() < item.attributes["created"] + room.limits.record_ms:
            if item.attributes["body"] != fresh["body"]:
                raise Failure(Code.IDEMPOTENCY_CONFLICT)
            if item.attributes["state"] == "finished":
                return Stored(_result(room, item))
            if _alive(room, item):
                break
        action = PutIf(partition, names.RECORD, item.version, fresh, _expiry(room))
    raise Failure(Code.IN_PROGRESS, retry_after=1)


def create(room: Room, project: str, run_id: str, also: Sequence[Action] = ()) -> Record:
    """The record of an asynchronous run, in state "running", in one transaction with `also`. Errors: Conflict."""
    partition = names.record(project, "run", run_id)
    attributes = _running(room, "")
    try:
        version, *_ = room.state.transact([PutNew(partition, names.RECORD, attributes, _expiry(room)), *also])
    except BaseException:
        room.active.discard(attributes["token"])
        raise
    return Record(partition, version, attributes)


@contextmanager
def in_hand(room: Room, record: Record) -> Iterator[None]:
    """While the block runs, this process has the record's run in hand; afterwards it tells nobody so any more."""
    try:
        yield
    finally:
        room.active.discard(record.attributes["token"])


def load(room: Room, project: str, run_id: str) -> tuple[str, dict[str, Any]] | None:
    """The state ("running", "finished", "failed") and result of an asynchronous run, or None.

    A run whose process is gone has failed: it is told so, never run again.
    """
    if not is_short_id(run_id):
        return None
    partition = names.record(project, "run", run_id)
    item = room.state.get(partition, names.RECORD)
    if item is not None and item.attributes["state"] == "running" and not _alive(room, item):
        item = room.state.get(partition, names.RECORD)  # it may have ended between the two looks
    if item is None or room.clock() >= item.attributes["created"] + room.limits.record_ms:
        return None
    state = item.attributes["state"]
    if state != "running":
        return state, _result(room, item)
    if _alive(room, item):
        return "running", {}
    return "failed", Failure(Code.EXECUTOR_BROKEN, "The service was stopped while the run went on.").body()


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


def _running(room: Room, fingerprint: str) -> dict[str, Any]:
    """The attributes of a record that this call may come to own. Its token is in hand before anybody can read it."""
    now = room.clock()
    token = short_id(os.urandom)
    room.active.add(token)
    longest = room.limits.run_ms_max + room.limits.lock_wait_ms + room.limits.lease_ms
    return {
        "state": "running",
        "body": fingerprint,
        "created": now,
        "owner": [room.owner.name, room.owner.incarnation],
        "until": now + longest,
        "token": token,
        "result": None,
        "pointer": "",
    }


def _alive(room: Room, item: Item) -> bool:
    """Whether its run may still go on. Of its own runs a process knows it; of another's, the lock's rule tells."""
    name, incarnation = item.attributes["owner"]
    owner = Owner(name, incarnation)
    if owner == room.owner:
        return item.attributes["token"] in room.active
    return held(Head(created=0, used=0, lock=Lock(owner, item.attributes["until"])), room.owner, room.clock())


def _result(room: Room, item: Item) -> dict[str, Any]:
    if item.attributes["pointer"]:
        try:
            result: dict[str, Any] = json.loads(b"".join(room.objects.read(item.attributes["pointer"])))
        except (ObjectMissing, ValueError) as error:
            raise StoreUnavailable("result") from error
        return result
    return dict(item.attributes["result"])


def _expiry(room: Room) -> int:
    return (room.clock() + room.limits.record_ms) // 1000 + 1
