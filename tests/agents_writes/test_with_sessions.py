"""Files of Sessions as they are really created, beside their input, their expiry and their deletion."""

from __future__ import annotations

from typing import Any

import pytest

from shared.operations import names
from shared.operations.agents import admitting, places, sessions  # noqa: F401
from shared.operations.base import operations
from tests.agents_writes.desk import Answer, Desk
from tests.fakes import writes

STATE = "The Turn cannot accept this input in its current state."
SAY: dict[str, Any] = {
    "events": [
        {
            "type": "agent.session.input.message",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "program"}]}],
        }
    ]
}


@pytest.fixture
def created(desk: Desk) -> Desk:
    """A desk whose Session was made by `sessions.create`."""
    answer = desk.ask("sessions.create", {"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}})
    assert answer.status == 201, answer
    desk.session = answer.body["id"]
    return desk


def say(desk: Desk) -> Answer:
    """Send a message."""
    return desk.ask("events.create", {"session_id": desk.session, **SAY})


def get(desk: Desk) -> dict[str, Any]:
    """The Session as its caller sees it."""
    answer = desk.ask("sessions.get", {"session_id": desk.session})
    assert answer.status == 200, answer
    return answer.body


def lost(desk: Desk, came: str = "before") -> str:
    """A write that stays unsettled; its id."""
    desk.state.plan["publish"] = came
    assert desk.create().status == 503
    desk.state.away = False
    write = desk.head().write
    assert write is not None
    return write.write


def test_11_8_a_file_can_be_written_right_after_the_creation(created: Desk) -> None:
    assert created.create().status == 201
    assert created.names() == ["/workspace/a.txt"]
    info = created.ask("environments.get", {"environment_id": created.environment}).body
    assert (info["type"], info["status"], info["files"]) == ("openai_hosted", "connected", [])


def test_no_turn_and_no_input_comes_of_the_file_operations(created: Desk) -> None:
    before = created.state.inner.query(created.partition, places.EVENTS)
    assert created.create().status == 201
    assert created.names() != []
    assert created.state.inner.query(created.partition, places.EVENTS) == before
    assert created.state.inner.query(created.partition, places.TURNS) == []


def test_a_turn_sees_the_file_and_the_list_sees_the_turns(created: Desk) -> None:
    created.house.executor.scripts["program"] = writes(("made.txt", "made"))
    assert created.create().status == 201
    assert say(created).status == 202
    created.room.background.shutdown(wait=True)
    assert get(created)["status"] == "idle"
    assert created.names() == ["/workspace/a.txt", "/workspace/made.txt"]
    (request,) = created.house.executor.requests
    assert [entry.path for entry in request.manifest] == ["a.txt"]


@pytest.mark.parametrize("came", ["before", "after away"])
def test_11_7_an_unsettled_write_is_shown_and_holds_up_messages_until_it_is_settled(created: Desk, came: str) -> None:
    ident = lost(created, came)
    assert get(created)["unsettled_write"] == {"id": ident, "created_at": created.clock() // 1000}
    answer = say(created)
    assert (answer.status, answer.code, answer.message) == (409, "conflict_error", STATE)
    created.clock.forward(created.room.limits.lease_ms)
    assert say(created).retry == "false", "11.19"
    outcome = "rejected" if came == "before" else "committed"
    assert created.ask("writes.settle", {"id": ident, "outcome": outcome}).status == 200
    assert get(created).get("unsettled_write") is None
    assert say(created).status == 202
    created.room.background.shutdown(wait=True)


def test_11_38_no_environment_expires_while_a_write_is_unsettled(created: Desk) -> None:
    lost(created)
    created.clock.forward(created.room.limits.environment_ms + 1)
    assert created.listing().status == 200
    assert created.ask("writes.list").body["writes"] != []


def test_an_expired_environment_has_no_files(created: Desk) -> None:
    assert created.create().status == 201
    created.clock.forward(created.room.limits.environment_ms + 1)
    assert created.listing().status == 503
    assert created.create("/workspace/b").status == 503
    info = created.ask("environments.get", {"environment_id": created.environment})
    assert info.body["status"] == "expired"


def test_11_24_a_session_with_an_unsettled_write_is_deleted_and_the_evidence_stays(created: Desk) -> None:
    ident = lost(created)
    assert created.ask("sessions.delete", {"session_id": created.session}).status == 200
    assert created.unsettled() == 0
    assert created.ask("writes.list").body == {"writes": []}
    assert created.ask("writes.settle", {"id": ident, "outcome": "rejected"}).status == 404
    (row,) = created.state.inner.query(names.project("one"), places.DELETED)
    assert row.attributes["evidence"]["id"] == ident
    assert created.listing().status == created.create().status == 404


def test_11_24_a_deletion_in_the_middle_of_a_write_fences_it(created: Desk) -> None:
    def delete() -> None:
        assert created.ask("sessions.delete", {"session_id": created.session}).status == 200

    created.state.hooks["publish"] = delete
    answer = created.create()
    assert (answer.status, answer.code, answer.retry) == (503, "execution_unavailable", "false")
    assert created.unsettled() == 0


def test_the_operations_are_declared_with_their_statuses() -> None:
    found = {name: one.status for name, one in operations().items() if name.startswith("environments.")}
    assert found == {"environments.get": 200, "environments.list_files": 200, "environments.create_file": 201}
