"""The rules of lists as they are declared: messages, order of checks, raw queries (agents.md 1.6)."""

from __future__ import annotations

import pytest

from functions.api.agents import lists
from functions.api.agents.lists import Rules
from functions.api.agents.query import pairs_of
from shared.agents_errors import Fault, Refusal

BROKEN = "Failed to deserialize query string: "
DIGIT = f"{BROKEN}limit: invalid digit found in string"
LARGE = f"{BROKEN}limit: number too large to fit in target type"
ALL = [lists.TURNS, lists.ARTIFACTS, lists.SUBAGENTS, lists.SESSIONS, lists.ITEMS, lists.AGENTS, lists.TEMPLATES]


def order(value: str) -> str:
    return f"{BROKEN}order: unknown variant `{value}`, expected `asc` or `desc`"


@pytest.mark.parametrize("rules", ALL)
@pytest.mark.parametrize(
    ("query", "message"),
    [
        (b"limit=", DIGIT), (b"limit=-1", DIGIT), (b"limit=+5", DIGIT), (b"limit=x", DIGIT), (b"limit=1.0", DIGIT),
        (b"limit=%D9%A1", DIGIT), (b"limit=%2B", DIGIT), (b"limit", DIGIT),
        (b"limit=9223372036854775808", LARGE), (b"limit=" + b"9" * 3_000, LARGE),
        (b"order=", order("")), (b"order=ASC", order("ASC")), (b"order=up", order("up")),
        (b"limit=1&limit=1", f"{BROKEN}duplicate field `limit`"),
        (b"after=a&after=b", f"{BROKEN}duplicate field `after`"),
        (b"order=up&order=up&limit=x", f"{BROKEN}duplicate field `order`"),
        (b"order=up&limit=x", DIGIT),
    ],
)  # fmt: skip
def test_what_every_list_refuses(rules: Rules, query: bytes, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        rules.read(pairs_of(query))
    assert (refused.value.fault, refused.value.message, refused.value.param) == (Fault.INVALID, message, None)


@pytest.mark.parametrize("rules", ALL)
@pytest.mark.parametrize(
    ("query", "limit", "direction", "after"),
    [
        (b"", 20, "desc", None), (b"limit=%2B5", 5, "desc", None), (b"limit=007", 7, "desc", None),
        (b"limit=1", 1, "desc", None), (b"limit=100&order=asc", 100, "asc", None),
        (b"after=%20a%09", 20, "desc", "a"), (b"after=", 20, "desc", ""), (b"unknown=1&unknown=2", 20, "desc", None),
        (b"limit=%GG&limit=3", 3, "desc", None), (b"limit=1;order=up", 20, "desc", None),
        (b"&&limit=2&", 2, "desc", None),
        (b"li%6Dit=4", 4, "desc", None), (b"Limit=4", 20, "desc", None),
    ],
)  # fmt: skip
def test_what_every_list_takes(rules: Rules, query: bytes, limit: int, direction: str, after: str | None) -> None:
    page = rules.read(pairs_of(query))
    assert (page.limit, page.order, page.after) == (limit, direction, after)


@pytest.mark.parametrize("rules", ALL)
@pytest.mark.parametrize(("sent", "clamped"), [("0", 1), ("101", 100), ("9223372036854775807", 100)])
def test_a_limit_out_of_range_is_refused_by_some_and_clamped_by_others(rules: Rules, sent: str, clamped: int) -> None:
    query = pairs_of(f"limit={sent}".encode())
    if rules in (lists.TURNS, lists.ARTIFACTS, lists.SUBAGENTS):
        with pytest.raises(Refusal) as refused:
            rules.read(query)
        assert refused.value.message == "limit must be between 1 and 100"
    else:
        assert rules.read(query).limit == clamped


def test_filters_are_kept_apart_from_what_is_not_sent() -> None:
    assert lists.SESSIONS.read(pairs_of(b"agent_id=")).filters == {"agent_id": ""}
    assert lists.SESSIONS.read(pairs_of(b"")).filters == {}


@pytest.mark.parametrize("query", [b"a=%GG", b"a;b=1", b"a=1;b=2", b"%=1"])
def test_a_strict_query_refuses_what_a_shared_one_drops(query: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        pairs_of(query, strict=True)
    assert refused.value.fault is Fault.LOCAL
    assert pairs_of(query) in ([], [("a", "\ufffd")])
