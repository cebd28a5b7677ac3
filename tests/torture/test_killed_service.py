"""The whole service killed while the real program of a Turn runs, through its own door (agents.md 11.36)."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from tests.kill.test_kill_real import marked, running, until


def ask(client: httpx.Client, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """A call of the Agents API with the service's own key."""
    key = client.headers["X-API-Key"]
    headers = {"Authorization": f"Bearer {key}", "OpenAI-Beta": "agents=v1"}
    answer = client.request(method, f"/v1/agents/sessions{path}", json=body, headers=headers)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def said(text: str) -> dict[str, Any]:
    content = [{"role": "user", "content": [{"type": "input_text", "text": text}]}]
    return {"events": [{"type": "agent.session.input.message", "input": content}]}


def over(client: httpx.Client, session: str) -> dict[str, Any]:
    """The newest Turn at its end."""
    found: list[dict[str, Any]] = []

    def ended() -> bool:
        found[:] = ask(client, "GET", f"/{session}/turns")["data"]
        return found[0]["status"] in ("completed", "failed", "cancelled")

    until("the Turn does not end", ended, 20)
    return found[0]


def test_11_36_a_killed_service_takes_the_program_along_and_its_turn_has_failed() -> None:
    folder = Path(tempfile.mkdtemp(prefix="workroom-kill-"))
    folder.chmod(0o711)
    mark = f"workroom-{secrets.token_hex(8)}"
    with running(folder) as (process, client):
        body = {"agent": {"model": "program:bash"}, "environment": {"type": "openai_hosted"}}
        session = ask(client, "POST", "", body)["id"]
        ask(client, "POST", f"/{session}/events", said("mkdir outputs; echo kept > outputs/kept"))
        assert over(client, session)["status"] == "completed"
        daemon = f"setsid bash -c 'trap \"\" TERM; exec -a {mark} sleep 120' &"
        code = f"echo half > outputs/half; echo word; {daemon} exec -a {mark} sleep 120"
        ask(client, "POST", f"/{session}/events", said(code))
        until("the program does not start", lambda: len(marked(mark)) == 2, 20)
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
        until("a program outlives its service", lambda: not marked(mark), 10)
    with running(folder) as (_, client):
        row = over(client, session)
        assert (row["status"], row["error"]["code"]) == ("failed", "internal_error")
        assert ask(client, "GET", f"/{session}")["status"] == "idle"
        items = ask(client, "GET", f"/{session}/turns/{row['id']}/items?order=asc")["data"]
        assert [item["status"] for item in items] == ["completed", "incomplete", "incomplete"]
        assert len(ask(client, "GET", f"/{session}/artifacts")["data"]) == 1
        begun = time.monotonic()
        ask(client, "POST", f"/{session}/events", said("ls outputs; echo more > outputs/more"))
        assert over(client, session)["status"] == "completed"
        assert time.monotonic() - begun < 10, "the lock of the dead service blocks"
        items = ask(client, "GET", f"/{session}/items?order=desc")["data"]
        assert items[0]["content"][0]["text"] == "kept\n"
        paths = [row["path"] for row in ask(client, "GET", f"/{session}/artifacts")["data"]]
        assert sorted(paths) == ["/workspace/outputs/kept", "/workspace/outputs/more"]
        assert not marked(mark)
