"""Every route of Sessions, Environments and agents: the checks before it, its methods, and the gate of its body.

agents.md 1.1, 1.2, 1.4, 11.17, 11.34.
"""

from __future__ import annotations

import json

import pytest

from tests.agents.asking import BETA, JSON
from tests.agents.talking import AGENTS, ENVIRONMENTS, SESSIONS, Talk, Things, check_error, check_missing
from tests.agents.test_common import NO_BETA, NO_KEY, NO_METHOD, NO_ROUTE

S = SESSIONS + "/{s}"
E = ENVIRONMENTS + "/{e}"
ROUTES = {
    AGENTS: "GET, HEAD, POST",
    AGENTS + "/{a}": "GET, HEAD, POST, DELETE",
    SESSIONS: "GET, HEAD, POST",
    S: "GET, HEAD, POST, DELETE",
    S + "/events": "GET, POST",
    S + "/turns": "GET, HEAD",
    S + "/turns/{t}": "GET, HEAD",
    S + "/turns/{t}/items": "GET, HEAD",
    S + "/items": "GET, HEAD",
    S + "/subagents": "GET, HEAD",
    S + "/artifacts": "GET, HEAD",
    S + "/artifacts/{x}": "GET, HEAD, DELETE",
    S + "/artifacts/{x}/content": "GET",
    E: "GET, HEAD",
    E + "/files": "GET, POST",
}
"""Each path with what `Allow` says, in its order."""
UNSERVED = [
    AGENTS + "/", AGENTS + "/{a}/", AGENTS + "/{a}/x", SESSIONS + "/", S + "/", S + "/nothing", S + "/events/",
    S + "/turns/", S + "/turns/{t}/", S + "/turns/{t}/nothing", S + "/turns/{t}/items/", S + "/items/",
    S + "/items/{i}", S + "/subagents/", S + "/subagents/x", S + "/artifacts/", S + "/artifacts/{x}/",
    S + "/artifacts/{x}/nothing", S + "/artifacts/{x}/content/", S + "/traces", S + "/traces/x", ENVIRONMENTS,
    ENVIRONMENTS + "/", E + "/", E + "/files/", E + "/files/x", ENVIRONMENTS + "/templates",
    ENVIRONMENTS + "/templates/x", AGENTS + "/automations", AGENTS + "/automations/x", AGENTS + "/traces",
    "/v1/vaults", "/v1/vaults/x/credentials",
]  # fmt: skip
VERBS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
HEADED = [path for path, allowed in ROUTES.items() if "HEAD" in allowed.split(", ")]
MADE = [
    (method, path)
    for path, allowed in ROUTES.items()
    for method in allowed.split(", ")
    if method != "HEAD" and "{" in path
]


@pytest.mark.parametrize("path", ROUTES)
def test_beta_comes_before_the_key_and_the_key_before_the_method(talk: Talk, things: Things, path: str) -> None:
    allowed = ROUTES[path].split(", ")
    target = things.at(path)
    for method in VERBS:
        without = talk.asker.ask(method, target, key="")
        closed = talk.asker.ask(method, target, BETA, key="")
        wrong = talk.asker.ask(method, target, ("OpenAI-Beta", "agents=v0"))
        if method != "HEAD":
            assert (without.body, wrong.body, closed.body) == (NO_BETA, NO_BETA, NO_KEY), method
        assert (without.status, wrong.status, closed.status) == (400, 400, 401), method
        assert closed.headers["www-authenticate"] == "Bearer"
        if method in allowed:
            continue
        refused = talk.ask(method, target)
        assert (refused.status, refused.headers["allow"]) == (405, ROUTES[path]), method
        if method != "HEAD":
            assert refused.body == NO_METHOD


@pytest.mark.parametrize("path", ROUTES)
def test_a_wrong_method_is_told_whoever_owns_the_address(
    talk: Talk, things: Things, foreign: Things, path: str
) -> None:
    answers = [talk.ask("PATCH", one.at(path)) for one in (things, foreign, things.unknown())]
    assert {(answer.status, answer.body, answer.headers["allow"]) for answer in answers} == {
        (405, NO_METHOD, ROUTES[path])
    }


