"""Addresses: matched raw and exactly, after admission (exec.md A1, A8.1; cases.md H2)."""

from __future__ import annotations

import pytest

from tests.wire.service import Service

BODY = b'{"lang":"py","code":"{\\"stdout\\":\\"ran\\"}"}'
SHORT = "A" * 21

OTHER_ADDRESSES = [
    "/V1/exec",
    "/v1/EXEC",
    "/v1/exec/",
    "/v1/exec/exec/",
    "/v1/exec%20",
    "/v1/exec/./exec",
    "/v1/../v1/exec",
    "/v1/exec;x=1",
    "/v1/exec/files",
    "/v1/exec/files/",
    "/v1/exec/health/",
    "/v2/exec",
    "/v1",
    "/v1/",
    "/exec",
    "/v1/grants/x",
    "/V1/health",
    "/v1/health/",
    "/openapi.json/",
    "/OPENAPI.json",
    "/docs/",
    "/docs/../openapi.json",
    "/docs/__init__.py",
    "/docs/%2e%2e/app.py",
    "/mcp/",
    "/redoc",
    "/docs/oauth2-redirect",
    "/%",
    "/%00",
    "/v1/exec\\exec",
]
ENCODED = ["/v1/%65xec", "/v1%2fexec", "/v1/exec%2fexec", "/v1/exec/%65xec", "/v1/%68ealth"]
METHODS = ["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH"]


@pytest.mark.parametrize("target", OTHER_ADDRESSES)
@pytest.mark.parametrize("method", METHODS)
def test_H2_an_address_that_is_not_served_is_401_and_then_404(service: Service, target: str, method: str) -> None:
    must_not_be_served(service, target, method)


@pytest.mark.doors("local", "function-url", why="an HTTP API decodes the path: an encoded letter is that letter there")
@pytest.mark.parametrize("target", ENCODED)
@pytest.mark.parametrize("method", METHODS)
def test_H2_an_encoded_letter_is_another_address(service: Service, target: str, method: str) -> None:
    must_not_be_served(service, target, method)


def must_not_be_served(service: Service, target: str, method: str) -> None:
    closed = service.ask(method, target, key="")
    assert closed.status == 401
    assert closed.headers["www-authenticate"] == "Bearer"
    opened = service.ask(method, target)
    assert opened.status == 404
    assert "location" not in opened.headers
    if method != "HEAD":
        assert opened.body == b'{"error":"not_found","message":"Not found."}'


@pytest.mark.parametrize("target", ["//v1/exec", "/v1//exec", "/v1/exec///exec", "///v1///exec", "/v1//exec?lang=js"])
def test_H2_double_slashes_are_collapsed_before_matching(service: Service, target: str) -> None:
    assert service.ask("POST", target, key="", body=BODY).status == 401
    answer = service.ask("POST", target, body=BODY)
    assert answer.status == 200
    assert b'"stdout":"ran"' in answer.body


@pytest.mark.doors("local", why="a gateway reads the target before it makes an event")
def test_an_absolute_target_is_read_by_its_path(service: Service) -> None:
    assert service.ask("POST", "http://elsewhere/v1/exec", body=BODY).status == 200
    assert service.ask("OPTIONS", "*", key="").status == 401
    assert service.ask("OPTIONS", "*").status == 404


KNOWN = [
    ("/v1/exec", "POST"),
    ("/v1/exec/exec", "POST"),
    ("/v1/exec/programmatic", "POST"),
    ("/v1/exec/exec/programmatic", "POST"),
    ("/v1/exec/programmatic/cancel", "POST"),
    ("/v1/exec/exec/programmatic/cancel", "POST"),
    ("/v1/exec/upload", "POST"),
    ("/v1/upload", "POST"),
    ("/v1/exec/upload/batch", "POST"),
    ("/v1/upload/batch", "POST"),
    (f"/v1/exec/download/{SHORT}/{SHORT}", "GET, HEAD"),
    (f"/v1/download/{SHORT}/{SHORT}", "GET, HEAD"),
    (f"/v1/exec/download/{SHORT}", "GET, HEAD"),
    (f"/v1/exec/files/{SHORT}", "GET, HEAD"),
    (f"/v1/files/{SHORT}", "GET, HEAD"),
    (f"/v1/exec/files/{SHORT}/{SHORT}", "DELETE"),
    (f"/v1/files/{SHORT}/{SHORT}", "DELETE"),
    (f"/v1/exec/sessions/{SHORT}/objects/{SHORT}", "GET, HEAD"),
    (f"/v1/sessions/{SHORT}/objects/{SHORT}", "GET, HEAD"),
    (f"/v1/exec/runs/{SHORT}", "GET, HEAD"),
    ("/v1/exec/uploads", "POST"),
    (f"/v1/exec/uploads/{SHORT}/complete", "POST"),
    ("/v1/exec/grants/token", "PUT"),
    ("/v1/health", "GET, HEAD"),
    ("/v1/exec/health", "GET, HEAD"),
    ("/mcp", "POST"),
    ("/openapi.json", "GET, HEAD"),
    ("/docs", "GET, HEAD"),
    ("/docs/docs.js", "GET, HEAD"),
    ("/", "GET, HEAD"),
]


