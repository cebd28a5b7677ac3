"""Sessions over the wire: creation, what is shown, status, update, deletion, repetition (agents.md 5.1, 1.7)."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import openai
import pytest

from tests.agents.asking import JSON
from tests.agents.engines import MODEL
from tests.agents.talking import (
    AGENTS,
    CANCEL,
    ENVIRONMENTS,
    HOSTED,
    SESSIONS,
    Talk,
    Things,
    check_error,
    check_missing,
    message,
)
from tests.wire.scripted import program
from tests.wire.service import Answer, expect_eventually

NONE: dict[str, Any] = {"agent": {"model": MODEL}, "environment": {"type": "none"}}
SELF: dict[str, Any] = {**HOSTED, "environment": {"type": "self_hosted", "workspace_directory": "/home/me"}}
LOCAL = "Invalid resource identifier or request limits."
KEY_CONFLICT = "This idempotency key was used with different input."
NOT_DELETABLE = "session must be durably idle or failed without required actions before deletion"
NO_INPUT = "conversation-only sessions currently require initial input"
NO_STREAM_INPUT = "streaming session creation requires initial input"
NO_STREAMS = "Streaming is not available at this address. Use the streaming address of the service."
"""At a door without streams, before anything is looked at."""
VAULTS = "Unsupported parameter: 'vault_ids'."


def key(value: str) -> tuple[str, str]:
    return ("Idempotency-Key", value)


def body_of(answer: Answer, status: int = 200) -> dict[str, Any]:
    assert answer.status == status, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


def newest(talk: Talk) -> list[str]:
    return [row["id"] for row in talk.data(f"{SESSIONS}?limit=1")]


# -- creation


def test_every_member_of_a_new_session(talk: Talk) -> None:
    made = talk.create(metadata={"k": "v"})
    now = talk.room.clock() // 1000
    assert re.fullmatch("sess_[A-Za-z0-9_-]{20,}", made["id"])
    assert re.fullmatch("env_[A-Za-z0-9_-]{20,}", made["environment"]["id"])
    assert re.fullmatch("agent_[A-Za-z0-9_-]{20,}", made["agent"]["id"])
    assert now - 30 <= made["created_at"] <= now
    assert made == {
        "id": made["id"], "object": "agent.session", "created_at": made["created_at"], "error": None,
        "last_active_at": made["created_at"], "metadata": {"k": "v"}, "required_actions": [], "status": "idle",
        "usage": None, "vault_ids": [],
        "agent": {
            "id": made["agent"]["id"], "model": "program:py", "instructions": None, "name": None,
            "multi_agent": {"enabled": False, "max_concurrent_subagents": None},
            "reasoning": {"effort": None, "summary": None}, "service_tier": "auto",
            "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tools": [],
        },
        "environment": {
            "id": made["environment"]["id"], "type": "openai_hosted", "capability_directories": [], "files": [],
            "network": {"access": "disabled", "allowed_domains": []},
            "packages": {"npm": [], "python": [], "system": []}, "plugins": [], "skills": [],
        },
    }  # fmt: skip
    assert talk.get(f"{SESSIONS}/{made['id']}") == made
    assert talk.get(f"{ENVIRONMENTS}/{made['environment']['id']}")["status"] == "connected"


def test_the_other_environments(talk: Talk) -> None:
    none = body_of(talk.post(SESSIONS, {**NONE, "input": '{"say": "x"}'}), 201)
    assert set(none["environment"]) == {"type", "id"}
    assert none["environment"]["type"] == "none"
    own = body_of(talk.post(SESSIONS, SELF), 201)["environment"]
    assert set(own) == {"id", "type", "capability_directories", "remote_url", "workspace_directory"}
    assert (own["type"], own["workspace_directory"]) == ("self_hosted", "/home/me")
    assert own["remote_url"]


FAULTS: list[tuple[dict[str, Any], str, str, str | None]] = [
    ({"environment": None}, "Missing required parameter: 'environment'.", "invalid_request_error", "environment"),
    ({"environment": {}}, "Missing required parameter: 'environment.type'.", "invalid_request_error",
     "environment.type"),
    ({"environment": {"type": "x"}},
     "Invalid value for 'environment.type': expected one of 'none', 'openai_hosted', 'self_hosted'.",
     "invalid_request_error", "environment.type"),
    ({"environment": {"type": "self_hosted"}}, "Missing required parameter: 'environment.workspace_directory'.",
     "invalid_request_error", "environment.workspace_directory"),
    ({"agent": {}}, "Missing required parameter: 'agent.model'.", "invalid_request_error", "agent.model"),
    ({"agent": None}, "Missing required parameter: 'agent.model'.", "invalid_request_error", "agent.model"),
    ({"agent": {"model": "program:py", "x": 1}}, "Unknown parameter: 'agent.x'.", "invalid_request_error", "agent.x"),
    ({"other": 1}, "Request must be a JSON object containing supported fields.", "invalid_request", "other"),
    ({"stream": None}, "Invalid type for 'stream': expected a boolean, but got null instead.", "invalid_request_error",
     "stream"),
    ({"agent_id": None}, "Invalid type for 'agent_id': expected a string, but got null instead.",
     "invalid_request_error", "agent_id"),
    ({"metadata": {"k": 1}}, "Invalid type for 'metadata.k': expected a string, but got an integer instead.",
     "invalid_request_error", "metadata.k"),
    ({"metadata": {"k": None}}, "Invalid type for 'metadata.k': expected a string, but got null instead.",
     "invalid_request_error", "metadata.k"),
    ({"metadata": []}, "Invalid type for 'metadata': expected an object, but got an array instead.",
     "invalid_request_error", "metadata"),
    ({"stream": True}, NO_STREAM_INPUT, "invalid_request_error", None),
    ({"stream": True, "input": None}, NO_STREAM_INPUT, "invalid_request_error", None),
    ({**NONE}, NO_INPUT, "invalid_request_error", None),
    ({**NONE, "stream": True}, NO_INPUT, "invalid_request_error", None),
    ({"environment": {"type": "none"}, "input": "x"},
     "The model 'program:py' runs programs and needs an environment.", "invalid_request_error", "environment.type"),
    ({"input": ""}, LOCAL, "invalid_request", None),
    ({"input": []}, LOCAL, "invalid_request", None),
    ({"input": 1}, "Invalid type for 'input': expected a string or an array, but got an integer instead.",
     "invalid_request_error", "input"),
    ({"vault_ids": ["v"]}, "Unsupported parameter: 'vault_ids'.", "invalid_request_error", "vault_ids"),
    ({"spend_control": {"limit": 1}}, "Unsupported parameter: 'spend_control'.", "invalid_request_error",
     "spend_control"),
    ({"review": "auto"}, "Unsupported parameter: 'review'.", "invalid_request_error", "review"),
    ({"environment": {"type": "openai_hosted", "network": {"access": "enabled"}}},
     "Unsupported value for 'environment.network.access': only 'disabled' is available.", "invalid_request_error",
     "environment.network.access"),
    ({"environment": {"type": "openai_hosted", "environment_id": "env_x"}},
     "Unsupported parameter: 'environment.environment_id'.", "invalid_request_error", "environment.environment_id"),
]  # fmt: skip


@pytest.mark.parametrize(("members", "text", "code", "param"), FAULTS)
def test_what_a_creation_refuses_makes_nothing(
    talk: Talk, members: dict[str, Any], text: str, code: str, param: str | None
) -> None:
    before = newest(talk)
    if members.get("stream") is True and talk.asker.service.door != "local":
        text, param = NO_STREAMS, "stream"
    check_error(talk.post(SESSIONS, {**HOSTED, **members}, key("refused")), 400, text, code, param=param)
    assert newest(talk) == before


def test_a_refused_key_is_free(talk: Talk) -> None:
    check_error(talk.post(SESSIONS, {**HOSTED, "vault_ids": ["v"]}, key("free")), 400, VAULTS, param="vault_ids")
    talk.create(key("free"))


def test_a_model_without_an_engine_is_named_with_the_choices(talk: Talk) -> None:
    answer = body_of(talk.post(SESSIONS, {**HOSTED, "agent": {"model": "gpt-5"}}), 400)["error"]
    assert answer["param"] == "agent.model"
    assert answer["message"].startswith("The model 'gpt-5' is not available. Choose one of: program:py, ")
    assert MODEL in answer["message"]


def test_metadata_at_its_limits(talk: Talk) -> None:
    exact = {"k" * 64 if place == 0 else str(place): "é" * 512 for place in range(16)}
    made = talk.create(metadata=exact)
    assert talk.get(f"{SESSIONS}/{made['id']}")["metadata"] == exact
    for wrong in ({"k" * 65: ""}, {"k": "v" * 513}, {str(place): "" for place in range(17)}):
        answer = talk.post(SESSIONS, {**HOSTED, "metadata": wrong})
        assert (answer.status, json.loads(answer.body)["error"]["param"].partition(".")[0]) == (400, "metadata")


def test_members_that_say_their_default_are_taken(talk: Talk) -> None:
    made = talk.create(
        vault_ids=[], review=None, spend_control={"limit": None}, prompt_cache_options=None, stream=False, input=None,
        metadata=None, environment={"type": "openai_hosted", "plugins": [], "skills": None, "packages": {"npm": []},
                                    "network": {"access": "disabled"}, "desktop": {"enabled": False}},
    )  # fmt: skip
    shown, environment = talk.get(f"{SESSIONS}/{made['id']}"), made["environment"]
    assert (shown["vault_ids"], shown["metadata"], shown["status"]) == ([], {}, "idle")
    assert (environment["plugins"], environment["skills"], environment["network"]["access"]) == ([], [], "disabled")


def test_a_saved_agent_is_taken_over(talk: Talk) -> None:
    agent = body_of(talk.post(AGENTS, {"model": "program:py", "name": "n", "instructions": "i"}), 201)
    hosted = {"environment": {"type": "openai_hosted"}, "agent_id": agent["id"]}
    made = body_of(talk.post(SESSIONS, hosted), 201)["agent"]
    assert (made["id"], made["name"], made["instructions"]) == (agent["id"], "n", "i")
    changed = body_of(talk.post(SESSIONS, {**hosted, "agent": {"name": "other"}}), 201)["agent"]
    assert (changed["id"], changed["name"], changed["instructions"]) == (agent["id"], "other", "i")
    assert talk.ask("DELETE", f"{AGENTS}/{agent['id']}").status == 200
    check_missing(talk.post(SESSIONS, hosted))


def test_what_a_creation_names_is_looked_up_in_the_callers_project(
    talk: Talk, things: Things, foreign: Things, stranger: Talk
) -> None:
    source = stranger.asker.made(key=stranger.key)["id"]
    before = newest(talk)
    for ident in (foreign.agent, things.unknown().agent, "x", "", "\ud83e\udd23", things.session):
        check_missing(talk.post(SESSIONS, {"environment": {"type": "openai_hosted"}, "agent_id": ident}))
    for ident in (source, "file-nothing", "x"):
        file = {"type": "file_id", "file_id": ident, "path": "/workspace/a"}
        check_missing(talk.post(SESSIONS, {**HOSTED, "environment": {"type": "openai_hosted", "files": [file]}}))
    assert newest(talk) == before


# -- repetition (1.7, 11.20)


def test_the_same_creation_again_is_the_session_as_it_is_now(talk: Talk) -> None:
    made = talk.create(key("again"), metadata={"a": "1", "b": "2"})
    talk.done(made["id"], stdout="x")
    assert talk.post(f"{SESSIONS}/{made['id']}", {"metadata": {"c": "3"}}).status == 200
    again = talk.create(key("again"), metadata={"b": "2", "a": "1"})
    assert (again["id"], again["metadata"]) == (made["id"], {"c": "3"})
    assert len(talk.data(f"{SESSIONS}/{made['id']}/turns")) == 1


def test_another_body_or_a_deleted_session_is_a_conflict(talk: Talk, stranger: Talk) -> None:
    made = talk.create(key("conflict"))
    for members in ({"metadata": {"a": "1"}}, {"metadata": None}, {"input": program()}):
        other = talk.post(SESSIONS, {**HOSTED, **members}, key("conflict"))
        check_error(other, 409, KEY_CONFLICT, "idempotency_conflict")
        assert other.headers["x-should-retry"] == "false"
    other_project = stranger.create(key("conflict"), metadata={"a": "1"})
    assert other_project["id"] != made["id"]
    assert talk.ask("DELETE", f"{SESSIONS}/{made['id']}").status == 200
    gone = talk.post(SESSIONS, HOSTED, key("conflict"))
    check_error(gone, 409, KEY_CONFLICT, "idempotency_conflict")
    assert gone.headers["x-should-retry"] == "false"


def test_a_key_has_128_bytes_at_most_and_an_empty_one_is_none(talk: Talk) -> None:
    check_error(talk.post(SESSIONS, HOSTED, key("k" * 129)), 400, LOCAL, "invalid_request")
    first, second = talk.create(key("")), talk.create(key(""))
    assert first["id"] != second["id"]
    long = key("k" * 128)
    assert talk.create(long)["id"] == talk.create(long)["id"]
    check_error(talk.post(SESSIONS, HOSTED, key("a"), key("a")), 400, LOCAL, "invalid_request")


def test_twelve_at_once_with_one_key_make_one_session(talk: Talk) -> None:
    found: list[Answer] = []
    body = {**HOSTED, "metadata": {"race": "1"}}
    threads = [
        threading.Thread(target=lambda: found.append(talk.post(SESSIONS, body, key("race"))), daemon=True)
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [answer.status for answer in found] == [201] * 12
    assert len({json.loads(answer.body)["id"] for answer in found}) == 1
    assert len(talk.data(f"{SESSIONS}?metadata[race]=1")) == 1


def test_the_order_of_a_creations_checks(talk: Talk, things: Things) -> None:
    """gate, key, body, key's record, saved agent, source file"""
    talk.create(key("ranked"))
    unknown = {"environment": {"type": "openai_hosted"}, "agent_id": things.unknown().agent}
    file = {"type": "file_id", "file_id": "file-nothing", "path": "/workspace/a"}
    gate = talk.ask("POST", SESSIONS, JSON, key("k" * 129), body=b"[]")
    check_error(gate, 400, "Invalid type: expected an object, but got an array instead.")
    unknown_member = "Request must be a JSON object containing supported fields."
    answer = talk.post(SESSIONS, {**HOSTED, "other": 1}, key("ranked"))
    check_error(answer, 400, unknown_member, "invalid_request", param="other")
    check_error(talk.post(SESSIONS, NONE, key("ranked")), 400, NO_INPUT)
    if talk.asker.service.door == "local":
        check_error(talk.post(SESSIONS, {**HOSTED, "stream": True}, key("ranked")), 400, NO_STREAM_INPUT)
    check_error(talk.post(SESSIONS, unknown, key("ranked")), 409, KEY_CONFLICT, "idempotency_conflict")
    with_file = {**HOSTED, "environment": {"type": "openai_hosted", "files": [file]}}
    check_error(talk.post(SESSIONS, with_file, key("ranked")), 409, KEY_CONFLICT, "idempotency_conflict")
    check_error(talk.post(SESSIONS, {**unknown, "metadata": {"k": 1}}), 400,
                "Invalid type for 'metadata.k': expected a string, but got an integer instead.",
                param="metadata.k")  # fmt: skip