@pytest.mark.parametrize("path", UNSERVED)
def test_an_address_that_is_none_is_400_then_401_then_404(talk: Talk, things: Things, path: str) -> None:
    target = things.at(path)
    for method in ("GET", "POST", "DELETE", "PUT"):
        without = talk.asker.ask(method, target)
        closed = talk.asker.ask(method, target, BETA, key="")
        opened = talk.ask(method, target)
        assert (without.status, without.body) == (400, NO_BETA)
        assert (closed.status, closed.body) == (401, NO_KEY)
        assert (opened.status, opened.body) == (404, NO_ROUTE)


@pytest.mark.parametrize("path", HEADED)
def test_a_head_is_a_get_without_its_body(talk: Talk, things: Things, foreign: Things, path: str) -> None:
    for one in (things, foreign):
        got, head = talk.ask("GET", one.at(path)), talk.ask("HEAD", one.at(path))
        assert (head.status, head.body) == (got.status, b"")
        assert head.headers["content-length"] == str(len(got.body))
        assert head.headers["content-type"] == got.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("method", "path"), MADE)
def test_missing_malformed_and_foreign_ids_have_one_answer(
    talk: Talk, things: Things, foreign: Things, method: str, path: str
) -> None:
    if method == "GET" and path == S + "/events" and talk.asker.service.door != "local":
        pytest.skip("a door without streams refuses them before it looks")
    malformed = Things(*(["%00"] * 6)), Things(*(["x" * 300] * 6)), Things(*(["%ff%20.."] * 6)), Things(*(["..."] * 6))
    body = b'{"events": [{"type": "agent.session.input.cancel"}]}' if path == S + "/events" else b"{}"
    headers = (JSON,) if method == "POST" else ()
    for one in (things.unknown(), foreign, *malformed):
        check_missing(talk.ask(method, one.at(path), *headers, body=body if method == "POST" else b""))


@pytest.mark.parametrize("path", [S + "/turns/{t}", S + "/turns/{t}/items", S + "/artifacts/{x}",
                                  S + "/artifacts/{x}/content"])  # fmt: skip
def test_what_belongs_to_another_session_is_missing(talk: Talk, things: Things, path: str) -> None:
    other = talk.create()["id"]
    check_missing(talk.ask("GET", Things(other, "", things.turn, "", things.artifact, "").at(path)))


@pytest.mark.parametrize("name", ["OpenAI-Organization", "OpenAI-Project"])
def test_a_scope_is_the_keys_or_401(talk: Talk, things: Things, name: str) -> None:
    target = things.at(S)
    assert talk.ask("GET", target, (name, "first")).status == 200
    for values in (["second"], [""], ["first", "first"], ["first,second"]):
        answer = talk.ask("GET", target, *[(name, value) for value in values])
        assert (answer.status, answer.body) == (401, NO_KEY), values


def test_a_tenant_of_the_callers_own_is_ignored(talk: Talk, things: Things, foreign: Things) -> None:
    header = ("X-Tenant-ID", "second")
    assert talk.ask("GET", things.at(S) + "?tenant_id=second", header).status == 200
    check_missing(talk.ask("GET", foreign.at(S) + "?tenant_id=second", header))


# -- the gate of a body (1.4)

BODIES = [AGENTS, AGENTS + "/{a}", SESSIONS, S, S + "/events", E + "/files"]
TYPE = "expected request with Content-Type: application/json"
UNICODE = (
    "Invalid body: encountered a unicode decode error when parsing this JSON value. Please check the value to ensure "
    "it is valid unicode."
)
BROKEN = (
    "Invalid body: failed to parse JSON value. Please check the value to ensure it is valid JSON. (Common errors "
    "include trailing commas, missing closing brackets, missing quotation marks, etc.)"
)
TWICE = "Invalid body: duplicate JSON key 'b' at 'a.b'. Duplicate JSON keys are not supported."
NO_OBJECT = "Invalid type: expected an object, but got {} instead."
GATE = [
    (b'"\xff"', UNICODE), (b"{", BROKEN), (b"{} {}", BROKEN), (b"\xef\xbb\xbf{}", BROKEN), (b"  \n", BROKEN),
    (b'{"a": "\\ud800"}', BROKEN), (b'{"a": NaN}', BROKEN), (b'{"a": [{"b": 1, "b": 2}]}', TWICE),
    (b'{"a": [{"b": 1, "b": "\xff"}]}', UNICODE), (b'{"a": [{"b": 1, "b": 2}]', BROKEN),
    (b"[]", NO_OBJECT.format("an array")), (b'"a"', NO_OBJECT.format("a string")),
    (b"1", NO_OBJECT.format("an integer")), (b"1.5", NO_OBJECT.format("a number")),
    (b"true", NO_OBJECT.format("a boolean")),
]  # fmt: skip


