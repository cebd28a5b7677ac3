"""`GET /agents/environments/{id}` and its 404 (agents.md 2, 11.5, 11.17)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.domain.agents.head import Environment, EnvironmentStatus
from shared.domain.agents.lifecycle import deleted
from tests.agents_writes.desk import OTHER, Answer, Desk, make_session

MISSING = Answer(404, "not_found_error", "Resource not found.")
FILES = [
    {"id": "file_1", "type": "inline", "path": "/workspace/a", "size_bytes": 3},
    {"id": "file_2", "type": "file_id", "path": "/workspace/b", "size_bytes": 0, "file_id": "file-1"},
]


def test_it_shows_what_was_installed_at_creation_and_no_later_file(anywhere: Desk) -> None:
    anywhere.session = make_session(anywhere.room, shown={"files": FILES, "plugins": [], "skills": []})
    assert anywhere.create().status == 201
    answer = anywhere.ask("environments.get", {"environment_id": anywhere.environment})
    assert answer.status == 200
    assert answer.body == {
        "id": anywhere.environment,
        "object": "agent.environment",
        "type": "openai_hosted",
        "status": "connected",
        "files": FILES,
        "plugins": [],
        "skills": [],
    }


def test_the_arrays_are_there_also_where_nothing_was_installed(desk: Desk) -> None:
    desk.session = make_session(desk.room, "self_hosted")
    body = desk.ask("environments.get", {"environment_id": desk.environment}).body
    assert (body["type"], body["status"]) == ("self_hosted", "disconnected")
    assert (body["files"], body["plugins"], body["skills"]) == ([], [], [])


@pytest.mark.parametrize("status", ["pending", "connected", "expired", "failed"])
def test_every_status_is_shown_as_it_is(desk: Desk, status: EnvironmentStatus) -> None:
    desk.set_head(replace(desk.head(), environment=Environment("openai_hosted", status)))
    assert desk.ask("environments.get", {"environment_id": desk.environment}).body["status"] == status


@pytest.mark.parametrize("name", ["environments.get", "environments.list_files", "environments.create_file"])
def test_what_is_not_there_is_told_before_anything_else_is_looked_at(desk: Desk, name: str) -> None:
    """Table 3.2 row 1, 3.3 row 3: also where everything else is wrong too."""
    wrong = {"path": "relative", "limit": 0, "order": "x", "page": "", "unknown": 1, "data": 7}
    for ident in ("", "x", desk.session, desk.environment[:-1], desk.environment + "a", "env_" + "0" * 33, 7, None):
        assert desk.ask(name, {"environment_id": ident, **wrong}) == MISSING
    assert desk.ask(name, {"environment_id": desk.environment, **wrong}, project=OTHER) == MISSING
    assert desk.ask(name, dict(wrong)) == MISSING
    desk.set_head(deleted(desk.head()))
    assert desk.ask(name, {"environment_id": desk.environment, **wrong}) == MISSING


def test_the_environment_of_type_none_is_not_there(desk: Desk) -> None:
    desk.session = make_session(desk.room, "none")
    assert desk.ask("environments.get", {"environment_id": desk.environment}) == MISSING