# -- derived status


def test_the_status_follows_the_turn(talk: Talk) -> None:
    made = talk.create()
    session = made["id"]
    turn = talk.running(session)
    shown = talk.get(f"{SESSIONS}/{session}")
    assert (shown["status"], shown["error"], shown["required_actions"]) == ("in_progress", None, [])
    talk.cancelled(session)
    shown = talk.get(f"{SESSIONS}/{session}")
    assert (shown["status"], shown["error"]) == ("idle", None)
    assert talk.get(f"{SESSIONS}/{session}/turns/{turn['id']}")["status"] == "cancelled"
    assert shown["last_active_at"] >= made["last_active_at"]


def test_a_failed_turn_leaves_the_session_idle(talk: Talk) -> None:
    session = talk.create()["id"]
    turn = talk.done(session, fail="broken")
    assert (turn["status"], turn["error"]["code"]) == ("failed", "sandbox_error")
    shown = talk.get(f"{SESSIONS}/{session}")
    assert (shown["status"], shown["error"]) == ("idle", None)
    assert talk.done(session)["status"] == "completed"


def test_a_failed_environment_is_a_failed_session(talk: Talk) -> None:
    hosted = {"type": "openai_hosted", "setup_commands": [{"command": program(code=3)}]}
    session = talk.create(environment=hosted, input=program())["id"]
    expect_eventually(lambda: talk.get(f"{SESSIONS}/{session}")["status"] == "failed", 30)
    shown = talk.get(f"{SESSIONS}/{session}")
    assert shown["error"] == "The environment failed to connect."
    assert shown["required_actions"] == []
    (turn,) = talk.data(f"{SESSIONS}/{session}/turns")
    assert (turn["status"], turn["error"]["code"]) == ("failed", "sandbox_error")
    refused = talk.send(session, message("x"))
    check_error(refused, 409, "the hosted environment failed to provision", "conflict_error")
    assert talk.send(session, CANCEL).status == 202
    assert talk.ask("DELETE", f"{SESSIONS}/{session}").status == 200


