"""What a Turn leaves: itself, its items, its Artifacts and their bytes (agents.md 5.4, 5.5, 6.2)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.agents.talking import ENVIRONMENTS, SESSIONS, Talk, Things, check_missing
from tests.wire.scripted import program

ARTIFACT = {"id", "object", "session_id", "turn_id", "environment_id", "path", "size_bytes", "created_at"}


def artifacts(talk: Talk, session: str) -> list[dict[str, Any]]:
    return talk.data(f"{SESSIONS}/{session}/artifacts?order=asc&limit=100")


def test_every_member_of_a_turn_and_of_its_items(talk: Talk) -> None:
    made = talk.create()
    session = made["id"]
    script = program(stdout="out", stderr="err")
    turn = talk.done(session, stdout="out", stderr="err")
    where = f"{SESSIONS}/{session}"
    assert turn == {
        "id": turn["id"], "object": "agent.session.turn", "session_id": session, "agent_id": made["agent"]["id"],
        "status": "completed", "created_at": turn["created_at"], "started_at": turn["started_at"],
        "completed_at": turn["completed_at"], "error": None, "usage": None, "subagent_id": None,
    }  # fmt: skip
    assert turn["created_at"] <= turn["started_at"] <= turn["completed_at"]
    assert talk.get(f"{where}/turns/{turn['id']}") == turn
    items = talk.data(f"{where}/items?order=asc")
    assert talk.data(f"{where}/turns/{turn['id']}/items?order=asc") == items
    user, command, said = items
    of = {"turn_id": turn["id"]}
    assert user == {
        "id": user["id"], **of, "type": "message", "role": "user", "phase": None, "status": "completed",
        "content": [{"type": "input_text", "text": script}],
    }  # fmt: skip
    assert said == {
        "id": said["id"], **of, "type": "message", "role": "assistant", "phase": "final_answer", "status": "completed",
        "content": [{"type": "output_text", "text": "out"}],
    }  # fmt: skip
    assert {**command, "duration_ms": 7} == {
        "id": command["id"], **of, "type": "command_execution", "command": script, "cwd": "/workspace",
        "output": "outerr", "exit_code": 0, "duration_ms": 7, "status": "completed",
    }  # fmt: skip


@pytest.mark.parametrize(("script", "code"), [({"code": 3}, 3), ({"signal": 9}, None)])
def test_a_program_that_fails_is_a_failed_command_of_a_completed_turn(
    talk: Talk, script: dict[str, Any], code: int | None
) -> None:
    session = talk.create()["id"]
    turn = talk.done(session, stdout="said", write={"outputs/kept": "x"}, **script)
    assert (turn["status"], turn["error"]) == ("completed", None)
    (command,) = [row for row in talk.data(f"{SESSIONS}/{session}/items") if row["type"] == "command_execution"]
    assert (command["status"], command["exit_code"]) == ("failed", code)
    assert [row["path"] for row in artifacts(talk, session)] == ["/workspace/outputs/kept"]


def test_a_broken_executor_fails_the_turn_and_leaves_its_items_incomplete(talk: Talk) -> None:
    session = talk.create()["id"]
    turn = talk.done(session, fail="broken", write={"outputs/a": "x"})
    assert (turn["status"], turn["error"]["code"]) == ("failed", "sandbox_error")
    items = talk.data(f"{SESSIONS}/{session}/items?order=asc")
    assert [(row["type"], row["status"]) for row in items] == [
        ("message", "completed"), ("command_execution", "incomplete"),
    ]  # fmt: skip
    assert artifacts(talk, session) == []


@pytest.mark.parametrize(
    "script", [{"lost": {"outputs/pipe": "special"}}, {"write": {"outputs": "a file"}}, {"link": {"outputs": "x"}}]
)
def test_a_capture_that_fails_publishes_nothing(talk: Talk, script: dict[str, Any]) -> None:
    session = talk.create()["id"]
    turn = talk.done(session, stdout="said", **script)
    assert (turn["status"], turn["error"]["code"]) == ("failed", "artifact_capture_failed")
    assert talk.get(f"{SESSIONS}/{session}")["status"] == "idle"
    assert artifacts(talk, session) == []


def test_every_member_of_an_artifact_and_its_bytes(talk: Talk) -> None:
    made = talk.create()
    session = made["id"]
    turn = talk.done(session, write={"outputs/deep/a.txt": "hello", "outside": "x"}, link={"outputs/l": "/etc/passwd"})
    (artifact,) = artifacts(talk, session)
    assert set(artifact) == ARTIFACT
    assert artifact == {
        "id": artifact["id"], "object": "agent.session.artifact", "session_id": session, "turn_id": turn["id"],
        "environment_id": made["environment"]["id"], "path": "/workspace/outputs/deep/a.txt", "size_bytes": 5,
        "created_at": turn["completed_at"],
    }  # fmt: skip
    where = f"{SESSIONS}/{session}/artifacts/{artifact['id']}"
    assert talk.get(where) == artifact
    content = talk.ask("GET", f"{where}/content", ("Range", "bytes=0-1"))
    assert (content.status, content.body) == (200, b"hello")
    assert content.headers["content-type"] == "application/octet-stream"
    assert content.headers["content-length"] == "5"
    assert content.headers["cache-control"] == "no-store"
    assert content.headers["content-disposition"] == "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt"


@pytest.mark.parametrize(
    ("name", "plain"), [("données.csv", "donn_es.csv"), ('a"b;c', "a_b;c"), ("🤣", "_"), (" ", " ")]
)
def test_the_name_of_a_file_is_exact(talk: Talk, name: str, plain: str) -> None:
    session = talk.create()["id"]
    talk.done(session, write={f"outputs/{name}": ""})
    (artifact,) = artifacts(talk, session)
    assert artifact["path"] == f"/workspace/outputs/{name}"
    content = talk.ask("GET", f"{SESSIONS}/{session}/artifacts/{artifact['id']}/content")
    expected = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    assert (content.status, content.body, content.headers["content-length"]) == (200, b"", "0")
    assert content.headers["content-disposition"] == expected


def test_what_is_published_again(talk: Talk) -> None:
    """A, A again, B, A; then the newest deleted, and the same content once more."""
    session = talk.create()["id"]
    found = []
    for text in ("A", "A", "B", "A"):
        talk.done(session, write={"outputs/a": text})
        found.append(len(artifacts(talk, session)))
    assert found == [1, 1, 2, 3]
    where = f"{SESSIONS}/{session}/artifacts"
    first, second, third = (row["id"] for row in artifacts(talk, session))
    assert talk.ask("DELETE", f"{where}/{third}").status == 200
    talk.done(session)
    rows = [row["id"] for row in artifacts(talk, session)]
    assert (rows[:2], len(rows)) == ([first, second], 3)
    contents = [talk.ask("GET", f"{where}/{row}/content").body for row in rows]
    assert contents == [b"A", b"B", b"A"]


def test_a_deleted_artifact_is_gone_and_its_file_stays(talk: Talk, stranger: Talk) -> None:
    own = Things.made(talk)
    where = f"{SESSIONS}/{own.session}/artifacts/{own.artifact}"
    check_missing(stranger.ask("DELETE", where))
    answer = talk.ask("DELETE", where)
    assert json.loads(answer.body) == {
        "id": own.artifact, "object": "agent.session.artifact.deleted", "deleted": True,
    }  # fmt: skip
    for method, target in (("DELETE", where), ("GET", where), ("GET", f"{where}/content")):
        check_missing(talk.ask(method, target))
    assert artifacts(talk, own.session) == []
    listed = talk.get(f"{ENVIRONMENTS}/{own.environment}/files?path=/workspace/outputs")["data"]
    assert [row["path"] for row in listed] == ["/workspace/outputs/a.txt"]
    check_missing(talk.ask("DELETE", f"{SESSIONS}/{talk.create()['id']}/artifacts/{own.artifact}"))


def test_initial_files_are_installed_listed_and_seen_by_programs(talk: Talk) -> None:
    source = talk.asker.made("s.txt", b"four", key=talk.key)["id"]
    files = [
        {"type": "inline", "data": "aGk=", "path": "/workspace/in/a.txt"},
        {"type": "file_id", "file_id": source, "path": "/workspace/b.txt"},
    ]
    secret = {"type": "openai_hosted", "files": files, "env": {"K": "secret-value"},
              "setup_commands": [{"command": program(write={"made": "x"}, stdout="secret-body")}]}  # fmt: skip
    made = talk.create(environment=secret)
    assert "secret" not in json.dumps(made)
    turn = talk.done(made["id"], show="files")
    assert turn["status"] == "completed"
    where = f"{ENVIRONMENTS}/{made['environment']['id']}"
    shown = talk.get(where)
    assert "secret" not in json.dumps([shown, talk.get(f"{SESSIONS}/{made['id']}")])
    assert set(shown) == {"id", "object", "type", "status", "files", "plugins", "skills"}
    assert (shown["status"], shown["plugins"], shown["skills"]) == ("connected", [], [])
    rows = [{name: value for name, value in row.items() if name != "id"} for row in shown["files"]]
    assert rows == [
        {"type": "inline", "path": "/workspace/in/a.txt", "size_bytes": 2},
        {"type": "file_id", "path": "/workspace/b.txt", "size_bytes": 4, "file_id": source},
    ]
    assert shown["files"] == made["environment"]["files"]
    said = next(row for row in talk.data(f"{SESSIONS}/{made['id']}/items") if row.get("role") == "assistant")
    assert sorted(json.loads(said["content"][0]["text"])) == ["b.txt", "in/a.txt", "made"]
