"""A Session of an agent on the deployed service: prepared and run by the worker, read and deleted over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.caller import Api
from tests.e2e.stack import Stack
from tests.e2e.test_events import call, until

SESSIONS = "/v1/agents/sessions"


@pytest.fixture(scope="module")
def agents(api: Api, stack: Stack) -> Iterator[httpx.Client]:
    """A client of the Agents API: a bearer key, and the beta's header."""
    headers = {"Authorization": f"Bearer {api.key}", "OpenAI-Beta": "agents=v1"}
    with httpx.Client(base_url=stack.url, headers=headers, timeout=120, trust_env=False) as client:
        yield client


def created(agents: httpx.Client, **more: Any) -> str:
    answer = agents.post(SESSIONS, json={"agent": {"model": "program:bash"}, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def ended(agents: httpx.Client, session: str) -> dict[str, Any]:
    """The newest Turn, once it is over."""

    def over() -> dict[str, Any] | None:
        rows = agents.get(f"{SESSIONS}/{session}/turns").json()["data"]
        return dict(rows[0]) if rows and rows[0]["status"] in ("completed", "failed", "cancelled") else None

    return dict(until(over, 90))


def message(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"events": [{"type": "agent.session.input.message", "input": [{"role": "user", "content": content}]}]}


def test_a_session_is_prepared_answers_publishes_and_is_deleted(agents: httpx.Client, api: Api, stack: Stack) -> None:
    hosted = {"type": "openai_hosted", "setup_commands": [{"command": "mkdir -p outputs; echo ready > outputs/in"}]}
    session = created(agents, environment=hosted)
    sent = agents.post(f"{SESSIONS}/{session}/events", json=message("cat outputs/in; echo made > outputs/out"))
    assert (sent.status_code, sent.content) == (202, b"")
    turn = ended(agents, session)
    assert turn["status"] == "completed", turn
    items = agents.get(f"{SESSIONS}/{session}/items?order=asc").json()["data"]
    ran = [item["output"] for item in items if item["type"] == "command_execution"]
    assert ran == ["ready\n"]
    rows = agents.get(f"{SESSIONS}/{session}/artifacts?order=asc").json()["data"]
    paths = {row["path"]: row["id"] for row in rows}
    assert "/workspace/outputs/out" in paths
    content = agents.get(
        f"{SESSIONS}/{session}/artifacts/{paths['/workspace/outputs/out']}/content", follow_redirects=True
    )
    assert (content.status_code, content.content) == (200, b"made\n")
    through_event = stack.invoke(
        "DirectFunction", call(api, "turns.get", {"session_id": session, "turn_id": turn["id"]})
    )
    assert through_event == {"status": 200, "body": agents.get(f"{SESSIONS}/{session}/turns/{turn['id']}").json()}
    deleted = agents.delete(f"{SESSIONS}/{session}")
    assert (deleted.status_code, deleted.json()["deleted"]) == (200, True)
    assert agents.get(f"{SESSIONS}/{session}").status_code == 404
    assert stack.invoke("JanitorFunction", {})["sessions"] >= 1
    table = stack.deployed.outputs["TableName"]
    store = stack.emulator.session().client("dynamodb", endpoint_url=stack.emulator.endpoint)
    left = store.query(
        TableName=table,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": {"S": f"p/main/s/{session}"}},
    )
    assert left["Count"] == 0


def test_a_message_that_comes_again_makes_no_second_turn(agents: httpx.Client, stack: Stack) -> None:
    session = created(agents, environment={"type": "openai_hosted"})
    queues = stack.emulator.session().client("sqs", endpoint_url=stack.emulator.endpoint)
    worker = stack.deployed.names["WorkerFunction"]
    agents.post(f"{SESSIONS}/{session}/events", json=message("echo one"))
    assert ended(agents, session)["status"] == "completed"
    before = stack.lambdas.invocations[worker]
    queues.send_message(
        QueueUrl=stack.deployed.outputs["RunQueueUrl"], MessageBody=f'{{"project":"main","session":"{session}"}}'
    )
    until(lambda: stack.lambdas.invocations[worker] > before)
    assert len(agents.get(f"{SESSIONS}/{session}/turns").json()["data"]) == 1