def test_a_session_of_a_callers_own_machine_waits_for_it(talk: Talk) -> None:
    made = body_of(talk.post(SESSIONS, SELF), 201)
    session, environment = made["id"], made["environment"]["id"]
    assert (made["status"], made["required_actions"]) == ("idle", [])
    assert talk.get(f"{ENVIRONMENTS}/{environment}")["status"] == "disconnected"
    assert talk.send(session, message("x")).status == 202
    shown = talk.get(f"{SESSIONS}/{session}")
    assert shown["status"] == "requires_action"
    assert shown["required_actions"] == [{"type": "environment_connection", "environment_id": environment}]
    (turn,) = talk.data(f"{SESSIONS}/{session}/turns")
    assert turn["status"] == "queued"
    check_error(talk.ask("DELETE", f"{SESSIONS}/{session}"), 409, NOT_DELETABLE, "conflict_error")
    talk.cancelled(session)
    assert talk.ask("DELETE", f"{SESSIONS}/{session}").status == 200


# -- update


def test_metadata_are_replaced_and_cleared(talk: Talk) -> None:
    session = talk.create(metadata={"a": "1"})["id"]
    where = f"{SESSIONS}/{session}"
    for sent, kept in (({"b": "2"}, {"b": "2"}), ({}, {}), ({"c": ""}, {"c": ""}), (None, {})):
        answer = body_of(talk.post(where, {"metadata": sent}))
        assert answer["metadata"] == kept == talk.get(where)["metadata"]
    assert body_of(talk.post(where, {"agent": None}))["id"] == session


