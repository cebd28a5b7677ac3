"""What HTTP adds to a typed operation of this contract: how its query is read, how large its body may be, how it waits.

    a list            raw query ── parent lookup ── cursor (the operation's)
    `parent_first`    parent lookup ── raw query ── cursor, as the contract has it for two lists
    anything else     its query is ignored
    POST              body gate ── parent lookup ── the operation's reader

Sources: agents.md 1.1, 1.4, 1.6, 1.7, 3.2, 6.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

from functions.api.agents import lists
from functions.api.agents.body import BODY_BYTES, FILE_BODY_BYTES, LARGE_BODY_BYTES
from functions.api.agents.files_query import read_list_query
from functions.api.agents.lists import Rules, read_files_query
from functions.api.agents.query import Pairs, pairs_of
from shared.agents_errors import Fault, Refusal

_KEY_BYTES = 128

WAITING = frozenset({"sources.complete_upload", "sessions.create", "environments.create_file"})
"""Operations that may wait long: they have threads of their own."""
BODILESS = frozenset({"sources.cancel_upload"})
"""POSTs whose body is not looked at."""
HEADLESS = frozenset({"environments.list_files"})
"""GETs that take no HEAD (agents.md 1.1, row 1c)."""
KEYED = frozenset({"sessions.create", "events.create"})
"""Operations that an Idempotency-Key names."""
BODIES = {"sessions.create": LARGE_BODY_BYTES, "environments.create_file": FILE_BODY_BYTES}
"""The largest bodies in bytes, where they are not those of every other operation."""


@dataclass(frozen=True, slots=True)
class Query:
    """How a list's query is read. `strict` refuses a malformed pair; else it is dropped."""

    read: Callable[[Pairs], dict[str, Any]]
    strict: bool = False
    parent_first: bool = False

    def members(self, raw: bytes) -> dict[str, Any]:
        """The input's members of a raw query. Errors: 400."""
        return self.read(pairs_of(raw, strict=self.strict))


def _by(rules: Rules) -> Callable[[Pairs], dict[str, Any]]:
    return lambda pairs: rules.read(pairs).members()


QUERIES: dict[str, Query] = {
    "sources.list": Query(lambda pairs: read_files_query(pairs).members()),
    "agents.list": Query(_by(lists.AGENTS)),
    "sessions.list": Query(_by(lists.SESSIONS)),
    "turns.list": Query(_by(lists.TURNS)),
    "turns.items": Query(_by(lists.ITEMS)),
    "subagents.list": Query(_by(lists.SUBAGENTS)),
    "items.list": Query(_by(lists.ITEMS)),
    "environments.list_files": Query(read_list_query, strict=True, parent_first=True),
    "artifacts.list": Query(_by(lists.ARTIFACTS), parent_first=True),
}
"""By the name of the operation."""


def body_bytes(name: str) -> int:
    """The largest body of an operation in bytes."""
    return BODIES.get(name, BODY_BYTES)


def idempotency_key(headers: Headers) -> str | None:
    """The `Idempotency-Key` of at most 128 bytes; an empty one is none. Errors: 400, also where it is sent twice."""
    values = headers.getlist("idempotency-key")
    if len(values) > 1:
        raise Refusal(Fault.LOCAL)
    key = values[0] if values else ""
    if len(key) > _KEY_BYTES or (key and key.isspace()):
        raise Refusal(Fault.LOCAL)
    return key or None
