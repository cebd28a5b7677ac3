"""Every list over the wire: each row of its query with its exact sentence, its pages, its filters (agents.md 1.6)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.agents.talking import AGENTS, SESSIONS, Talk, Things, check_error, check_missing

S = SESSIONS + "/{s}"
TURNS, ITEMS, TURN_ITEMS = S + "/turns", S + "/items", S + "/turns/{t}/items"
SUBAGENTS, ARTIFACTS = S + "/subagents", S + "/artifacts"
LISTS = [AGENTS, SESSIONS, TURNS, ITEMS, TURN_ITEMS, SUBAGENTS, ARTIFACTS]
STRICT = [TURNS, SUBAGENTS, ARTIFACTS]
BELOW = [TURNS, ITEMS, TURN_ITEMS, SUBAGENTS, ARTIFACTS]
CURSOR = {
    ITEMS: "Invalid session item ID in `after`", TURN_ITEMS: "Invalid session item ID in `after`",
    ARTIFACTS: "after is not a valid artifact ID", SUBAGENTS: "Invalid resource ID in `after`",
}  # fmt: skip
"""What a list says of a cursor that names nothing; the others say 404."""
BROKEN = "Failed to deserialize query string: "
DIGIT = BROKEN + "limit: invalid digit found in string"
LARGE = BROKEN + "limit: number too large to fit in target type"
RANGE = "limit must be between 1 and 100"


def order(value: str) -> str:
    return f"{BROKEN}order: unknown variant `{value}`, expected `asc` or `desc`"


def twice(name: str) -> str:
    return f"{BROKEN}duplicate field `{name}`"


REFUSED = [
    ("limit=", DIGIT), ("limit", DIGIT), ("limit=-1", DIGIT), ("limit=+5", DIGIT), ("limit=x", DIGIT),
    ("limit=1.0", DIGIT), ("limit=%205", DIGIT), ("limit=9223372036854775808", LARGE), ("limit=" + "9" * 400, LARGE),
    ("order=", order("")), ("order", order("")), ("order=ASC", order("ASC")), ("order=%C3%A9", order("é")),
    ("limit=1&limit=1", twice("limit")), ("order=asc&order=asc", twice("order")), ("after=&after=", twice("after")),
    ("after=nothing&order=asc&limit=1&limit=", twice("limit")),
    ("after=nothing&order=up&limit=x", DIGIT), ("after=nothing&order=up", order("up")),
]  # fmt: skip
"""Each also ranks the checks: duplicate, limit, order, cursor."""
TAKEN = [
    "limit=%2B20", "limit=0020", "unknown=1&unknown=2&Limit=x", "limit=%GG&order=%zz", "limit=x;y", "order=up;limit=0",
    "tenant_id=second", "page=x&path=y", "&&=&",
]  # fmt: skip


def check_cursor(talk: Talk, path: str, target: str) -> None:
    """The answer of this list to a cursor that names nothing of it."""
    answer = talk.ask("GET", target)
    if path in CURSOR:
        check_error(answer, 400, CURSOR[path])
    else:
        check_missing(answer)


@pytest.mark.parametrize("path", LISTS)
def test_each_fault_of_a_query_has_its_sentence_and_its_rank(talk: Talk, things: Things, path: str) -> None:
    for query, text in REFUSED:
        check_error(talk.ask("GET", f"{things.at(path)}?{query}"), 400, text)


@pytest.mark.parametrize("path", LISTS)
def test_what_is_unknown_or_malformed_is_dropped(talk: Talk, things: Things, path: str) -> None:
    expected = talk.ask("GET", things.at(path)).body
    for query in TAKEN:
        answer = talk.ask("GET", f"{things.at(path)}?{query}")
        assert (answer.status, answer.body) == (200, expected), query


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", ["0", "101", "9223372036854775807"])
def test_a_limit_out_of_range_is_refused_or_clamped(talk: Talk, things: Things, path: str, limit: str) -> None:
    answer = talk.ask("GET", f"{things.at(path)}?limit={limit}")
    if path in STRICT:
        check_error(answer, 400, RANGE)
        check_error(talk.ask("GET", f"{things.at(path)}?limit={limit}&order=up"), 400, RANGE)
        return
    assert answer.status == 200
    assert answer.body == talk.ask("GET", f"{things.at(path)}?limit={'1' if limit == '0' else '100'}").body


@pytest.mark.parametrize("path", BELOW)
def test_a_bad_query_of_a_missing_parent_is_told_first_but_of_artifacts(
    talk: Talk, things: Things, foreign: Things, path: str
) -> None:
    for one in (things.unknown(), foreign):
        for query, text in REFUSED:
            answer = talk.ask("GET", f"{one.at(path)}?{query}")
            if path == ARTIFACTS:
                check_missing(answer)
            else:
                check_error(answer, 400, text)
        check_missing(talk.ask("GET", f"{one.at(path)}?after=nothing"))


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_names_something_of_the_same_list(talk: Talk, things: Things, foreign: Things, path: str) -> None:
    """Unknown, malformed, foreign ids, and ids of other kinds have one answer."""
    for ident in ("", "x", "%00", "%ff", "x" * 400, *vars_of(things.unknown()), *vars_of(foreign)):
        check_cursor(talk, path, f"{things.at(path)}?after={ident}")
    kinds = {AGENTS: things.agent, SESSIONS: things.session, TURNS: things.turn, ITEMS: things.item,
             TURN_ITEMS: things.item, ARTIFACTS: things.artifact}  # fmt: skip
    for ident in vars_of(things):
        if ident != kinds.get(path):
            check_cursor(talk, path, f"{things.at(path)}?after={ident}")


def vars_of(things: Things) -> list[str]:
    return [things.session, things.environment, things.turn, things.item, things.artifact, things.agent]


@pytest.mark.parametrize("path", [TURNS, ITEMS, ARTIFACTS])
def test_a_cursor_of_another_session_is_none(talk: Talk, things: Things, path: str) -> None:
    other = Things.made(talk)
    ident = {TURNS: other.turn, ITEMS: other.item, ARTIFACTS: other.artifact}[path]
    assert talk.ask("GET", f"{other.at(path)}?after={ident}").status == 200
    check_cursor(talk, path, f"{things.at(path)}?after={ident}")


def check_pages(talk: Talk, target: str, expected: list[str]) -> None:
    """A list gives these ids, newest first by default, in pages that lead on by `after`."""
    joint = "&" if "?" in target else "?"
    for direction, ids in (("", expected[::-1]), ("&order=desc", expected[::-1]), ("&order=asc", expected)):
        whole = talk.get(f"{target}{joint}limit=100{direction}")
        assert [row["id"] for row in whole["data"]] == ids
        assert (whole["object"], whole["first_id"], whole["last_id"]) == ("list", ids[0], ids[-1])
        assert whole["has_more"] is False
        assert set(whole) == {"object", "data", "first_id", "last_id", "has_more"}
        found: list[Any] = []
        after = ""
        while True:
            page = talk.get(f"{target}{joint}limit=2{direction}{after}")
            rows = [row["id"] for row in page["data"]]
            assert (page["first_id"], page["last_id"]) == (rows[0], rows[-1])
            assert page["has_more"] is (len(found) + len(rows) < len(ids))
            found += rows
            if not page["has_more"]:
                break
            assert len(rows) == 2
            after = f"&after=%20%09{page['last_id']}+"
        assert found == ids
        end = talk.get(f"{target}{joint}limit=1{direction}&after={ids[-1]}")
        assert end == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_pages_of_turns_items_and_artifacts(talk: Talk) -> None:
    session = talk.create()["id"]
    turns = [talk.done(session, write={f"outputs/{name}": name})["id"] for name in "abc"]
    where = f"{SESSIONS}/{session}"
    check_pages(talk, f"{where}/turns", turns)
    items = talk.data(f"{where}/items?order=asc")
    assert [row["turn_id"] for row in items] == [turn for turn in turns for _ in range(3)]
    check_pages(talk, f"{where}/items", [row["id"] for row in items])
    for turn in turns:
        check_pages(talk, f"{where}/turns/{turn}/items", [row["id"] for row in items if row["turn_id"] == turn])
    artifacts = talk.data(f"{where}/artifacts?order=asc")
    assert [row["turn_id"] for row in artifacts] == turns
    check_pages(talk, f"{where}/artifacts", [row["id"] for row in artifacts])
    crossed = f"{where}/turns/{turns[0]}/items?after="
    check_error(talk.ask("GET", crossed + items[-1]["id"]), 400, CURSOR[TURN_ITEMS])


def test_pages_and_filters_of_sessions(talk: Talk) -> None:
    agent = json.loads(talk.post(AGENTS, {"model": "program:py"}).body)["id"]
    hosted = {"agent_id": agent, "environment": {"type": "openai_hosted"}}
    pairs = [{"a": "1"}, {"a": "1", "b c": "é&="}, {"a": "2"}, {}]
    made = []
    for metadata in pairs:
        answer = talk.post(SESSIONS, {**hosted, "metadata": metadata})
        assert answer.status == 201, answer.body
        made.append(json.loads(answer.body)["id"])
    mine = f"{SESSIONS}?agent_id={agent}"
    check_pages(talk, mine, made)
    check_pages(talk, f"{mine}&metadata%5Ba%5D=1", made[:2])
    check_pages(talk, f"{mine}&metadata[a]=1&metadata[b%20c]={quote('é&=')}", made[1:2])
    assert talk.data(f"{mine}&metadata[a]=1&metadata[b%20c]=") == []
    assert talk.data(f"{mine}&metadata[a]=") == []
    assert len(talk.data(f"{mine}&metadata=1&metadata[]=1&metadata[a][b]=1")) == 4
    assert talk.data(f"{SESSIONS}?agent_id=") == []
    assert talk.data(f"{SESSIONS}?agent_id={agent}x") == []
    check_error(talk.ask("GET", f"{mine}&agent_id={agent}"), 400, twice("agent_id"))
    check_error(talk.ask("GET", f"{mine}&metadata[a]=1&metadata%5ba%5d=1"), 400, twice("metadata[a]"))


def test_a_cursor_outside_the_filter_still_leads_on(talk: Talk) -> None:
    first, second = talk.create(metadata={"k": "in"})["id"], talk.create(metadata={"k": "out"})["id"]
    page = talk.get(f"{SESSIONS}?metadata[k]=in&after={second}&limit=1")
    assert [row["id"] for row in page["data"]] == [first]


def test_pages_of_agents(stranger: Talk, foreign: Things) -> None:
    """The second project has no agents but these."""
    made = [foreign.agent]
    for name in ("b", "c"):
        made.append(json.loads(stranger.post(AGENTS, {"model": "program:py", "name": name}).body)["id"])
    check_pages(stranger, AGENTS, made)
    for ident in made[1:]:
        assert stranger.ask("DELETE", f"{AGENTS}/{ident}").status == 200


def deleted(talk: Talk) -> dict[str, tuple[str, str]]:
    """The address of each list, and the id of something that was in it."""
    session = talk.create()["id"]
    talk.done(session, write={"outputs/a": "a"})
    where = f"{SESSIONS}/{session}/artifacts"
    artifact = talk.data(where)[0]["id"]
    agent = json.loads(talk.post(AGENTS, {"model": "program:py"}).body)["id"]
    gone = talk.create()["id"]
    for target in (f"{where}/{artifact}", f"{AGENTS}/{agent}", f"{SESSIONS}/{gone}"):
        assert talk.ask("DELETE", target).status == 200
    return {ARTIFACTS: (where, artifact), AGENTS: (AGENTS, agent), SESSIONS: (SESSIONS, gone)}


def test_what_was_deleted_is_no_cursor(talk: Talk) -> None:
    for path, (target, ident) in deleted(talk).items():
        check_cursor(talk, path, f"{target}?after={ident}")


def test_the_filter_of_artifacts(talk: Talk, things: Things, foreign: Things) -> None:
    where = things.at(ARTIFACTS)
    whole = talk.get(where)
    assert len(whole["data"]) == 1
    assert talk.get(f"{where}?environment_id={things.environment}") == whole
    assert talk.get(f"{where}?environment_id=") == whole
    empty: dict[str, Any] = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    for ident in (foreign.environment, "x", "%00", things.session, things.unknown().environment):
        target = f"{where}?environment_id={ident}"
        assert talk.get(target) == empty
        assert talk.get(f"{target}&after={things.artifact}") == empty
        check_error(talk.ask("GET", f"{target}&after=x"), 400, CURSOR[ARTIFACTS])
        check_error(talk.ask("GET", f"{target}&limit=0"), 400, RANGE)
        check_error(talk.ask("GET", f"{target}&environment_id="), 400, twice("environment_id"))


def test_a_single_resource_ignores_its_query(talk: Talk, things: Things) -> None:
    for path in (AGENTS + "/{a}", S, S + "/turns/{t}", S + "/artifacts/{x}", S + "/artifacts/{x}/content"):
        expected = talk.ask("GET", things.at(path))
        answer = talk.ask("GET", things.at(path) + "?limit=x&limit=y&order=&%GG;after=z")
        assert (answer.status, answer.body) == (200, expected.body)


SDK_LISTS: dict[str, Callable[[Any, str, str], Any]] = {
    "sessions": lambda agents, session, turn: agents.sessions.list,
    "turns": lambda agents, session, turn: lambda **more: agents.sessions.turns.list(session, **more),
    "items": lambda agents, session, turn: lambda **more: agents.sessions.items.list(session, **more),
    "turn items": lambda agents, session, turn: (
        lambda **more: agents.sessions.turns.items.list(turn, session_id=session, **more)
    ),
    "artifacts": lambda agents, session, turn: lambda **more: agents.sessions.artifacts.list(session, **more),
    "agents": lambda agents, session, turn: agents.list,
}


@pytest.mark.parametrize("name", SDK_LISTS)
def test_the_client_walks_every_list(talk: Talk, sdk: Any, name: str) -> None:
    session = talk.create(agent={"model": "program:py"})["id"]
    script = {"write": {f"outputs/{name}": name for name in "abc"}}
    turns = [talk.done(session, **script)["id"] for _ in range(3)]
    for _ in range(2):
        assert talk.post(AGENTS, {"model": "program:py"}).status == 201
    walk = SDK_LISTS[name](sdk.beta.agents, session, turns[0])
    whole = [row.id for row in walk(limit=100, order="asc")]
    assert len(whole) >= 2
    assert [row.id for row in walk(limit=1 if len(whole) < 9 else 7, order="asc")] == whole
    assert [row.id for row in walk(limit=2 if len(whole) < 9 else 9)] == whole[::-1]


def test_the_client_sees_no_subagents(sdk: Any, things: Things) -> None:
    assert list(sdk.beta.agents.sessions.subagents.list(things.session)) == []


def test_the_default_page_has_twenty_rows_of_a_long_list(talk: Talk) -> None:
    session = talk.create()["id"]
    talk.done(session, write={f"outputs/{number}": "x" for number in range(25)})
    page = talk.get(f"{SESSIONS}/{session}/artifacts")
    assert (len(page["data"]), page["has_more"]) == (20, True)


def test_a_session_of_the_list_is_the_session(talk: Talk, things: Things) -> None:
    (row,) = talk.data(f"{SESSIONS}?agent_id={talk.get(things.at(S))['agent']['id']}")
    assert row == talk.get(things.at(S))