UPDATES: list[tuple[Any, str, str | None]] = [
    ({}, "At least one update field is required", None),
    ({"x": 1}, "Unknown parameter: 'x'.", "x"),
    ({"session_id": "x"}, "Unknown parameter: 'session_id'.", "session_id"),
    ({"agent": {"model": "program:py"}}, "Unsupported parameter: 'agent'.", "agent"),
    ({"review": "auto"}, "Unsupported parameter: 'review'.", "review"),
    ({"metadata": 1}, "Invalid type for 'metadata': expected an object, but got an integer instead.", "metadata"),
    ({"metadata": 1, "x": 1}, "Unknown parameter: 'x'.", "x"),
]


@pytest.mark.parametrize(("body", "text", "param"), UPDATES)
def test_what_an_update_refuses_is_told_to_the_owner_alone(
    talk: Talk, things: Things, foreign: Things, body: Any, text: str, param: str | None
) -> None:
    before = talk.get(f"{SESSIONS}/{things.session}")
    check_error(talk.post(f"{SESSIONS}/{things.session}", body), 400, text, param=param)
    for ident in (foreign.session, things.unknown().session, "x"):
        check_missing(talk.post(f"{SESSIONS}/{ident}", body))
    assert talk.get(f"{SESSIONS}/{things.session}") == before


