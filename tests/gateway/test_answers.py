"""Answers on their way out: text or Base64, what is too large, what is not whole, and what a call leaves behind."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from mangum import Mangum
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from functions.api.aws import Front
from functions.api.gateway import ANSWER_BYTES, KINDS, AnswerTooLarge
from functions.api.whole import Whole
from shared.domain.manifest import Draft, Entry, Manifest
from shared.limits import Limits
from shared.operations import workspace
from shared.store.ports import StoreUnavailable
from tests.gateway.conftest import SETTINGS, Function, function_on
from tests.gateway.front import REQUEST_BYTES, Context, Environments
from tests.gateway.test_events import body_of, error_of, recorded
from tests.wire.service import expect_eventually


def answered(response: Response, method: str = "GET") -> dict[str, Any]:
    """What becomes of a response."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await response(scope, receive, send)

    event = recorded("http-api-get")
    event["requestContext"]["http"]["method"] = method
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return Mangum(Whole(app), lifespan="off", custom_handlers=list(KINDS))(event, Context())  # type: ignore[arg-type]
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@pytest.mark.parametrize(
    ("body", "media", "encoded"),
    [
        (b"plain", "text/plain", False),
        ("π 🤣".encode(), "application/json", False),
        (b"\xff\xfe", "text/plain", True),
        (b"", "application/octet-stream", False),
        (b"plain", "application/octet-stream", True),
        (b"<svg/>", "image/svg+xml", True),
        (b"\0" * 2_000_000, "text/plain", True),
        (b"x" * 2_000_000, "text/plain", False),
    ],
)
def test_a_body_is_text_or_base64_and_never_changed(body: bytes, media: str, encoded: bool) -> None:
    made = answered(Response(body, 200, media_type=media))
    assert made["isBase64Encoded"] is encoded
    assert body_of(made) == body
    assert len(json.dumps(made)) < ANSWER_BYTES


@pytest.mark.parametrize("body", [bytes(4_700_000), b"\0" * 5_000_000, b"x" * 6_300_000])
def test_an_answer_that_lambda_does_not_carry_is_not_made(body: bytes) -> None:
    with pytest.raises(AnswerTooLarge):
        answered(Response(body, 200, media_type="text/plain" if body[:1] == b"x" else "application/octet-stream"))


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_an_answer_without_a_body_has_none(method: str, status: int) -> None:
    made = answered(Response(b"12345", status, {"ETag": '"x"'}), method)
    assert (made["statusCode"], made["body"], made["isBase64Encoded"]) == (status, "", False)
    assert made["headers"]["etag"] == '"x"'
    if method == "HEAD":
        assert made["headers"]["content-length"] == "5"


def test_headers_that_go_out_twice_are_joined_and_cookies_are_a_list() -> None:
    response = Response(b"")
    response.raw_headers += [(b"Vary", b"a"), (b"vary", b"b"), (b"Set-Cookie", b"a=b"), (b"set-cookie", b"c=d; Path=/")]
    made = answered(response)
    assert made["headers"]["vary"] == "a,b"
    assert made["cookies"] == ["a=b", "c=d; Path=/"]
    assert "set-cookie" not in made["headers"]


def test_an_answer_that_breaks_off_is_an_error_with_its_id() -> None:
    async def pieces() -> Any:
        yield b"begun"

    class Broken(StreamingResponse):
        async def stream_response(self, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x-request-id", b"abc")]})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})

    made = answered(Broken(pieces()))
    assert error_of(made) == (500, "internal_error")
    assert made["headers"]["x-request-id"] == "abc"


def test_a_listing_that_is_too_large_says_so(tmp_path: Path) -> None:
    """A run's own answer is bounded by its limits; a listing of 10,000 names of 500 bytes only by the door."""
    folder = "/".join(["d" * 240] * 2)
    with function_on(tmp_path, Limits()) as function:
        draft = Draft(Manifest())
        for number in range(10_000):
            draft.put(Entry(f"{folder}/{number:018}", "file", 0o644))
        opened = workspace.fresh(function.room, "first")
        workspace.commit_run(function.room, opened, draft.done())
        event = recorded("http-api-get", function.key)
        event["rawPath"], event["rawQueryString"] = f"/v1/files/{opened.session}", ""
        answer = function(event)
        assert error_of(answer) == (400, "invalid_request")
        assert "larger than this address carries" in answer["body"]


def test_a_call_leaves_no_thread_and_no_task_behind(function: Function) -> None:
    event = recorded("http-api-post", function.key)
    function(event)
    before = set(threading.enumerate())
    for _ in range(20):
        assert function(event)["statusCode"] == 200
    expect_eventually(lambda: set(threading.enumerate()) <= before)
    stopped = function.room.executor.stopped  # type: ignore[attr-defined]
    assert stopped == [], "no call was taken for one whose client went away"


def test_an_mcp_call_leaves_no_thread_behind(function: Function) -> None:
    event = recorded("http-api-post", function.key)
    event["rawPath"] = "/mcp"
    event["headers"]["accept"] = "application/json, text/event-stream"
    event["body"] = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    function(event)
    before = set(threading.enumerate())
    for _ in range(5):
        answer = function(event)
        assert answer["statusCode"] == 200
        assert json.loads(body_of(answer))["result"]["tools"]
    expect_eventually(lambda: set(threading.enumerate()) <= before)


def test_the_front_refuses_an_event_and_an_answer_above_what_lambda_takes() -> None:
    taken: list[Any] = []

    def handler(event: Any, context: Any) -> dict[str, Any]:
        taken.append(event)
        return {"statusCode": 200, "headers": {}, "body": "x" * ANSWER_BYTES, "isBase64Encoded": False}

    environments = Environments(lambda: handler)
    event = {**recorded("http-api-post"), "body": "x" * REQUEST_BYTES}
    assert environments.invoke(event)[0] == 413
    assert taken == []
    assert environments.invoke(recorded("http-api-post"))[0] == 502


def test_a_store_that_cannot_be_reached_is_503_and_tried_again(function: Function) -> None:
    calls = 0

    def room() -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StoreUnavailable("secret table name")
        return function.room

    front = Front(room, lambda: SETTINGS)
    first = front(recorded("http-api-post", function.key), Context())
    assert error_of(first) == (503, "store_unavailable")
    assert "secret" not in json.dumps(first)
    for _ in range(2):
        assert front(recorded("http-api-post", function.key), Context())["statusCode"] == 200
    assert calls == 2