@pytest.mark.parametrize("path", BODIES)
def test_the_gate_of_a_body_comes_before_every_lookup(talk: Talk, things: Things, foreign: Things, path: str) -> None:
    for one in (things, foreign, things.unknown()):
        target = one.at(path)
        for headers in ((), (("Content-Type", "text/plain"),), (JSON, JSON), (("Content-Type", "application/jsonx"),)):
            check_error(talk.ask("POST", target, *headers, body=b"["), 400, TYPE)
        check_error(talk.ask("POST", target), 400, TYPE)
        for body, text in GATE:
            check_error(talk.ask("POST", target, JSON, body=body), 400, text)


@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x.y+json"])
def test_every_media_type_of_json_is_taken(talk: Talk, media: str) -> None:
    answer = talk.ask("POST", AGENTS, ("Content-Type", media), body=b'{"model": "program:py"}')
    assert answer.status == 201, answer.body


@pytest.mark.parametrize("body", [b"", b"null"])
def test_an_empty_body_and_null_are_an_empty_object(talk: Talk, things: Things, body: bytes) -> None:
    one = "At least one update field is required"
    check_error(talk.ask("POST", things.at(S), JSON, body=body), 400, one)
    check_error(talk.ask("POST", things.at(AGENTS + "/{a}"), JSON, body=body), 400, one)
    check_error(
        talk.ask("POST", SESSIONS, JSON, body=body), 400, "Missing required parameter: 'environment'.",
        param="environment",
    )  # fmt: skip
    check_error(talk.ask("POST", AGENTS, JSON, body=body), 400, "Missing required parameter: 'model'.", param="model")
    check_error(
        talk.ask("POST", things.at(S + "/events"), JSON, body=body), 400, "Missing required parameter: 'events'.",
        param="events",
    )  # fmt: skip
    check_error(
        talk.ask("POST", things.at(E + "/files"), JSON, body=body), 400,
        "Invalid resource identifier or request limits.", "invalid_request",
    )  # fmt: skip


MIB = 1 << 20


@pytest.mark.parametrize("path", [AGENTS, AGENTS + "/{a}", S, S + "/events"])
def test_a_body_of_a_mebibyte_is_taken_and_one_more_byte_is_not(
    talk: Talk, things: Things, foreign: Things, path: str
) -> None:
    for one in (things, foreign):
        large = talk.ask("POST", one.at(path), JSON, body=b"{" + b" " * MIB)
        assert (large.status, json.loads(large.body)["error"]["code"]) == (413, "request_too_large")
        assert json.loads(large.body)["error"]["type"] == "invalid_request_error"
    exact = talk.ask("POST", things.at(path), JSON, body=b"[]" + b" " * (MIB - 2))
    check_error(exact, 400, NO_OBJECT.format("an array"))


@pytest.mark.doors("local", why="what is in front of a function takes no body of this size")
@pytest.mark.parametrize(("path", "most"), [(SESSIONS, 16 * MIB), (E + "/files", 69_921_452)])
def test_the_large_bodies(talk: Talk, foreign: Things, path: str, most: int) -> None:
    size = ("Content-Length", str(most + 1))
    large = talk.asker.ask("POST", foreign.at(path), BETA, JSON, size, key=talk.key, sized=False)
    assert (large.status, json.loads(large.body)["error"]["code"]) == (413, "request_too_large")
    exact = talk.ask("POST", foreign.at(path), JSON, body=b"[]" + b" " * (most - 2))
    check_error(exact, 400, NO_OBJECT.format("an array"))


def test_what_cannot_be_printed_is_not_echoed(talk: Talk) -> None:
    for name in ("\\u0007", "n" * 300):
        body = f'{{"{name}": 1, "{name}": 2}}'.encode()
        check_error(
            talk.ask("POST", AGENTS, JSON, body=body), 400,
            "Invalid body: duplicate JSON key. Duplicate JSON keys are not supported.",
        )  # fmt: skip
        unknown = talk.ask("POST", AGENTS, JSON, body=f'{{"{name}": 1}}'.encode())
        check_error(unknown, 400, "Unknown parameter.")