# -- deletion


def test_a_deleted_session_is_gone_with_everything_and_may_be_deleted_again(talk: Talk, stranger: Talk) -> None:
    own = Things.made(talk)
    where = f"{SESSIONS}/{own.session}"
    check_missing(stranger.ask("DELETE", where))
    expected = {"id": own.session, "object": "agent.session.deleted", "deleted": True}
    assert body_of(talk.ask("DELETE", where)) == expected
    assert body_of(talk.ask("DELETE", where)) == expected
    check_missing(stranger.ask("DELETE", where))
    for path in ("", "/turns", f"/turns/{own.turn}", f"/turns/{own.turn}/items", "/items", "/subagents", "/artifacts",
                 f"/artifacts/{own.artifact}", f"/artifacts/{own.artifact}/content"):  # fmt: skip
        check_missing(talk.ask("GET", where + path))
    for path in ("", "/files"):
        check_missing(talk.ask("GET", f"{ENVIRONMENTS}/{own.environment}{path}"))
    check_missing(talk.post(where, {"metadata": {}}))
    check_missing(talk.send(own.session, CANCEL))
    check_missing(talk.send(own.session))
    check_missing(talk.ask("DELETE", f"{where}/artifacts/{own.artifact}"))
    assert own.session not in [row["id"] for row in talk.data(f"{SESSIONS}?limit=100")]


