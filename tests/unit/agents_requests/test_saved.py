"""Saved agents: their wire, their rules, and what becomes of a large one (agents.md 1.6, 11.17, 11.27)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openai.types.beta.agent import Agent
from openai.types.beta.agent_deleted import AgentDeleted

from shared.agents_errors import Refusal
from shared.domain.agents import ids
from shared.operations.agents import saved
from shared.operations.base import Operation
from shared.operations.janitor import sweep
from shared.operations.keys import put_key
from shared.operations.workspace import grace_ms
from shared.store.ports import PutIf
from tests.fakes import House
from tests.unit.agents_requests.refusing import expect_refused

MODEL = {"model": "program:py"}
LARGE = "x" * 40_000


def do(house: House, operation: Any, data: dict[str, Any], project: str = "one") -> Any:
    """Run an operation as the door does."""
    declared: Operation[Any, Any] = operation
    return declared.call_with(house.room, house.call(project), data)


def create(house: House, **members: Any) -> str:
    made: str = do(house, saved.create_agent, {**MODEL, **members}).id
    house.clock.forward(1)
    return made


def expect_missing(run: Callable[[], Any]) -> None:
    with pytest.raises(Refusal) as caught:
        run()
    assert caught.value.status == 404
    assert caught.value.envelope()["error"] == {
        "message": "Resource not found.", "type": "not_found_error", "code": "not_found_error", "param": None,
    }  # fmt: skip


def test_an_agent_from_creation_to_deletion_is_the_clients(house: House) -> None:
    made = do(house, saved.create_agent, {**MODEL, "name": "n", "metadata": {"a": "b"}})
    assert saved.create_agent.status == 201
    assert ids.is_id(made.id, "agent")
    wire = Agent.model_validate(made.model_dump(), strict=True)
    assert (wire.model, wire.name, wire.metadata, wire.tools) == ("program:py", "n", {"a": "b"}, [])
    assert wire.created_at == wire.updated_at == house.clock.now // 1000
    house.clock.forward(5_000)
    changed = do(house, saved.update_agent, {"agent_id": made.id, "instructions": "i", "metadata": None})
    assert (changed.instructions, changed.metadata, changed.name) == ("i", {}, "n")
    assert (changed.created_at, changed.updated_at) == (made.created_at, made.created_at + 5)
    assert do(house, saved.get_agent, {"agent_id": made.id}) == changed
    gone = do(house, saved.delete_agent, {"agent_id": made.id}).model_dump()
    assert gone == {"id": made.id, "object": "agent.deleted", "deleted": True}
    AgentDeleted.model_validate(gone, strict=True)
    expect_missing(lambda: do(house, saved.get_agent, {"agent_id": made.id}))
    expect_missing(lambda: do(house, saved.delete_agent, {"agent_id": made.id}))


def test_null_resets_a_member_and_what_is_not_sent_stays(house: House) -> None:
    ident = create(house, name="n", instructions="i", text={"verbosity": "low"}, reasoning={"effort": "low"})
    changed = do(house, saved.update_agent, {"agent_id": ident, "name": None, "reasoning": None, "model": None})
    assert (changed.name, changed.instructions, changed.model) == (None, "i", "program:py")
    assert changed.reasoning == {"effort": None, "summary": None}
    assert changed.text["verbosity"] == "low"


ROWS = [
    ({}, "Missing required parameter: 'model'.", "model"),
    ({"foo": 1}, "Unknown parameter: 'foo'.", "foo"),
    ({"agent_id": "a", **MODEL}, "Unknown parameter: 'agent_id'.", "agent_id"),
    ({**MODEL, "metadata": 1, "tools": 1}, "Invalid type for 'tools': expected an array, but got an integer instead.",
     "tools"),
    ({**MODEL, "metadata": 1}, "Invalid type for 'metadata': expected an object, but got an integer instead.",
     "metadata"),
    ({**MODEL, "tools": [{"type": "mcp"}]},
     "Unsupported value for 'tools[0].type': the tool 'mcp' is not available.", "tools[0].type"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message", "param"), ROWS, ids=range(len(ROWS)))
def test_a_definition_is_refused_by_its_own_paths(house: House, body: dict[str, Any], message: str, param: str) -> None:
    expect_refused(lambda: do(house, saved.create_agent, body), message, param)


def test_an_update_looks_the_agent_up_first_and_changes_something(house: House) -> None:
    ident = create(house)
    expect_missing(lambda: do(house, saved.update_agent, {"agent_id": "agent_x", "foo": 1}))
    expect_missing(lambda: do(house, saved.update_agent, {"agent_id": ident, "foo": 1}, "two"))
    change: Callable[..., Any] = lambda **data: do(house, saved.update_agent, {"agent_id": ident, **data})  # noqa: E731
    expect_refused(change, "At least one update field is required", None)
    expect_refused(lambda: change(foo=1), "Unknown parameter: 'foo'.", "foo")


def test_lists_are_of_one_project_in_order_clamped_and_page_by_page(house: House) -> None:
    made = [create(house) for _ in range(3)]
    foreign = do(house, saved.create_agent, MODEL, "two").id
    listed: Callable[..., Any] = lambda **data: do(house, saved.list_agents, data)  # noqa: E731
    assert [one.id for one in listed().data] == made[::-1]
    first = listed(limit=2, order="asc")
    assert ([one.id for one in first.data], first.first_id, first.last_id, first.has_more) == (
        made[:2], made[0], made[1], True,
    )  # fmt: skip
    second = listed(limit=2, order="asc", after=first.last_id)
    assert ([one.id for one in second.data], second.has_more) == (made[2:], False)
    assert len(listed(limit=0).data) == 1
    assert len(listed(limit=1_000).data) == 3
    empty = listed(after=made[0])
    assert (empty.data, empty.first_id, empty.last_id, empty.has_more) == ([], None, None, False)
    for after in ("", "x", foreign, ids.new("agent", bytes, ids.stamp(0))):
        expect_missing(lambda after=after: listed(after=after))  # type: ignore[misc]


def test_a_large_definition_is_an_object_that_goes_when_nothing_points_at_it(house: House) -> None:
    put_key(house.room, "one", {"id": "one", "project": "one", "name": "", "created": 0, "until": None})
    ident = create(house, instructions=LARGE)
    old = [info.key for info in house.objects.list(f"p/one/agent/{ident}/")]
    assert len(old) == 1
    assert do(house, saved.get_agent, {"agent_id": ident}).instructions == LARGE
    do(house, saved.update_agent, {"agent_id": ident, "instructions": LARGE + "y"})
    house.objects.see()
    house.clock.forward(grace_ms(house.room) + 1_000)
    sweep(house.room)
    left = [info.key for info in house.objects.list(f"p/one/agent/{ident}/")]
    assert len(left) == 1
    assert left != old
    assert do(house, saved.get_agent, {"agent_id": ident}).instructions == LARGE + "y"
    do(house, saved.delete_agent, {"agent_id": ident})
    sweep(house.room)
    assert house.objects.list(f"p/one/agent/{ident}/") == []


def test_two_changes_at_once_are_both_kept(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ident = create(house, name="n")
    put = saved._row
    raced: list[str] = []

    def row(*args: Any) -> dict[str, Any]:
        if not raced:
            raced.append("once")
            item = saved.find_agent(house.room, "one", ident)
            other = {**item.attributes, "value": {**item.attributes["value"], "name": "other"}}
            house.state.transact([PutIf(item.partition, item.sort, item.version, other)])
        return put(*args)

    monkeypatch.setattr(saved, "_row", row)
    changed = do(house, saved.update_agent, {"agent_id": ident, "instructions": "i"})
    assert (raced, changed.name, changed.instructions) == (["once"], "other", "i")


def test_a_session_takes_the_definition_with_its_id_and_without_metadata(house: House) -> None:
    ident = create(house, metadata={"a": "b"}, name="n")
    taken = saved.saved_definition(house.room, "one", ident)
    assert (taken["id"], taken["name"], "metadata" in taken) == (ident, "n", False)
    expect_missing(lambda: saved.saved_definition(house.room, "two", ident))
