"""The rules of a list's query, declared once for each list (agents.md 1.6).

duplicate key ── limit ── order ── [the caller of `read` looks the parent up] ── cursor
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from functions.api.agents.body import may_echo
from functions.api.agents.query import Pairs
from shared.agents_errors import Fault, Refusal

Order = Literal["asc", "desc"]
_DIGITS = re.compile(r"\+?[0-9]+", re.ASCII)
_INSIDE = re.compile(r"([a-z_]+)\[([^\[\]]+)\]", re.DOTALL)
_MOST = 2**63 - 1
_BROKEN = "Failed to deserialize query string: "


@dataclass(frozen=True, slots=True)
class Page:
    """What a list was asked for. `after` has no white space around it and is None where it was not sent."""

    limit: int
    order: Order
    after: str | None
    filters: dict[str, str] = field(default_factory=dict)
    maps: dict[str, dict[str, str]] = field(default_factory=dict)

    def members(self) -> dict[str, Any]:
        """The same as members of an operation's input; what was not sent is left out."""
        after = {} if self.after is None else {"after": self.after}
        return {"limit": self.limit, "order": self.order, **after, **self.filters, **self.maps}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one list. A limit out of range is refused where `strict`, else clamped.

    `filters` are the keys that it takes besides `after`, `limit` and `order`, `maps` those of which it takes
    `name[key]`, one bracket that is not empty. Any other key is ignored.
    """

    strict: bool
    filters: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    most: int = 100
    default: int = 20

    def read(self, pairs: Pairs) -> Page:
        """Read a query. Errors: 400."""
        given: dict[str, str] = {}
        maps: dict[str, dict[str, str]] = {}
        for name, value in pairs:
            inside = _INSIDE.fullmatch(name)
            if name not in ("after", "limit", "order", *self.filters) and not (inside and inside[1] in self.maps):
                continue
            if name in given:
                raise Refusal(Fault.INVALID, f"{_BROKEN}duplicate field `{name if may_echo(name) else '...'}`")
            given[name] = value
            if inside:
                maps.setdefault(inside[1], {})[inside[2]] = value
        limit = self._limit(given.get("limit"))
        order = _order(given.get("order"))
        after = given["after"].strip() if "after" in given else None
        return Page(limit, order, after, {name: given[name] for name in self.filters if name in given}, maps)

    def _limit(self, text: str | None) -> int:
        if text is None:
            return self.default
        if not _DIGITS.fullmatch(text):
            raise Refusal(Fault.INVALID, f"{_BROKEN}limit: invalid digit found in string")
        digits = text.lstrip("+").lstrip("0") or "0"
        if len(digits) > 19 or int(digits) > _MOST:
            raise Refusal(Fault.INVALID, f"{_BROKEN}limit: number too large to fit in target type")
        limit = int(digits)
        if 1 <= limit <= self.most:
            return limit
        if self.strict:
            raise Refusal(Fault.INVALID, f"limit must be between 1 and {self.most}")
        return min(max(limit, 1), self.most)


def _order(text: str | None) -> Order:
    if text is None or text == "desc":
        return "desc"
    if text == "asc":
        return "asc"
    shown = text if may_echo(text) else "..."
    raise Refusal(Fault.INVALID, f"{_BROKEN}order: unknown variant `{shown}`, expected `asc` or `desc`")


TURNS = Rules(strict=True)
ARTIFACTS = Rules(strict=True, filters=("environment_id",))
SUBAGENTS = Rules(strict=True)
SESSIONS = Rules(strict=False, filters=("agent_id",), maps=("metadata",))
ITEMS = Rules(strict=False)
AGENTS = Rules(strict=False)
TEMPLATES = Rules(strict=False)

FILES_MOST = 10_000
_FILES_RANGE = f"limit must be between 1 and {FILES_MOST}."


def read_files_query(pairs: Pairs) -> Page:
    """The query of `GET /files`, whose errors are its own: duplicate, limit, order. Errors: 400."""
    given: dict[str, str] = {}
    for name, value in pairs:
        if name not in ("after", "limit", "order", "purpose"):
            continue
        if name in given:
            raise Refusal(Fault.REPEATED, param=name)
        given[name] = value
    limit = FILES_MOST
    if "limit" in given:
        text = given["limit"]
        if not re.fullmatch(r"[+-]?[0-9]{1,4000}", text, re.ASCII):
            raise Refusal(Fault.LOCAL, _FILES_RANGE)
        limit = int(text)
        if not 1 <= limit <= FILES_MOST:
            raise Refusal(Fault.UNCODED, _FILES_RANGE)
    order: Order = "desc"
    if "order" in given:
        if given["order"] not in ("asc", "desc"):
            raise Refusal(Fault.UNCODED, "order must be asc or desc.")
        order = "asc" if given["order"] == "asc" else "desc"
    after = given["after"].strip() if "after" in given else None
    return Page(limit, order, after, {"purpose": given["purpose"]} if "purpose" in given else {})
