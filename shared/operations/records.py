"""Request records: one execution a key, and results that are fetched later (exec.md A8.15, DESIGN §6).

    first    put record(running) if absent ── run ── [commit of the run + record(finished)] in one transaction
    repeat   the same body: running → 409, finished → the stored answer; another body → 422
    crash    the owner's incarnation is gone: the next repeat takes the record over; nothing was committed before

A result above the item limit is an object, and the record points at it; so is the input of a queued run, whose record
has no result yet.
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
from shared.identity import Caller
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
class Queued:
    """The record of a queued run and the one of its Idempotency-Key, as (partition, version): what is to be undone."""

    rows: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A queued run that this call has taken up. Without `owned` it had waited too long, and has failed."""

    caller: Caller
    input: dict[str, Any]
    owned: Record | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A finished record's result."""

    result: dict[str, Any]


def begin(room: Room, project: str, key: str, body: dict[str, Any]) -> Record | Stored:
    """Own the record of an Idempotency-Key, or get its stored answer. Errors: 409 while it runs; 422 another body.

    Whoever owns a record works `in_hand`.
    """
    partition = names.record(project, "idem", digest(key))
    fresh = _running(room, digest(json.dumps(body, sort_keys=True)), bounded=True)
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


def enqueue(
    room: Room, caller: Caller, run_id: str, data: dict[str, Any], also: tuple[Record, Action] | None
) -> Queued:
    """The record of a run that waits for a worker, with its input and caller, in one transaction with `also`.

    `also` is the record of the Idempotency-Key and the action that finishes it. Errors: Conflict.
    """
    partition = names.record(caller.project, "run", run_id)
    now = room.clock()
    attributes = {
        "state": "queued",
        "body": "",
        "created": now,
        "owner": ["", ""],
        "until": now + room.limits.queue_ms,
        "token": "",
        "caller": [caller.key_id, caller.subject],
        **_placed(room, partition, data, "input"),
    }
    actions: list[Action] = [PutNew(partition, names.RECORD, attributes, _expiry(room))]
    if also is None:
        versions = room.state.transact(actions)
        return Queued(((partition, versions[0]),))
    versions = room.state.transact([*actions, also[1]])
    return Queued(((partition, versions[0]), (also[0].partition, versions[1])))


def withdraw(room: Room, queued: Queued) -> bool:
    """Remove a queued run that could not be sent, and its key's record; False when a worker has it already."""
    try:
        room.state.transact([DeleteIf(partition, names.RECORD, version) for partition, version in queued.rows])
    except Conflict:
        return False
    return True


def claim(room: Room, project: str, run_id: str) -> Claim | None:
    """Take a queued run up, if nobody else has: its record is then running, in this call's hand.

    Whoever owns the record works `in_hand`. Errors: StoreUnavailable, with the record as it was or lost to all.
    """
    if not is_short_id(run_id):
        return None
    item = room.state.get(names.record(project, "run", run_id), names.RECORD)
    if item is None or item.attributes["state"] != "queued":
        return None
    key_id, subject = item.attributes["caller"]
    caller = Caller(project, key_id, subject)
    if room.clock() >= item.attributes["until"]:
        return Claim(caller, {}, None) if _expire(room, item) else None
    data = _result(room, item, "input")
    fresh = _running(room, "", bounded=True)
    attributes = {**fresh, "created": item.attributes["created"]}
    try:
        (version,) = room.state.transact([PutIf(item.partition, names.RECORD, item.version, attributes, _expiry(room))])
    except BaseException as error:
        room.active.discard(fresh["token"])
        if isinstance(error, Conflict):
            return None
        raise
    return Claim(caller, data, Record(item.partition, version, attributes))


def _expire(room: Room, item: Item) -> bool:
    """Let a queued run that no worker took up fail, so that none can any more; False when one just has."""
    failure = Failure(Code.EXECUTOR_UNAVAILABLE, "The run waited too long in the queue; it was not run.")
    record = Record(item.partition, item.version, {**item.attributes, "input": None})
    try:
        room.state.transact([finished(room, record, failure.body(), "failed")])
    except Conflict:
        return False
    return True


@contextmanager
def in_hand(room: Room, record: Record) -> Iterator[None]:
    """While the block runs, this process has the record's run in hand; afterwards it tells nobody so any more."""
    try:
        yield
    finally:
        room.active.discard(record.attributes["token"])


def load(room: Room, project: str, run_id: str) -> tuple[str, dict[str, Any]] | None:
    """The state ("running", "finished", "failed") and result of an asynchronous run, or None.

    A run whose process is gone has failed: it is told so, never run again. A queued one is told of as running.
    """
    if not is_short_id(run_id):
        return None
    partition = names.record(project, "run", run_id)
    item = room.state.get(partition, names.RECORD)
    if item is not None and item.attributes["state"] == "queued":
        if room.clock() < item.attributes["until"]:
            return "running", {}
        _expire(room, item)
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
    attributes = {**record.attributes, "state": state, **_placed(room, record.partition, result, "result")}
    return PutIf(record.partition, names.RECORD, record.version, attributes, _expiry(room))


def _placed(room: Room, partition: str, data: dict[str, Any], member: str) -> dict[str, Any]:
    """The members of a record that hold a text of any size: inline, or a pointer to an object of the record's."""
    raw = json.dumps(data, separators=(",", ":")).encode("ascii")
    if len(raw) <= room.limits.inline_item_bytes:
        return {member: data, "pointer": ""}
    key = f"{partition}/{short_id(os.urandom)}"
    room.objects.put_new(key, raw, hashlib.sha256(raw).hexdigest())
    return {member: None, "pointer": key}


def drop(room: Room, record: Record) -> None:
    """Forget a record whose run failed for reasons of ours: such a failure is not stored."""
    try:
        room.state.transact([DeleteIf(record.partition, names.RECORD, record.version)])
    except Conflict:
        return


def _running(room: Room, fingerprint: str, *, bounded: bool = False) -> dict[str, Any]:
    """The attributes of a record that this call may come to own. Its token is in hand before anybody can read it.

    `bounded` says that the work ends with `Limits.answer_ms`, where there is one: the platform ends the process then,
    and a repeat must neither wait for longer nor take the work over before.
    """
    now = room.clock()
    token = short_id(os.urandom)
    room.active.add(token)
    limits = room.limits
    longest = (bounded and limits.answer_ms) or limits.run_ms_max + limits.lock_wait_ms
    return {
        "state": "running",
        "body": fingerprint,
        "created": now,
        "owner": [room.owner.name, room.owner.incarnation],
        "until": now + longest + limits.lease_ms,
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


def _result(room: Room, item: Item, member: str = "result") -> dict[str, Any]:
    if item.attributes["pointer"]:
        try:
            result: dict[str, Any] = json.loads(b"".join(room.objects.read(item.attributes["pointer"])))
        except (ObjectMissing, ValueError) as error:
            raise StoreUnavailable(member) from error
        return result
    return dict(item.attributes[member])


def _expiry(room: Room) -> int:
    return (room.clock() + room.limits.record_ms) // 1000 + 1
