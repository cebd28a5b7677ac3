"""Items as DynamoDB holds them, and the key conditions of a query. Nothing here does I/O.

pk, sk   the keys (S)
v        the version (N)
a        the attributes as `items.encode` text: S, or zlib's bytes of it (B) where that saves a billed kilobyte
w        the write id of the transaction that put it
x        epoch seconds (N) after which the table's TTL removes it; absent where it stays
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from shared.store.items import MAX_PARTITION_BYTES, MAX_SORT_BYTES, decode, key_bytes
from shared.store.ports import MAX_ITEM_BYTES, Action, Check, DeleteIf, Item, PutIf, PutNew, StoreUnavailable

Row = dict[str, Any]
"""Attribute values by name, each a dict of its type's letter."""

_BILLED = 1024
_LAST = "\U0010ffff"
# By bytes that are left: the greatest text of that length.
_FILL = ("", "\x7f", "\u07ff", "\uffff")


def is_key(partition: str, sort: str | None = None) -> bool:
    """Whether an item can have that key."""
    try:
        return 1 <= len(partition.encode()) <= MAX_PARTITION_BYTES and (
            sort is None or 1 <= len(sort.encode()) <= MAX_SORT_BYTES
        )
    except UnicodeEncodeError:
        return False


def key_of(partition: str, sort: str) -> Row:
    """The key of an item."""
    return {"pk": {"S": partition}, "sk": {"S": sort}}


def item_of(row: Mapping[str, Any]) -> Item:
    """A stored item. Errors: StoreUnavailable for a row that this code did not write."""
    try:
        partition, sort, version = row["pk"]["S"], row["sk"]["S"], int(row["v"]["N"])
        kept = row["a"]
        text = kept["S"] if "S" in kept else _unpack(kept["B"])
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise StoreUnavailable("an item has another form") from error
    return Item(partition, sort, version, decode(text))


def _pack(text: str) -> Row:
    plain = text.encode("ascii")
    if len(plain) > _BILLED:
        packed = zlib.compress(plain, 6)
        if -(-len(packed) // _BILLED) < -(-len(plain) // _BILLED):
            return {"B": packed}
    return {"S": text}


def _unpack(packed: bytes) -> str:
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(packed, MAX_ITEM_BYTES)
    if not unpacker.eof:
        raise ValueError("not whole, or too long")
    return plain.decode("ascii")


def action_of(table: str, action: Action, text: str, write: str) -> dict[str, Any]:
    """A member of TransactWriteItems. `text` is the encoded attributes of a put."""
    said: dict[str, Any] = {"TableName": table, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    version = None if isinstance(action, PutNew) else action.version
    if version is None:
        said["ConditionExpression"] = "attribute_not_exists(pk)"
    else:
        said["ConditionExpression"] = "v = :v"
        said["ExpressionAttributeValues"] = {":v": {"N": str(version)}}
    key = key_of(action.partition, action.sort)
    match action:
        case DeleteIf():
            return {"Delete": {**said, "Key": key}}
        case Check():
            return {"ConditionCheck": {**said, "Key": key}}
        case PutNew() | PutIf():
            row = {**key, "v": {"N": str((version or 0) + 1)}, "a": _pack(text), "w": {"S": write}}
            if action.expires_at is not None:
                row["x"] = {"N": str(action.expires_at)}
            return {"Put": {**said, "Item": row}}


def condition_of(partition: str, prefix: str, after: str | None, descending: bool) -> tuple[str, Row] | None:
    """The key condition of a query and its values; None where nothing can be found.

    BETWEEN is inclusive, so that what `after` names may be in the answer: the caller drops it.
    """
    if not is_key(partition) or (prefix and not is_key(partition, prefix)):
        return None
    least, most = prefix, _greatest(prefix)
    narrowed = False
    if after is not None:
        bound = _valid(after)
        if descending and key_bytes(bound) < key_bytes(most):
            most, narrowed = bound, True
        elif not descending and key_bytes(bound) > key_bytes(least):
            least, narrowed = bound, True
    if not most or key_bytes(least) > key_bytes(most):
        return None
    values: Row = {":p": {"S": partition}}
    if narrowed:
        values[":b"] = {"S": most}
        if not least:
            return "pk = :p AND sk <= :b", values
        return "pk = :p AND sk BETWEEN :a AND :b", {**values, ":a": {"S": least}}
    if prefix:
        return "pk = :p AND begins_with(sk, :a)", {**values, ":a": {"S": prefix}}
    return "pk = :p", values


def _greatest(prefix: str) -> str:
    """The greatest sort key that begins with `prefix`."""
    left = MAX_SORT_BYTES - len(prefix.encode())
    return prefix + _LAST * (left // 4) + _FILL[left % 4]


def _valid(after: str) -> str:
    """A text that DynamoDB takes and that has the same sort keys below it as `after`, itself perhaps aside.

    A lone surrogate lies between U+D7FF and U+E000, above every character of one or two bytes. What comes after it,
    or after the greatest length of a sort key, decides nothing.
    """
    for at, character in enumerate(after):
        if "\ud800" <= character <= "\udfff":
            head = after[:at]
            left = MAX_SORT_BYTES - len(head.encode())
            if left >= 0:
                return _greatest(head + "\ud7ff" if left >= 3 else head)
            after = head
            break
    return after.encode()[:MAX_SORT_BYTES].decode(errors="ignore")
