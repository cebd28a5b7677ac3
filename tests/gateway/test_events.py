"""Recorded events: what the handler makes of each kind, and that everything else is refused and never raises."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mangum.types import LambdaConfig

from functions.api.gateway import FunctionUrl, HttpApi
from tests.gateway.conftest import Function
from tests.gateway.front import Context

EVENTS = Path(__file__).parent / "events"
CONFIG = LambdaConfig(api_gateway_base_path="/", text_mime_types=[], exclude_headers=[])
REFUSED = sorted(path.stem for path in EVENTS.glob("refused-*.json"))


def recorded(name: str, key: str = "") -> Any:
    return json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8").replace("KEY", key))


def body_of(answer: dict[str, Any]) -> bytes:
    raw: str = answer["body"]
    return base64.b64decode(raw, validate=True) if answer["isBase64Encoded"] else raw.encode()


def error_of(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["statusCode"], json.loads(body_of(answer))["error"]


def scope_of(event: Any) -> dict[str, Any]:
    kind = FunctionUrl if FunctionUrl.infer(event, Context(), CONFIG) else HttpApi  # type: ignore[arg-type]
    return dict(kind(event, Context(), CONFIG).scope)  # type: ignore[arg-type]


def test_a_get_of_an_http_api(function: Function) -> None:
    event = recorded("http-api-get", function.key)
    assert scope_of(event)["query_string"] == b"detail=full&detail=&x=%2B+%252F"
    # A member of the query that came twice is seen, though the gateway's own reading has joined it.
    answer = function(event)
    assert error_of(answer) == (400, "invalid_request")
    assert "`detail`" in answer["body"]


def stored(function: Function, name: str, body: bytes) -> str:
    """The session of an uploaded file."""
    head = f"--b\r\nContent-Disposition: form-data; name=\"file\"; filename*=UTF-8''{name}\r\n\r\n"
    event = recorded("http-api-multipart", function.key)
    event["headers"]["content-type"] = "multipart/form-data; boundary=b"
    event["body"] = base64.b64encode(head.encode() + body + b"\r\n--b--\r\n").decode()
    return str(json.loads(body_of(function(event)))["session_id"])


@pytest.mark.parametrize("name", ["http-api-post", "http-api-upper-case-headers", "function-url-post"])
def test_a_post(function: Function, name: str) -> None:
    answer = function(recorded(name, function.key))
    assert answer["statusCode"] == 200
    assert answer["isBase64Encoded"] is False
    assert answer["headers"]["content-type"] == "application/json"
    assert answer["headers"]["x-request-id"]
    assert all(name == name.lower() for name in answer["headers"])
    assert json.loads(answer["body"])["stdout"] == "ran"


def test_a_body_in_base64(function: Function) -> None:
    assert json.loads(function(recorded("function-url-base64", function.key))["body"])["stdout"] == "ran"


def test_a_multipart_body_and_a_binary_answer(function: Function) -> None:
    made = json.loads(function(recorded("http-api-multipart", function.key))["body"])
    assert made["files"][0]["filename"] == "données.bin"
    event = recorded("http-api-decoded-path", function.key)
    event["rawPath"] = f"/v1/download/{made['session_id']}/données.bin"
    answer = function(event)
    assert answer["isBase64Encoded"] is True
    assert body_of(answer) == bytes(range(256))
    assert answer["headers"]["content-length"] == "256"
    event["requestContext"]["http"]["method"] = "HEAD"
    head = function(event)
    assert (head["statusCode"], head["body"], head["isBase64Encoded"]) == (200, "", False)
    assert head["headers"]["content-length"] == "256"


def test_cookies_are_a_header_and_no_credential(function: Function) -> None:
    event = recorded("http-api-cookies", function.key)
    headers = dict(scope_of(event)["headers"])
    first = b"s_fid=7AAB6XMPLAFD9BBF-0643XMPL09956DE2; regStatus=pre-register; key="
    assert headers[b"cookie"] == first + function.key.encode()
    assert json.loads(function(event)["body"]) == {"status": "ok"}


def test_the_decoded_path_of_an_http_api_is_decoded_no_further(function: Function) -> None:
    for name in ("données/100% sûr?.csv", "%2e%2e", "a%2Fb", "a+b c#d", "%", "%zz"):
        session = stored(function, "".join(f"%{byte:02x}" for byte in name.encode()), name.encode())
        event = recorded("http-api-decoded-path", function.key)
        event["rawPath"] = f"/v1/download/{session}/{name}"
        assert body_of(function(event)) == name.encode()


def test_the_path_of_a_function_url_is_decoded_once(function: Function) -> None:
    session = stored(function, "donn%C3%A9es%2F100%25.csv", b"x")
    event = recorded("function-url-get", function.key)
    event["rawPath"] = event["rawPath"].replace("A" * 21, session)
    assert body_of(function(event)) == b"x"
    assert error_of(function(recorded("function-url-encoded-letter", function.key))) == (404, "not_found")


def test_a_named_stage_is_no_part_of_the_path(function: Function) -> None:
    assert function(recorded("http-api-named-stage"))["statusCode"] == 200
    event = recorded("http-api-named-stage")
    for path, raw in (("/prod", b"/"), ("/prod/", b"/"), ("/product/x", b"/product/x"), ("/v1/prod", b"/v1/prod")):
        assert scope_of({**event, "rawPath": path})["raw_path"] == raw


@pytest.mark.parametrize("kind", ["http-api-post", "function-url-post"])
def test_a_header_that_came_twice_is_refused(function: Function, kind: str) -> None:
    good = recorded(kind, function.key)
    rows = [
        ({"x-api-key": f"{function.key},{function.key}"}, 401),
        ({"x-api-key": f"{function.key}, {function.key}"}, 401),
        ({"x-api-key": f"{function.key},"}, 401),
        ({"x-api-key": f",{function.key}"}, 401),
        # Beside a valid key, a Bearer of another format is ignored: two of them are not.
        ({"authorization": "Bearer a"}, 200),
        ({"authorization": "Bearer a,Basic Yg=="}, 401),
        ({"authorization": f"Bearer {function.key},Bearer {function.key}"}, 401),
        ({"X-API-KEY": function.key}, 401),
        ({"idempotency-key": "a,a"}, 400),
        ({"content-length": "3,4"}, 400),
        ({"content-length": "-1"}, 400),
    ]
    for more, status in rows:
        answer = function({**good, "headers": {**good["headers"], **more}})
        assert answer["statusCode"] == status, more


def test_the_recorded_joined_key_is_refused(function: Function) -> None:
    assert error_of(function(recorded("http-api-joined-headers", function.key))) == (401, "unauthorized")


def test_a_condition_that_came_twice_is_not_the_condition(function: Function) -> None:
    asked = json.dumps({"name": "b", "size": 1, "sha256": "0" * 64})
    event = {**recorded("http-api-post", function.key), "body": asked}
    grant = json.loads(function({**event, "rawPath": "/v1/exec/uploads"})["body"])
    put = recorded("http-api-post")
    put["requestContext"]["http"]["method"], put["rawPath"] = "PUT", grant["url"]
    put["headers"]["if-none-match"], put["body"] = "*,*", "x"
    answer = function(put)
    assert error_of(answer) == (400, "invalid_request")
    assert "`If-None-Match`" in answer["body"]


@pytest.mark.parametrize("name", REFUSED)
def test_another_event_is_400_in_the_shape_of_every_error(function: Function, name: str) -> None:
    answer = function(recorded(name))
    assert error_of(answer) == (400, "invalid_request")
    assert set(json.loads(answer["body"])) == {"error", "message"}
    assert answer["headers"]["x-request-id"]


def test_there_is_a_sample_of_each_source_that_is_refused() -> None:
    assert len(REFUSED) == 6


BROKEN: list[dict[str, Any]] = [
    {"rawPath": None},
    {"rawPath": 5},
    {"rawQueryString": []},
    {"headers": ["x"]},
    {"headers": {"x-api-key": ["KEY"]}},
    {"headers": {"x-api-key": None}},
    {"cookies": "a=b"},
    {"body": 5},
    {"body": "!!!", "isBase64Encoded": True},
    {"body": "é", "isBase64Encoded": True},
    {"requestContext": {}},
    {"requestContext": {"http": None}},
    {"requestContext": {"http": {}}},
    {"requestContext": {"http": {"method": "G T"}}},
    {"requestContext": {"http": {"method": "GET"}, "domainName": 5}},
    {"version": 2.0},
]


@pytest.mark.parametrize("more", BROKEN)
@pytest.mark.parametrize("kind", ["http-api-post", "function-url-post"])
def test_an_event_that_cannot_be_read_is_400(function: Function, kind: str, more: dict[str, Any]) -> None:
    assert error_of(function({**recorded(kind, function.key), **more})) == (400, "invalid_request")


@pytest.mark.parametrize("event", [None, [], "x", 5, {}, {"version": "2.0"}])
def test_what_is_no_event_at_all_is_400(function: Function, event: object) -> None:
    assert error_of(function(event)) == (400, "invalid_request")


TEXT = st.text(st.characters(), max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["version", "rawPath", "rawQueryString", "headers", "cookies", "body", "isBase64Encoded", "requestContext"]
MORE = st.dictionaries(st.sampled_from(FIELDS), VALUE, max_size=4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    more=st.dictionaries(st.sampled_from(FIELDS), VALUE, max_size=4), kind=st.sampled_from(["http-api", "function-url"])
)
def test_no_event_raises(function: Function, more: dict[str, Any], kind: str) -> None:
    answer = function({**recorded(f"{kind}-post", function.key), **more})
    assert 200 <= answer["statusCode"] < 500, more
    json.dumps(answer)


@settings(max_examples=200, deadline=None)
@given(path=st.text(st.characters(exclude_characters="\0"), max_size=30))
def test_what_decodes_the_path_once_has_the_text_that_came(path: str) -> None:
    event = {**recorded("http-api-get"), "rawPath": f"/x{path}"}
    raw = scope_of(event)["raw_path"].decode("ascii")
    assert unquote(raw, errors="surrogatepass") == f"/x{path}"


def test_a_request_without_a_query_has_none() -> None:
    assert scope_of(recorded("http-api-post"))["query_string"] == b""


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=30))
def test_the_path_of_a_function_url_and_every_query_stay_as_they_were_sent(text: str) -> None:
    for name in ("http-api-get", "function-url-get"):
        assert scope_of({**recorded(name), "rawQueryString": text})["query_string"] == text.encode()
    assert scope_of({**recorded("function-url-get"), "rawPath": f"/{text}"})["raw_path"] == f"/{text}".encode()
