"""cases.md H: two projects on one service never see each other; through HTTP, MCP and raw sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.door import Service

UNKNOWN = "A" * 21


def _routes(service: Service) -> list[tuple[str, str]]:
    """(method, template) of everything that the document publishes, but for the Agents API.

    The routes of that one are asked with own, foreign and unknown ids by tests/agents.
    """
    document = service.ask("GET", "/openapi.json", key="").json()
    return [
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method, described in item.items()
        if method in ("get", "post", "put", "delete", "patch") and described.get("security") != [{"bearer": []}]
    ]


def _foreign(service: Service) -> tuple[str, str]:
    """A session of the other project, and its file's id."""
    answer = service.ask("POST", "/v1/upload", key=service.other_key, files={"file": ("secret.txt", b"theirs")})
    return answer.json()["session_id"], answer.json()["files"][0]["id"]


def test_H1_a_project_named_beside_the_credential_is_ignored(service: Service) -> None:
    session, file = _foreign(service)
    headers = {
        "X-Project": "other", "X-Project-Id": "other", "X-Org-Id": "other", "X-Tenant-Id": "other", "User-Id": "other",
        "X-Amz-Tenant-Id": "other", "X-Forwarded-User": "other", "X-CodeAPI-Expected-Profile": "stateful",
    }  # fmt: skip
    more = {"project": "other", "project_id": "other", "tenant_id": "other", "org_id": "other", "user_id": "other"}
    body = {"lang": "bash", "code": "ls", "session_id": session, **more}
    for target in (
        "/v1/exec",
        "/v1/exec?project=other&api_key=" + service.other_key,
        "/v1/exec/exec?session_id=" + session,
    ):
        answer = service.ask("POST", target, json=body, headers=headers)
        assert answer.status_code == 404, target
    assert service.ask("GET", f"/v1/files/{session}?project=other", headers=headers).status_code == 404
    for name in ("LIBRECHAT_CODE_API_KEY", "apiKey"):
        answer = service.post({**body, name: service.other_key})
        assert answer.status_code == 404, name
    ran = service.run("bash", "ls", files=[{"id": file, "name": "f", "session_id": session}], **more)
    assert (ran.stdout, ran.stderr) == ("", 'workroom: input file "f" is not available\n')
    assert ran.session != session


def test_H1_the_query_of_a_run_overrides_nothing(service: Service) -> None:
    mine = service.upload("mine", b"1")
    query = f"?session_id={UNKNOWN}&lang=py&code=print(1)&timeout=1&stdout=x"
    answer = service.ask("POST", "/v1/exec" + query, json={"lang": "bash", "code": "ls", "session_id": mine})
    assert (answer.status_code, answer.json()["stdout"], answer.json()["session_id"]) == (200, "mine\n", mine)


ODD_PATHS = (
    "/V1/exec", "/v1/EXEC", "/v1/exec/", "/v1/%65xec", "/v1/exec%2F", "/v1/exec;x", "/v1/exec/../exec", "/v1/./exec",
    "/v1%2Fexec", "/v1/exec%00", "/v2/exec", "/v1/exec/%2e%2e/exec", "/exec", "/v1", "/v1/", "/v1/exec/exec/",
    "/v1/exec/exec/exec", "/v1/exec.json", "/v1/exec/health/", "/v1/Health", "/docs/..%2fv1/exec", "/MCP", "/mcp/",
)  # fmt: skip


@pytest.mark.parametrize("path", ODD_PATHS)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_H2_an_odd_address_is_404_after_admission(service: Service, method: str, path: str) -> None:
    body = b'{"lang": "bash", "code": "echo ran"}'
    refused = service.raw(method, path, headers={"Content-Type": "application/json"}, body=body)
    assert refused.startswith(b"HTTP/1.1 401 "), refused
    assert b"www-authenticate: bearer" in refused.lower()
    admitted = service.raw(
        method, path, headers={"X-API-Key": service.key, "Content-Type": "application/json"}, body=body
    )
    assert admitted.startswith(b"HTTP/1.1 404 "), admitted
    assert b"ran" not in admitted.partition(b"\r\n\r\n")[2]
    assert b"location:" not in admitted.lower()


