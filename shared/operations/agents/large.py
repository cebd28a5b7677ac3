"""JSON of any size in an item: inline, or an object that the item points at (agents.md 11.27).

The object is put before the transaction that names it; a crash between the two leaves an orphan for the janitor.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from shared.domain.ids import short_id
from shared.operations.room import Room
from shared.store.ports import ObjectMissing, StoreUnavailable


def placed(room: Room, partition: str, value: object) -> dict[str, Any]:
    """The members `value` and `pointer` of an item's attributes. `value` is JSON."""
    raw = json.dumps(value, separators=(",", ":")).encode("ascii")
    if len(raw) <= room.limits.inline_item_bytes:
        return {"value": value, "pointer": ""}
    return {"value": None, "pointer": put(room, partition, raw)}


def put(room: Room, partition: str, raw: bytes) -> str:
    """Store bytes as an object of the partition; its key."""
    key = f"{partition}/{short_id(os.urandom)}"
    room.objects.put_new(key, raw, hashlib.sha256(raw).hexdigest())
    return key


def value(room: Room, attributes: Mapping[str, Any]) -> Any:
    """What `placed` kept. Errors: StoreUnavailable where the object is lost."""
    if not attributes["pointer"]:
        return attributes["value"]
    try:
        return json.loads(b"".join(room.objects.read(attributes["pointer"])))
    except (ObjectMissing, ValueError) as error:
        raise StoreUnavailable("a part of a Session") from error
