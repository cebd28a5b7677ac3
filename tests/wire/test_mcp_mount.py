"""The Model Context Protocol at `/mcp`: behind the door's admission, for the caller that it admitted."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.scripted import program
from tests.wire.service import Answer, Service

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def call(service: Service, method: str, *, key: str | None = None, **params: Any) -> Answer:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return service.ask("POST", "/mcp", key=key, headers=HEADERS, body=json.dumps(message).encode())


def test_it_is_behind_admission_like_everything(service: Service) -> None:
    for method in ("initialize", "tools/list", "tools/call"):
        for key in ("", "wr_" + "x" * 42):
            answer = call(service, method, key=key, name="exec_run", arguments={})
            assert answer.status == 401
            assert json.loads(answer.body)["error"] == "unauthorized"
    assert service.ask("GET", "/mcp").status == 405


def test_a_tool_runs_for_the_admitted_project_and_for_no_other(service: Service) -> None:
    arguments = {"lang": "py", "code": program(stdout="hi", write={"a": "a"})}
    answer = call(service, "tools/call", name="exec_run", arguments=arguments)
    assert answer.status == 200
    result = json.loads(answer.body)["result"]
    assert result["isError"] is False
    session = result["structuredContent"]["session_id"]
    with service.client() as mine, service.client(service.other_key) as theirs:
        assert mine.get(f"/v1/files/{session}").status_code == 200
        assert theirs.get(f"/v1/files/{session}").status_code == 404
    foreign = call(service, "tools/call", key=service.other_key, name="files_list", arguments={"session_id": session})
    unknown = call(service, "tools/call", key=service.other_key, name="files_list", arguments={"session_id": "Q" * 21})
    assert json.loads(foreign.body)["result"]["isError"] is True
    assert foreign.comparable == unknown.comparable


def test_every_answer_has_a_request_id(service: Service) -> None:
    assert call(service, "tools/list").headers["x-request-id"]