@pytest.mark.parametrize("path", ["//v1/exec", "/v1//exec", "///v1/////exec", "/v1/exec//exec"])
def test_H2_double_slashes_are_one(service: Service, path: str) -> None:
    body = b'{"lang": "bash", "code": "echo ran"}'
    assert service.raw("POST", path, headers={}, body=body).startswith(b"HTTP/1.1 401 ")
    answer = service.raw("POST", path, headers={"X-API-Key": service.key}, body=body)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"stdout":"ran\\n"' in answer.replace(b'": "', b'":"')


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "GET", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "EXEC"])
def test_H2_another_method_is_no_way_in(service: Service, method: str) -> None:
    refused = service.raw(method, "/v1/exec", headers={}, body=b'{"lang": "bash", "code": "echo ran"}')
    assert refused.split()[1] in (b"401", b"400"), refused
    admitted = service.raw(method, "/v1/exec", headers={"X-API-Key": service.key}, body=b"")
    assert admitted.split()[1] in (b"405", b"404", b"400"), admitted


def test_H3_every_tool_needs_a_credential(service: Service) -> None:
    """Through MCP too: the operation itself asks for a caller."""
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = service.ask("POST", "/mcp", json=listing, headers=headers)
    assert answer.status_code == 200, answer.text
    tools = [tool["name"] for tool in _result(answer)["tools"]]
    assert tools
    for key in ("", "wrong", service.key[:-1]):
        for name in tools:
            refused = service.tool(name, {"lang": "bash", "code": "echo ran"}, key=key)
            assert refused.status_code == 401, (name, refused.text)
            assert "ran" not in refused.text
    run = next(name for name in tools if "run" in name and "exec" in name)
    result = _result(service.tool(run, {"lang": "bash", "code": "echo ran"}))
    assert not result.get("isError")
    assert result["structuredContent"]["stdout"] == "ran\n"


def _result(answer: Any) -> dict[str, Any]:
    text = answer.text
    if text.lstrip().startswith("event:") or "\ndata:" in text:
        text = next(line[5:] for line in text.splitlines() if line.startswith("data:"))
    result: dict[str, Any] = json.loads(text)["result"]
    return result


def _requests(session: str, file: str) -> list[tuple[str, str, dict[str, str], bytes]]:
    """Each way to name a session in a body."""
    boundary = "--B\r\nContent-Disposition: form-data; name="
    form = f'{boundary}"session_id"\r\n\r\n{session}\r\n{boundary}"file"; filename="f"\r\n\r\nx\r\n--B--\r\n'.encode()
    multipart = {"Content-Type": "multipart/form-data; boundary=B"}
    plain = {"Content-Type": "application/json"}
    run = json.dumps({"lang": "bash", "code": "ls", "session_id": session}).encode()
    grant = json.dumps({"name": "f", "size": 1, "sha256": "0" * 64, "session_id": session}).encode()
    wanted = [
        ("POST", f"{base}{path}", multipart, form)
        for base in ("/v1", "/v1/exec")
        for path in ("/upload", "/upload/batch")
    ]
    return [
        ("POST", "/v1/exec", plain, run),
        ("POST", "/v1/exec/exec", plain, run),
        ("POST", "/v1/exec/uploads", plain, grant),
        *wanted,
    ]


