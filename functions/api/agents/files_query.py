"""The query of an Environment's file list, rows 3 to 6 of its table (agents.md 3.2). Row 2 is `pairs_of(strict=True)`.

duplicate path, limit, order, page ── limit ── order ── [the operation: path ── page ── state]
"""

from __future__ import annotations

from typing import Any

from functions.api.agents.lists import Rules
from functions.api.agents.query import Pairs
from shared.agents_errors import Fault, Refusal

_KEYS = ("path", "limit", "order", "page")
"""In the order in which a repeated one is reported. Any other key is ignored, however often it comes."""
_RULES = Rules(strict=True)


def read_list_query(pairs: Pairs) -> dict[str, Any]:
    """The members `limit` and `order`, and `path` and `page` where they were sent, as they stand. Errors: 400."""
    given: dict[str, str] = {}
    twice: set[str] = set()
    for name, value in pairs:
        if name in given:
            twice.add(name)
        if name in _KEYS:
            given[name] = value
    for name in _KEYS:
        if name in twice:
            raise Refusal(Fault.INVALID, f"Failed to deserialize query string: duplicate field `{name}`")
    page = _RULES.read([(name, given[name]) for name in ("limit", "order") if name in given])
    return {
        "limit": page.limit,
        "order": page.order,
        **{name: _text(given[name]) for name in ("path", "page") if name in given},
    }


def _text(value: str) -> str:
    """A value as the operation takes it: what is no UTF-8 becomes a NUL, which no path and no token has (row 7a)."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return "\0"
    return value
