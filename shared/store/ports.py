"""The two storage ports. Every adapter passes the same contract suite (tests/contract).

State: small versioned items, compare and swap (DESIGN §3). Objects: immutable bytes, never overwritten (§4).
All calls are synchronous and may be made from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

Attributes = Mapping[str, Any]
"""JSON values: str, int, float, bool, None, lists and string-keyed objects of these."""

MAX_ITEM_BYTES = 350_000
"""Attributes of one item as compact ASCII JSON (`items.encode`); DynamoDB's own limit is 400 KB with keys."""
MAX_TRANSACT = 100
"""Actions of one transaction (DynamoDB's limit)."""
MAX_TRANSACT_BYTES = 3_000_000
"""Attributes of all items that one transaction puts, as MAX_ITEM_BYTES measures; DynamoDB takes 4 MB, keys too."""


@dataclass(frozen=True, slots=True)
class Item:
    """A stored item. `version` is 1 after the first put and grows by one with each later put."""

    partition: str
    sort: str
    version: int
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PutNew:
    """Put an item that must not exist. `expires_at` (epoch seconds) only cleans up; rules compare in code."""

    partition: str
    sort: str
    attributes: Attributes
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class PutIf:
    """Replace an item that must be at `version`; it is then at `version + 1`."""

    partition: str
    sort: str
    version: int
    attributes: Attributes
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteIf:
    """Delete an item that must be at `version`."""

    partition: str
    sort: str
    version: int


@dataclass(frozen=True, slots=True)
class Check:
    """Require an item to be at `version`, or to be absent where `version` is None."""

    partition: str
    sort: str
    version: int | None


Action = PutNew | PutIf | DeleteIf | Check


@dataclass(frozen=True, slots=True)
class Loss:
    """An action whose condition did not hold: its place in the transaction and the item's present state."""

    index: int
    current: Item | None


class Conflict(Exception):
    """A transaction lost. Nothing of it was written. `losses` has every action whose condition failed."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = tuple(losses)
        super().__init__(f"{len(self.losses)} conditions failed")


class StoreUnavailable(Exception):
    """The store cannot be reached, or answered what cannot be interpreted.

    A write that ends so may have happened, whole, or may not: the store could not be asked which.
    """


class ItemTooLarge(ValueError):
    """An item above MAX_ITEM_BYTES, or a transaction above MAX_TRANSACT_BYTES: a fault of the caller of the port.

    Nothing is written.
    """


class State(Protocol):
    """Versioned items. `get` and `query` are strongly consistent.

    A partition key has 1 to 2,048 bytes of UTF-8, a sort key 1 to 1,024 (DynamoDB's limits). An item under any
    other text can be asked for and is not found; to write one is a ValueError.
    """

    def get(self, partition: str, sort: str) -> Item | None:
        """The item, or None."""

    def query(
        self,
        partition: str,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int = 100,
        descending: bool = False,
    ) -> list[Item]:
        """Items of one partition whose sort begins with `prefix`, in bytewise order of sort.

        `after` is exclusive and follows the direction. At most `limit` items (1 to 1,000).
        """

    def transact(self, actions: Sequence[Action]) -> list[int]:
        """All or nothing. Returns the version of each written item, in order (0 for a delete or a check).

        Errors: Conflict; StoreUnavailable; ItemTooLarge for an item above MAX_ITEM_BYTES or more than
        MAX_TRANSACT_BYTES in all; ValueError for none, more than MAX_TRANSACT, two actions on one item,
        attributes that are not JSON, a key or an expiry out of range. A fault of the caller comes before a Conflict.
        """

    def delete_partition(self, partition: str) -> None:
        """Delete every item of the partition. The caller has written a tombstone elsewhere or in it first."""

    def sweep(self, now: int) -> int:
        """Delete items whose `expires_at` lies before `now` (epoch seconds); how many. No-op where TTL does it."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of an object. `modified` is epoch seconds; `sha256` is hex, None where the store keeps none."""

    key: str
    size: int
    modified: float
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to read or write one key for a short time. `headers` must be sent with it, unchanged."""

    method: str
    url: str
    expires_at: int
    headers: dict[str, str] = field(default_factory=dict)


class ObjectExists(Exception):
    """The key holds an object already; it was not touched."""


class ObjectMissing(Exception):
    """No object has that key."""


class DigestMismatch(Exception):
    """The bytes do not have the digest that was claimed; nothing was stored."""


class Stage(Protocol):
    """Bytes on their way into the store: written in pieces, hashed as they come, invisible until committed.

    A context manager: leaving it without `commit` discards the bytes.
    """

    @property
    def size(self) -> int:
        """Bytes written so far."""

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes written so far."""

    def write(self, data: bytes) -> None:
        """Append."""

    def commit(self, key: str) -> None:
        """Store the bytes under `key`, durably. Errors: ObjectExists, StoreUnavailable."""

    def __enter__(self) -> Stage: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Objects(Protocol):
    """Immutable bytes under keys of `[A-Za-z0-9_-]` segments joined by `/`, at most 512 characters.

    Any other text is a key that no object has: missing where one reads, a ValueError where one writes.
    """

    def put_new(self, key: str, body: bytes, sha256: str) -> None:
        """Store, durably. Errors: ObjectExists, DigestMismatch, StoreUnavailable."""

    def stage(self) -> Stage:
        """Begin to store bytes whose size and digest are not known yet."""

    def read(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `start`, `length` of them or all, in pieces of at most 1 MiB.

        Fewer where the object ends before. ObjectMissing is raised by the call, before the first piece.
        """

    def head(self, key: str) -> ObjectInfo | None:
        """Size and age, or None."""

    def list(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> list[ObjectInfo]:
        """Objects whose key begins with `prefix`, in bytewise order; `after` is exclusive, `limit` 1 to 1,000.

        `sha256` may be None where `head` gives it.
        """

    def delete(self, key: str) -> None:
        """Delete; a missing one is fine. Only the janitor calls it."""

    def delete_prefix(self, prefix: str) -> int:
        """Delete all that begin with `prefix`, which ends with `/`; how many. Only the janitor calls it.

        Deletions that race may each count an object that they both found.
        """

    def grant_read(self, key: str, *, seconds: int) -> Grant:
        """Leave for an executor to read one object."""

    def grant_write(self, key: str, *, seconds: int) -> Grant:
        """Leave for an executor to create one object; the digest is not known yet."""
