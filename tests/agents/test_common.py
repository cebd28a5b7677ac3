"""The order of checks, credentials, methods and envelopes (agents.md 1.1 to 1.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.agents_errors import Fault, Refusal, as_refusal
from shared.errors import Code, Failure
from shared.limits import Limits
from shared.store.ports import Item, StoreUnavailable
from tests.agents.asking import BETA, Asker, envelope
from tests.wire.scripted import Scripted
from tests.wire.service import ON_AWS, open_test_room, serving

REQUEST = "invalid_request_error"
NO_BETA = envelope(
    "To access the Agents API, set the 'OpenAI-Beta' header to 'agents=v1'.", "invalid_beta", "invalid_beta"
)
NO_KEY = envelope("A valid Agents API bearer key is required.", REQUEST, None)
BAD_KEY = envelope("A valid Agents API bearer key is required.", REQUEST, "invalid_api_key")
NO_ROUTE = envelope("This API operation is not supported.", REQUEST, "unsupported_operation")
NO_METHOD = envelope("This API method is not supported.", REQUEST, "unsupported_operation")
NO_FILE = envelope("Resource not found.", REQUEST, None, "id")

UNSERVED = [
    "/v1/agents/nothing/at/all", "/v1/agents/environments/templates", "/v1/agents/", "/v1/vaults", "/v1/vaults/x",
    "/v1/agents/traces",
]  # fmt: skip
UNSERVED_FILES = [
    "/v1/files/", "/v1/files/file-abc/", "/v1/files/file-abc/nothing", "/v1/files/short/content/", "/v1/uploads/",
    "/v1/uploads/x/nothing", "/v1/uploads/x/y/z",
]  # fmt: skip


@pytest.mark.parametrize("target", UNSERVED)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PATCH"])
def test_an_unserved_beta_route_is_400_then_401_then_404(api: Asker, target: str, method: str) -> None:
    without = api.ask(method, target, key="")
    assert (without.status, without.body) == (400, NO_BETA)
    closed = api.ask(method, target, BETA, key="")
    assert (closed.status, closed.body, closed.headers["www-authenticate"]) == (401, NO_KEY, "Bearer")
    opened = api.ask(method, target, BETA)
    assert (opened.status, opened.body) == (404, NO_ROUTE)


@pytest.mark.parametrize("target", UNSERVED_FILES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
def test_an_unserved_file_route_is_401_then_404_whatever_the_beta_header(api: Asker, target: str, method: str) -> None:
    for headers in ((), (BETA,), (("OpenAI-Beta", "agents=v0"),)):
        closed = api.ask(method, target, *headers, key="")
        assert (closed.status, closed.body) == (401, NO_KEY)
        opened = api.ask(method, target, *headers)
        assert (opened.status, opened.body) == (404, NO_ROUTE)


@pytest.mark.parametrize("values", [[], ["agents=v0"], ["agents=v1", "agents=v1"], ["agents=v1,agents=v1"], [""],
                                    ["AGENTS=V1"], ["agents=v1;x"]])  # fmt: skip
def test_the_beta_header_is_exactly_one_value(api: Asker, values: list[str]) -> None:
    for key in ("", None):
        answer = api.ask("GET", "/v1/agents/nothing", *[("OpenAI-Beta", value) for value in values], key=key)
        assert (answer.status, answer.body) == (400, NO_BETA)


def credentials(key: str) -> list[tuple[list[str], bool]]:
    """Header values, and whether they are one bearer credential."""
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    return [
        ([], False), ([key], False), ([f"Basic {key}"], False), (["Bearer"], False), (["Bearer "], False),
        ([f"Bearer {key}", f"Bearer {key}"], False), ([f"Bearer {wrong}"], True), (["Bearer x"], True),
    ]  # fmt: skip


def test_only_one_bearer_key_is_admitted(api: Asker) -> None:
    for values, rejected in credentials(api.service.key):
        headers = [("Authorization", value) for value in values]
        files = api.ask("GET", "/v1/files", *headers, key="")
        assert (files.status, files.body) == (401, BAD_KEY if rejected else NO_KEY), values
        beta = api.ask("GET", "/v1/agents/nothing", BETA, *headers, key="")
        assert (beta.status, beta.body) == (401, NO_KEY), values
        assert beta.headers["www-authenticate"] == files.headers["www-authenticate"] == "Bearer"
    other = api.ask("GET", "/v1/files", ("X-API-Key", api.service.key), key="")
    assert (other.status, other.body) == (401, NO_KEY)


@pytest.mark.parametrize("name", ["OpenAI-Organization", "OpenAI-Project"])
def test_a_scope_that_a_client_names_is_the_keys(api: Asker, name: str) -> None:
    assert api.ask("GET", "/v1/files", (name, "first")).status == 200
    for values in (["second"], [""], ["first", "first"], ["first,first"]):
        answer = api.ask("GET", "/v1/files", *[(name, value) for value in values])
        assert (answer.status, answer.body) == (401, BAD_KEY), values


def test_a_tenant_of_the_callers_own_is_ignored(api: Asker) -> None:
    ident = api.made()["id"]
    for headers in ((("X-Tenant-ID", "second"),), (("tenant_id", "second"),)):
        assert api.ask("GET", f"/v1/files/{ident}?tenant_id=second", *headers).status == 200


METHODS = [
    ("/v1/files", "GET, HEAD, POST"), ("/v1/files/file-x", "GET, HEAD, DELETE"), ("/v1/files/file-x/content", "GET"),
    ("/v1/uploads", "POST"), ("/v1/uploads/x/parts", "POST"), ("/v1/uploads/x/complete", "POST"),
    ("/v1/uploads/x/cancel", "POST"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "allowed"), METHODS)
def test_a_wrong_method_is_401_and_then_405(api: Asker, target: str, allowed: str) -> None:
    for method in ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"):
        if method in allowed.split(", "):
            continue
        assert api.ask(method, target, key="").status == 401, method
        answer = api.ask(method, target)
        assert (answer.status, answer.headers["allow"]) == (405, allowed), method
        if method != "HEAD":
            assert answer.body == NO_METHOD


def test_head_has_the_checks_and_the_headers_of_get(api: Asker) -> None:
    ident = api.made()["id"]
    for target in ("/v1/files?limit=1", f"/v1/files/{ident}", "/v1/files/file-x"):
        got, head = api.ask("GET", target), api.ask("HEAD", target)
        assert (head.status, head.body) == (got.status, b"")
        assert head.headers["content-length"] == str(len(got.body))


def test_double_slashes_are_collapsed(api: Asker) -> None:
    assert api.ask("GET", "//v1//files").status == 200


def test_an_exec_id_below_files_stays_the_other_contracts(api: Asker) -> None:
    for target in ("/v1/files/" + "A" * 21, "/v1/files/" + "A" * 21 + "/x/y"):
        answer = api.service.ask("GET", target)
        assert answer.status in (404, 405)
        assert b'"error":"' in answer.body
    ours = api.ask("GET", "/v1/files/file-" + "A" * 16)
    assert (ours.status, ours.body) == (404, NO_FILE)


def test_a_store_that_is_away_is_told_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ON_AWS:
        pytest.skip("the store of this machine is taken away")
    room = open_test_room(tmp_path, Limits(), Scripted())
    with serving(room) as running:

        def away(partition: str, sort: str) -> Item | None:
            raise StoreUnavailable("gone")

        monkeypatch.setattr(room.state, "get", away)
        answer = Asker(running).ask("GET", "/v1/files")
        assert answer.status == 503
        assert answer.body == envelope(
            "Authentication is not available at the moment.", "server_error", "authentication_unavailable"
        )
        assert "retry-after" not in answer.headers


TABLE = {
    "INVALID": (400, REQUEST, "invalid_request_error"), "LOCAL": (400, REQUEST, "invalid_request"),
    "UNCODED": (400, REQUEST, None), "REPEATED": (400, REQUEST, "unsupported_parameter"),
    "BETA": (400, "invalid_beta", "invalid_beta"), "UNAUTHENTICATED": (401, REQUEST, None),
    "BAD_KEY": (401, REQUEST, "invalid_api_key"), "NO_CALLER": (403, REQUEST, "forbidden"),
    "NOT_FOUND": (404, "not_found_error", "not_found_error"), "FILE_NOT_FOUND": (404, REQUEST, None),
    "UNSUPPORTED_OPERATION": (404, REQUEST, "unsupported_operation"),
    "UNSUPPORTED_METHOD": (405, REQUEST, "unsupported_operation"),
    "CONFLICT": (409, "conflict_error", "conflict_error"), "TURN_CONFLICT": (409, "conflict_error", "turn_conflict"),
    "IDEMPOTENCY_CONFLICT": (409, "conflict_error", "idempotency_conflict"),
    "ENVIRONMENT_UNAVAILABLE": (409, "conflict_error", "environment_unavailable"),
    "ENVIRONMENT_INPUT_EXPIRED": (409, "conflict_error", "environment_input_expired"),
    "ENVIRONMENT_INPUT_CANCELLED": (409, "conflict_error", "environment_input_cancelled"),
    "TOO_LARGE": (413, REQUEST, "request_too_large"), "RATE_LIMITED": (429, "rate_limit_error", "rate_limit_exceeded"),
    "INTERNAL": (500, "server_error", "internal_error"),
    "AUTHENTICATION_UNAVAILABLE": (503, "server_error", "authentication_unavailable"),
    "EXECUTION_UNAVAILABLE": (503, "server_error", "execution_unavailable"),
    "STORE_UNAVAILABLE": (503, "server_error", "store_unavailable"),
}  # fmt: skip


def test_the_table_of_errors_is_exactly_this() -> None:
    assert {fault.name: (fault.value.status, fault.value.type, fault.value.code) for fault in Fault} == TABLE


@pytest.mark.parametrize("code", Code)
def test_every_failure_of_what_is_shared_has_an_envelope(code: Code) -> None:
    refused = as_refusal(Failure(code, "secret words"))
    assert refused.status == code.status or code in (
        Code.CANCELLED, Code.UNSUPPORTED, Code.EXECUTOR_BROKEN, Code.EXECUTOR_TIMEOUT, Code.NOT_CONFIGURED,
        Code.IDEMPOTENCY_CONFLICT,
    )  # fmt: skip
    words = code in (Code.INVALID_REQUEST, Code.TOO_LARGE)
    assert (refused.envelope()["error"]["message"] == "secret words") is words


@pytest.mark.parametrize(("retry", "header"), [(None, None), (False, "false"), (True, "true")])
def test_11_19_what_the_sdk_is_told_of_sending_again(retry: bool | None, header: str | None) -> None:
    assert Refusal(Fault.TURN_CONFLICT, retry=retry).wire_headers().get("x-should-retry") == header
    assert Refusal(Fault.IDEMPOTENCY_CONFLICT).wire_headers()["x-should-retry"] == "false"
