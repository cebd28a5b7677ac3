"""What every state adapter judges alike before it touches its store: actions, keys, attributes.

An item is measured by the text that `encode` makes, so that one item fits, or does not, in every adapter.
Nothing here does I/O.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shared.store.ports import (
    MAX_ITEM_BYTES,
    MAX_TRANSACT,
    MAX_TRANSACT_BYTES,
    Action,
    Attributes,
    ItemTooLarge,
    PutIf,
    PutNew,
    StoreUnavailable,
)

MAX_PARTITION_BYTES = 2048
"""UTF-8 of a partition key (DynamoDB's limit)."""
MAX_SORT_BYTES = 1024
"""UTF-8 of a sort key (DynamoDB's limit)."""
MAX_QUERY = 1000
"""Items of one `query`, objects of one `list`."""
_MAX_EXPIRY = 2**53


def encode(attributes: Attributes) -> str:
    """Attributes as compact JSON in ASCII, so that a lone surrogate and a NUL survive any store.

    Errors: ValueError where a value is not JSON (NaN and infinity are not), ItemTooLarge above MAX_ITEM_BYTES.
    """
    try:
        text = json.dumps(dict(attributes), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError("attributes are not JSON") from error
    if len(text) > MAX_ITEM_BYTES:
        raise ItemTooLarge(f"an item holds at most {MAX_ITEM_BYTES} bytes, not {len(text)}")
    return text


def encode_all(actions: Sequence[Action]) -> list[str]:
    """The text of each action's attributes, in order; empty for one that puts nothing.

    Errors: as `encode`, and ItemTooLarge above MAX_TRANSACT_BYTES in all.
    """
    texts = [encode(action.attributes) if isinstance(action, PutNew | PutIf) else "" for action in actions]
    total = sum(map(len, texts))
    if total > MAX_TRANSACT_BYTES:
        raise ItemTooLarge(f"a transaction puts at most {MAX_TRANSACT_BYTES} bytes, not {total}")
    return texts


def decode(text: object) -> dict[str, Any]:
    """The attributes of a stored text. Errors: StoreUnavailable where a store hands back anything else."""
    try:
        attributes = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise StoreUnavailable("an item is not JSON") from error
    if not isinstance(attributes, dict):
        raise StoreUnavailable("an item is not an object")
    return attributes


def key_bytes(text: str) -> bytes:
    """A key as it is ordered. A lone surrogate, which no stored key has, keeps its place and matches nothing."""
    return text.encode("utf-8", "surrogatepass")


def check_limit(limit: int) -> None:
    """ValueError unless 1 to MAX_QUERY."""
    if not 1 <= limit <= MAX_QUERY:
        raise ValueError(f"limit is 1 to {MAX_QUERY}")


def _check_key(name: str, text: str, most: int) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is not UTF-8") from error
    if not 1 <= size <= most:
        raise ValueError(f"{name} has 1 to {most} bytes")


def check_actions(actions: Sequence[Action]) -> None:
    """ValueError for none, too many, two on one item, a key that no store takes, an expiry that is no time."""
    if not 1 <= len(actions) <= MAX_TRANSACT:
        raise ValueError(f"a transaction has 1 to {MAX_TRANSACT} actions")
    if len({(action.partition, action.sort) for action in actions}) != len(actions):
        raise ValueError("two actions on one item")
    for action in actions:
        _check_key("partition", action.partition, MAX_PARTITION_BYTES)
        _check_key("sort", action.sort, MAX_SORT_BYTES)
        if (
            isinstance(action, PutNew | PutIf)
            and action.expires_at is not None
            and not 0 <= action.expires_at <= _MAX_EXPIRY
        ):
            raise ValueError("expires_at is epoch seconds")
