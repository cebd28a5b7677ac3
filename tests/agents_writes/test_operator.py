"""What an operator sees of unsettled writes and does to them (agents.md 11.23)."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from shared.domain.agents.lifecycle import deleted
from shared.domain.session import Owner
from shared.operations import janitor
from shared.operations.base import operations
from tests.agents_writes.desk import Answer, Desk, make_session
from tests.unit.agents.trees import file, folder, link, tree

MISSING = Answer(404, "not_found", "No such unsettled write.")


def lost(desk: Desk, path: str = "/workspace/a.txt", came: str = "before") -> str:
    """A write that stays unsettled; its id."""
    desk.state.plan["publish"] = came
    assert desk.create(path).status == 503
    desk.state.away = False
    write = desk.head().write
    assert write is not None
    return write.write


def test_nothing_is_listed_where_nothing_is_unsettled(desk: Desk) -> None:
    assert desk.create().status == 201
    assert desk.ask("writes.list").body == {"writes": []}


def test_all_of_a_write_is_shown(anywhere: Desk) -> None:
    ident = lost(anywhere)
    shown = {
        "id": ident,
        "project": "one",
        "session": anywhere.session,
        "path": "a.txt",
        "size": 5,
        "sha256": hashlib.sha256(b"bytes").hexdigest(),
        "since": "2027-01-15T08:00:00.000Z",
        "in_flight": False,
        "fence": 1,
        "workspace_fence": 1,
    }
    assert anywhere.ask("writes.get", {"id": ident}).body == shown
    assert anywhere.ask("writes.list").body == {"writes": [shown]}


def test_what_stands_at_the_path_now_is_shown(desk: Desk) -> None:
    desk.fill(*tree(folder("d"), folder("d/sub"), link("to_d", "d"), link("d/l", "x"), file("f")))
    for path, present in (
        ("to_d/sub", {"kind": "dir"}),
        ("d/l", {"kind": "link"}),
        ("f", {"kind": "file", "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}),
        ("f/below", None),
        ("new/deep", None),
    ):
        ident = lost(desk, f"/workspace/{path}")
        assert desk.ask("writes.get", {"id": ident}).body.get("present") == present, path
        assert desk.ask("writes.settle", {"id": ident, "outcome": "rejected"}).status == 200
    ident = lost(desk, "/workspace/new", "after away")
    body = desk.ask("writes.get", {"id": ident}).body
    assert (body["receipt"], body["present"]["sha256"]) == ("committed", hashlib.sha256(b"bytes").hexdigest())


def test_a_rejection_is_shown_with_its_reason(desk: Desk) -> None:
    desk.fill(file("a.txt"))
    ident = lost(desk, came="after away")
    body = desk.ask("writes.get", {"id": ident}).body
    assert (body["receipt"], body["reason"]) == ("rejected", "OCCUPIED")


def test_an_attempt_that_may_go_on_is_said_to(desk: Desk) -> None:
    seen: list[object] = []

    def look() -> None:
        (row,) = desk.ask("writes.list").body["writes"]
        seen.append(row["in_flight"])

    desk.state.hooks["publish"] = look
    assert desk.create().status == 201
    assert seen == [True]


def test_writes_of_all_projects_and_sessions_are_listed_the_oldest_first(desk: Desk) -> None:
    expected = []
    for _ in range(3):
        desk.session = make_session(desk.room)
        expected.append(lost(desk))
        desk.clock.forward(1_000)
    assert [row["id"] for row in desk.ask("writes.list").body["writes"]] == expected
    assert janitor.oldest_unsettled_ms(desk.room) == 3_000


@pytest.mark.parametrize("ident", ["", "x", "write_", "write_" + "A" * 24, "sess_x", "unsettled/"])
def test_an_unknown_write_is_not_there(desk: Desk, ident: str) -> None:
    lost(desk)
    assert desk.ask("writes.get", {"id": ident}) == MISSING
    assert desk.ask("writes.settle", {"id": ident, "outcome": "rejected"}) == MISSING


def test_a_settled_write_is_not_settled_again(desk: Desk) -> None:
    assert desk.create().status == 201
    (record,) = desk.records()
    assert desk.ask("writes.settle", {"id": record.id, "outcome": "committed"}) == MISSING


def test_the_write_of_a_deleted_session_cannot_be_settled(desk: Desk) -> None:
    ident = lost(desk)
    desk.set_head(deleted(desk.head()))
    assert desk.ask("writes.get", {"id": ident}) == MISSING
    assert desk.ask("writes.settle", {"id": ident, "outcome": "rejected"}) == MISSING


def test_the_fence_is_advanced_before_the_record_is_judged(desk: Desk) -> None:
    ident = lost(desk)
    assert desk.workspace().head.fence == 1
    assert desk.ask("writes.settle", {"id": ident, "outcome": "committed"}).status == 400
    assert desk.workspace().head.fence == 2
    assert desk.head().write is not None, "a refused word settles nothing"
    assert desk.ask("writes.settle", {"id": ident, "outcome": "rejected"}).status == 200
    assert desk.workspace().head.fence == 2, "once is enough"


@pytest.mark.parametrize("step", ["fence", "settle"])
@pytest.mark.parametrize("came", ["before", "after"])
def test_a_command_that_is_cut_is_given_again(anywhere: Desk, step: str, came: str) -> None:
    ident = lost(anywhere)
    anywhere.state.plan[step] = came
    given = {"id": ident, "outcome": "rejected"}
    assert anywhere.ask("writes.settle", given).status == 503
    again = anywhere.ask("writes.settle", given)
    assert again == MISSING if (step, came) == ("settle", "after") else again.status == 200
    assert (anywhere.unsettled(), anywhere.head().write) == (0, None)
    (record,) = anywhere.records()
    assert (record.outcome, record.by) == ("rejected", "operator")


def test_a_publication_in_the_very_moment_of_the_fence_is_seen(desk: Desk) -> None:
    desk.state.plan["publish"] = "late"
    assert desk.create().status == 503
    (record,) = desk.records()
    happened: list[bool] = []
    desk.state.hooks["fence"] = lambda: happened.extend(desk.state.deliver())
    answer = desk.ask("writes.settle", {"id": record.id, "outcome": "rejected"})
    assert happened == [True]
    assert (answer.status, "was published" in answer.message) == (400, True)
    assert desk.ask("writes.settle", {"id": record.id, "outcome": "committed"}).status == 200


def test_it_is_done_from_another_process_while_the_lease_of_the_attempt_stands(desk: Desk) -> None:
    desk.state.plan["intent"] = "after away"
    assert desk.create().status == 503
    desk.state.away = False
    (row,) = desk.ask("writes.list").body["writes"]
    assert row["in_flight"] is True
    desk.room = replace(desk.room, owner=Owner("cli", "1"))
    assert desk.ask("writes.settle", {"id": row["id"], "outcome": "committed"}).status == 400
    write = desk.head().write
    assert write is not None
    assert write.ended, "the fence says that its attempt is over"
    assert desk.create("/workspace/b").retry == "false"
    assert desk.ask("writes.settle", {"id": row["id"], "outcome": "rejected"}).status == 200
    assert desk.create().status == 201


@pytest.mark.parametrize("name", ["writes.list", "writes.get", "writes.settle"])
def test_no_project_key_reaches_them(name: str) -> None:
    assert (operations()[name].audience, operations()[name].route) == ("operator", None)