@pytest.mark.parametrize(("target", "allowed"), KNOWN)
def test_H2_a_method_that_an_address_does_not_take_is_401_and_then_405(
    service: Service, target: str, allowed: str
) -> None:
    for method in ("OPTIONS", "PATCH", "TRACE", "PUT", "HEAD", "GET", "DELETE"):
        if method in allowed:
            continue
        assert service.ask(method, target, key="").status == 401, method
        answer = service.ask(method, target)
        assert answer.status == 405, method
        assert answer.headers["allow"] == allowed
        assert not any(name.startswith("access-control") for name in answer.headers)


OPEN = ["/v1/health", "/v1/exec/health", "/openapi.json", "/docs", "/"]


@pytest.mark.parametrize("target", OPEN)
def test_what_is_open_to_anyone_is_open_with_any_credential(service: Service, target: str) -> None:
    for key in ("", "wr_" + "x" * 42, "nonsense", service.key):
        assert service.ask("GET", target, key=key).status == 200
        head = service.ask("HEAD", target, key=key, headers={"Accept": "*/*"})
        assert head.status == 200


def test_health_says_more_to_an_admitted_caller(service: Service) -> None:
    with service.client("") as anyone, service.client() as admitted:
        assert anyone.get("/v1/health").json() == {"status": "ok"}
        report = admitted.get("/v1/exec/health").json()
    assert report["status"] == "ok"
    assert report["store"] == {"ready": True}
    assert report["executor"] == {"ready": True, "running": 0, "capacity": 4}
    assert report["languages"] == {"py": {"present": True, "version": "Python 3.13"}}
    assert report["layers"] == {"clean": {"active": True, "required": True, "detail": "shown"}}


def test_a_head_request_gets_the_headers_of_a_get_and_no_body(service: Service) -> None:
    with service.client() as client:
        session = client.post("/v1/upload", files={"file": ("a.txt", b"12345")}).json()["session_id"]
        listed = client.get(f"/v1/files/{session}")
        head = client.head(f"/v1/files/{session}")
        assert head.status_code == 200
        assert head.headers["content-length"] == listed.headers["content-length"]
        assert head.content == b""
        file = client.head(f"/v1/download/{session}/a.txt")
        assert file.status_code == 200
        assert file.headers["content-length"] == "5"
        assert file.headers["etag"] == client.get(f"/v1/download/{session}/a.txt").headers["etag"]
        assert client.head(f"/v1/download/{session}/b.txt").status_code == 404


def test_every_answer_has_a_fresh_request_id_of_ours(service: Service) -> None:
    seen = set()
    for target, key in (("/v1/health", ""), ("/nowhere", ""), ("/nowhere", service.key), ("/", "")):
        for _ in range(2):
            answer = service.ask("GET", target, key=key, headers={"X-Request-Id": "mine"})
            seen.add(answer.headers["x-request-id"])
    assert len(seen) == 8
    assert "mine" not in seen


@pytest.mark.doors("local", why="a gateway refuses it before it makes an event")
def test_what_is_no_http_gets_an_error_body_too(service: Service) -> None:
    for raw in (b"nonsense\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"):
        answer = service.send(raw)
        assert answer.status == 400
        assert b'"error":"invalid_request"' in answer.body
        assert answer.headers["x-request-id"]


@pytest.mark.doors("local", why="the gateway keeps the connections there")
def test_a_connection_is_kept_and_serves_the_next_request(service: Service) -> None:
    with service.client() as client:
        ports = set()
        for _ in range(5):
            answer = client.get("/v1/health")
            ports.add(answer.extensions["network_stream"].get_extra_info("client_addr")[1])
        assert len(ports) == 1


@pytest.mark.parametrize("target", ["/v1/exec/files/{}/", "/v1/files/{}/", "/v1/exec/download/{}/", "/v1/download/{}/"])
def test_H2_a_trailing_slash_is_another_address(service: Service, target: str) -> None:
    with service.client() as client:
        session = client.post("/v1/exec", json={"lang": "py", "code": "{}"}).json()["session_id"]
    assert service.ask("GET", target.format(session)).status == 404
    assert service.ask("DELETE", target.format(session)).status == 404