def test_a_session_at_work_is_not_deleted(talk: Talk) -> None:
    session = talk.create()["id"]
    talk.running(session)
    refused = talk.ask("DELETE", f"{SESSIONS}/{session}")
    check_error(refused, 409, NOT_DELETABLE, "conflict_error")
    assert refused.headers["x-should-retry"] == "false"
    assert talk.get(f"{SESSIONS}/{session}")["status"] == "in_progress"
    talk.cancelled(session)
    assert talk.ask("DELETE", f"{SESSIONS}/{session}").status == 200


# -- through the client


def test_a_session_through_the_client(sdk: openai.OpenAI, talk: Talk) -> None:
    sessions = sdk.beta.agents.sessions
    made = sessions.create(
        agent={"model": "program:py", "instructions": "n"},
        environment={"type": "openai_hosted"},
        metadata={"who": "sdk"},
    )
    assert sessions.retrieve(made.id) == made
    assert [row.id for row in sessions.list(extra_query={"metadata[who]": "sdk"})] == [made.id]
    assert sessions.update(made.id, metadata=None).metadata == {}
    environment = sdk.beta.agents.environments.retrieve(made.environment.id)  # type: ignore[union-attr]
    assert (environment.status, environment.files) == ("connected", [])
    said: Any = message(program(stdout="hi"))
    sessions.events.create(made.id, events=[said])
    talk.settled(made.id)
    (turn,) = sessions.turns.list(made.id)
    assert sessions.turns.retrieve(turn.id, session_id=made.id) == turn
    assert turn.status == "completed"
    assert sessions.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError) as gone:
        sessions.retrieve(made.id)
    assert (gone.value.code, gone.value.type, gone.value.param) == ("not_found_error", "not_found_error", None)
    wrong: Any = {"a": 1}
    with pytest.raises(openai.BadRequestError) as refused:
        sessions.create(environment={"type": "openai_hosted"}, agent={"model": "program:py"}, metadata=wrong)
    assert refused.value.param == "metadata.a"


def test_the_client_sends_a_conflict_once(talk: Talk) -> None:
    session = talk.create()["id"]
    talk.running(session)
    with openai.OpenAI(api_key=talk.key, base_url=f"{talk.asker.service.url}/v1", max_retries=2, timeout=30) as client:
        asked: list[Any] = []
        client._client.event_hooks["request"].append(asked.append)
        with pytest.raises(openai.ConflictError):
            client.beta.agents.sessions.delete(session)
    assert len(asked) == 1
    talk.cancelled(session)