def test_H5_a_foreign_id_is_as_unknown_as_an_unknown_one(service: Service) -> None:
    """Every route that takes a session, file, run or upload id: the same bytes but for the ids themselves."""
    session, file = _foreign(service)
    started = service.post({"lang": "bash", "code": "true"}, key=service.other_key, headers={"Prefer": "respond-async"})
    foreign_run = started.json()["id"]
    grant = {"name": "f", "size": 1, "sha256": "0" * 64}
    foreign_upload = service.ask("POST", "/v1/exec/uploads", key=service.other_key, json=grant).json()["upload_id"]
    ids = {"session_id": (session, UNKNOWN), "run_id": (foreign_run, UNKNOWN), "upload_id": (foreign_upload, UNKNOWN)}
    key = {"X-API-Key": service.key}
    seen = 0
    for method, template in _routes(service):
        names = [name for name in ids if "{" + name + "}" in template]
        if not names:
            continue
        seen += 1
        for file_id in (file, "secret.txt", UNKNOWN):
            answers = []
            for which in (0, 1):
                target = template.replace("{file_id}", file_id)
                for name in names:
                    target = target.replace("{" + name + "}", ids[name][which])
                answers.append(service.raw(method, target, headers=key))
            assert answers[0] == answers[1], (method, template)
            one_segment = template.endswith("/download/{session_id}")
            assert answers[0].startswith(b"HTTP/1.1 400 " if one_segment else b"HTTP/1.1 404 "), (
                method,
                template,
                answers,
            )
            assert b"theirs" not in answers[0]
    assert seen >= 12
    for foreign, unknown in zip(_requests(session, file), _requests(UNKNOWN, file), strict=True):
        method, target, headers, body = foreign
        one = service.raw(method, target, headers=key | headers, body=body)
        two = service.raw(method, target, headers=key | headers, body=unknown[3])
        assert one == two, target
        assert one.startswith(b"HTTP/1.1 404 "), (target, one)
    assert service.ask("GET", f"/v1/files/{session}", key=service.other_key).json()[0]["size"] == 6


def test_H5_a_refused_id_creates_nothing(service: Service) -> None:
    """After all that, neither project has a session of that id, and the foreign one is as it was."""
    session, _ = _foreign(service)
    before = service.ask("GET", f"/v1/files/{session}", key=service.other_key).json()
    for method, target, headers, body in [*_requests(session, "x"), *_requests("B" * 21, "x")]:
        service.raw(method, target, headers={"X-API-Key": service.key} | headers, body=body)
    assert service.ask("GET", f"/v1/files/{session}", key=service.other_key).json() == before
    for key in (service.key, service.other_key):
        assert service.ask("GET", f"/v1/files/{'B' * 21}", key=key).status_code == 404
    assert service.ask("GET", f"/v1/files/{session}").status_code == 404


def test_H5_foreign_references_are_skipped_like_unknown_ones(service: Service) -> None:
    """One and the same line, and the run goes on in a session of its own."""
    session, file = _foreign(service)
    answers = []
    for home, wanted in ((session, file), (session, "secret.txt"), (UNKNOWN, file), (UNKNOWN, UNKNOWN)):
        ran = service.run("bash", "ls -A; [ ! -e f ]", files=[{"id": wanted, "name": "f", "storage_session_id": home}])
        answers.append((ran.stdout, ran.stderr, ran.code, ran.files))
        assert ran.session not in (session, UNKNOWN)
    assert answers == [("", 'workroom: input file "f" is not available\n', 0, [])] * 4


def test_H5_through_tools_too(service: Service) -> None:
    session, file = _foreign(service)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    tools = _result(service.ask("POST", "/mcp", json=listing, headers=headers))["tools"]
    tried = 0
    for tool in tools:
        names = tool["inputSchema"].get("properties", {})
        if "session_id" not in names:
            continue
        tried += 1
        arguments = {
            "session_id": session, "file_id": file, "lang": "bash", "code": "ls", "name": "f", "content": "x",
            "size": 1, "sha256": "0" * 64,
        }  # fmt: skip
        given = {name: value for name, value in arguments.items() if name in names}
        foreign = _result(service.tool(tool["name"], given))
        unknown = _result(service.tool(tool["name"], given | {"session_id": UNKNOWN}))
        assert foreign["isError"] is True, (tool["name"], foreign)
        assert foreign == unknown
        assert "theirs" not in json.dumps(foreign)
    assert tried >= 4


def test_H5_workspaces_of_two_projects_are_apart(service: Service) -> None:
    """The same hint, the same names, at the same time: nothing is shared."""
    hint = {"runtime_session_hint": "shared-hint"}
    one = service.run("bash", "echo mine > f", **hint)
    two = service.run("bash", "ls; echo theirs > f", key=service.other_key, **hint).expect("", ["f"])
    assert one.session != two.session
    assert one.files[0]["id"] != two.files[0]["id"]
    service.run("bash", "cat f", **hint).expect("mine\n")
