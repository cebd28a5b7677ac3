"""The road between a service and its stores, which knows a file write's requests and a Turn's transactions.

Names of requests, as `plan` and `always` take them:

    intent publish settle over    the transactions of a write's attempt; `over` is "the attempt has ended" (11.19)
    fence                         the operator's, before it looks (11.23)
    head beat                     any other one of a Session, and one of a workspace alone
    read/<sort> list/<prefix>     GetItem and Query, by the first part of the sort: read/session, list/item
    put get …                     the object store's
    1 2 3 …                       with `numbered`: each of a Session's transactions, its repetitions included
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pytest

from tests.faults.proxy import Proxy, Request

SECONDS = 1.2
"""What one call of a port may take with all its repetitions, but for its last request."""
WAIT = 0.6
"""The clients' time-out for a part of an answer."""

_DIGEST = 64
"""Characters of the digest under which a key's record lies."""


def spread(rows: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Each row with two of the names in turn, so that every name meets many rows; with TEST_ALL each with each.

    A row is one parameter or a `pytest.param` of several; the name comes last.
    """
    whole = os.environ.get("TEST_ALL") == "1"
    found = []
    for place, row in enumerate(rows):
        values, ident = (row.values, row.id) if hasattr(row, "values") else ((row,), str(row))
        chosen = names if whole else [names[(2 * place + step) % len(names)] for step in range(2)]
        found += [pytest.param(*values, name, id=f"{ident}-{name}") for name in chosen]
    return found


class Road(Proxy):
    """A proxy that names requests after what the service wants by them."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.numbered = False
        self.tokens: dict[str, list[str]] = {}
        self.keys: list[str] = []
        self.order: list[str] = []

    def reset(self) -> None:
        """Forget all of it."""
        super().reset()
        self.numbered = False
        self.tokens, self.keys, self.order = {}, [], []

    def distinct(self, name: str) -> int:
        """How many transactions of a name have come, repetitions by the adapter not counted."""
        return len(self.tokens.get(name, []))

    def name(self, request: Request) -> str:
        """See Proxy.name."""
        operation = request.operation
        name = {"PutObject": "put", "GetObject": "get"}.get(operation, operation)
        if operation == "PutObject" and request.target not in self.keys:
            self.keys.append(request.target)
        body: dict[str, Any] = {} if not operation.startswith(("Tr", "Ge", "Qu")) or name == "get" else _body(request)
        if operation == "GetItem":
            sort = body["Key"]["sk"]["S"].partition("/")[0]
            name = "read/key" if len(sort) == _DIGEST else f"read/{sort}"
        elif operation == "Query":
            name = "list/" + _prefix(body)
        elif operation == "TransactWriteItems":
            name = self._transaction(body)
        self.order.append(name)
        return name

    def _transaction(self, body: dict[str, Any]) -> str:
        name = step(body["TransactItems"])
        token = body["ClientRequestToken"]
        if self.numbered and name != "beat":
            seen = self.tokens.setdefault("numbered", [])
            if token not in seen:
                seen.append(token)
            return str(seen.index(token) + 1)
        seen = self.tokens.setdefault(name, [])
        if token not in seen:
            seen.append(token)
        return name


def _body(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.body)
    return found


def _prefix(body: dict[str, Any]) -> str:
    texts = [one["S"] for one in body["ExpressionAttributeValues"].values() if "S" in one]
    return max((text for text in texts if not text.startswith("p/")), default="", key=len).partition("/")[0]


def step(members: list[dict[str, Any]]) -> str:
    """Which step of an attempt, or of something else, a transaction is."""
    sorts = {}
    for member in members:
        ((verb, said),) = member.items()
        sort = (said.get("Item") or said["Key"])["sk"]["S"].partition("/")[0]
        sorts[sort] = verb, "attribute_not_exists" in said["ConditionExpression"]
    if "write" in sorts:
        if "unsettled" not in sorts:
            return "publish"
        return "intent" if sorts["write"][1] else "settle"
    if "session" not in sorts:
        return "beat"
    if "head" in sorts and len(sorts) == 2:
        return "fence"
    return "over" if list(sorts) == ["session"] else "head"
