"""Which query a list takes, what comes before what, and what a body may be (agents.md 1.1, 1.4, 1.6, 1.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ConfigDict
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from functions.api.agents.queries import QUERIES, body_bytes, idempotency_key
from functions.api.agents.routes import typed_handler
from functions.api.agents.streaming import LOCAL, Streams
from functions.api.bodies import Bodies
from functions.api.workers import Workers
from shared.agents_errors import Fault, Refusal
from shared.identity import Caller
from shared.limits import Limits
from shared.operations.base import Call, Model, Operation, Route
from shared.operations.room import Room
from tests.wire.scripted import Scripted
from tests.wire.service import open_test_room

LISTS = ("agents.list", "sessions.list", "turns.list", "turns.items", "items.list", "artifacts.list",
         "environments.list_files", "subagents.list")  # fmt: skip
STRICT = ("turns.list", "artifacts.list", "environments.list_files", "subagents.list")
PARENT_FIRST = ("artifacts.list", "environments.list_files")
TWICE = "Failed to deserialize query string: duplicate field `limit`"


class Anything(Model):
    """An input that keeps whatever it gets."""

    model_config = ConfigDict(extra="allow")


class Empty(Model):
    """An output without members."""


class Made(Model):
    """An output."""

    id: str = "x"


class Scene:
    """One operation of a name at the door, and what became of it: `log` has each step in its order."""

    def __init__(self, room: Room, name: str, method: Literal["GET", "POST", "DELETE"] = "GET", *,
                 missing: bool = False, looks_up: bool = True, output: type[Model] = Made) -> None:  # fmt: skip
        self.log: list[str] = []
        self.given: dict[str, Any] = {}
        self.calls: list[Call] = []

        def lookup(room: Room, call: Call, data: dict[str, Any]) -> None:
            self.log.append("lookup")
            if missing:
                raise Refusal(Fault.NOT_FOUND)

        def reader(data: dict[str, Any]) -> Anything:
            self.log.append("read")
            self.given = data
            return Anything()

        def code(room: Room, call: Call, data: Anything) -> Model:
            self.log.append("run")
            self.calls.append(call)
            return output()

        declared: Operation[Anything, Model] = Operation(
            name=name, input=Anything, output=output, status=200, errors=(), audience="caller",
            route=Route(method, ("/v1/agents/x/{session_id}",), contract="agents"), open=False, code=code,
            lookup=lookup if looks_up else None, reader=reader,
        )  # fmt: skip
        workers = Workers(room.limits)
        self._method = method
        self._handle = typed_handler(declared, room, workers, Streams(room, workers, LOCAL))

    def ask(self, query: bytes = b"", body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> Response:
        sent = [*headers, ("content-type", "application/json")]
        scope = {
            "type": "http", "method": self._method, "path": "/", "query_string": query,
            "path_params": {"session_id": "sess_1"},
            "state": {"caller": Caller("first", "key"), "bodies": Bodies(Limits())},
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent],
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def ask() -> Response:
            return await self._handle(Request(scope, receive))

        return asyncio.run(ask())


@pytest.fixture
def place(tmp_path: Path) -> Room:
    return open_test_room(tmp_path, Limits(), Scripted())


def test_these_are_the_lists() -> None:
    assert set(QUERIES) == {*LISTS, "sources.list"}


@pytest.mark.parametrize("name", LISTS)
def test_a_parent_that_is_missing_is_found_out_before_or_after_a_bad_query(place: Room, name: str) -> None:
    for missing, query, first in ((True, b"limit=1&limit=2", None), (False, b"limit=1&limit=2", TWICE)):
        scene = Scene(place, name, missing=missing)
        with pytest.raises(Refusal) as refused:
            scene.ask(query)
        if missing and name in PARENT_FIRST:
            assert (refused.value.fault, scene.log) == (Fault.NOT_FOUND, ["lookup"])
        elif missing:
            assert (refused.value.message, scene.log) == (TWICE, [])
        else:
            assert refused.value.message == first
            assert scene.log == (["lookup"] if name in PARENT_FIRST else [])


@pytest.mark.parametrize("name", LISTS)
def test_the_parent_is_looked_up_once_and_before_the_cursor(place: Room, name: str) -> None:
    scene = Scene(place, name)
    scene.ask(b"limit=7&order=asc&after=%20x%20")
    assert scene.log == ["lookup", "read", "run"]
    expected = {"limit": 7, "order": "asc", "session_id": "sess_1"}
    assert scene.given == (expected if name == "environments.list_files" else {**expected, "after": "x"})
    gone = Scene(place, name, missing=True)
    with pytest.raises(Refusal) as refused:
        gone.ask(b"after=nothing")
    assert (refused.value.fault, gone.log) == (Fault.NOT_FOUND, ["lookup"])


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("limit", "clamped"), [(b"0", 1), (b"101", 100)])
def test_a_limit_out_of_range(place: Room, name: str, limit: bytes, clamped: int) -> None:
    scene = Scene(place, name)
    if name in STRICT:
        with pytest.raises(Refusal) as refused:
            scene.ask(b"limit=" + limit)
        assert refused.value.message == "limit must be between 1 and 100"
    else:
        scene.ask(b"limit=" + limit)
        assert scene.given["limit"] == clamped


@pytest.mark.parametrize("name", LISTS)
def test_what_a_list_does_not_know_is_ignored_and_what_is_malformed_dropped_but_of_files(
    place: Room, name: str
) -> None:
    scene = Scene(place, name)
    scene.ask(b"unknown=1&unknown=2&include_obfuscation=true&tenant_id=second&session_id=sess_2")
    assert scene.given == {"limit": 20, "order": "desc", "session_id": "sess_1"}
    if name == "environments.list_files":
        with pytest.raises(Refusal) as refused:
            scene.ask(b"limit=%GG")
        assert refused.value.fault is Fault.LOCAL
    else:
        scene.ask(b"limit=%GG&order=asc")
        assert (scene.given["limit"], scene.given["order"]) == (20, "asc")


def test_filters_of_sessions(place: Room) -> None:
    scene = Scene(place, "sessions.list")
    scene.ask(b"agent_id=&metadata%5Bteam%5D=a%20b&metadata[k]=v&metadata%5B%C3%A9%5D=")
    assert scene.given["agent_id"] == ""
    assert scene.given["metadata"] == {"team": "a b", "k": "v", "é": ""}
    scene.ask(
        b"metadata=x&metadata%5B%5D=x&metadata%5Bk=x&metadata%5Bk%5D%5Bl%5D=x&metadata%5Bk%5Dx=y&xmetadata%5Bk%5D=x"
    )
    assert "metadata" not in scene.given
    with pytest.raises(Refusal) as refused:
        scene.ask(b"metadata%5Bk%5D=1&metadata[k]=2")
    assert refused.value.message == "Failed to deserialize query string: duplicate field `metadata[k]`"


def test_filters_of_artifacts_and_files(place: Room) -> None:
    scene = Scene(place, "artifacts.list")
    scene.ask(b"environment_id=env_x&agent_id=a&metadata%5Bk%5D=v&path=/workspace")
    assert scene.given == {"limit": 20, "order": "desc", "environment_id": "env_x", "session_id": "sess_1"}
    files = Scene(place, "environments.list_files")
    files.ask(b"path=&page=&after=x")
    assert files.given == {"limit": 20, "order": "desc", "path": "", "page": "", "session_id": "sess_1"}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_single_resource_ignores_its_query_and_its_body(place: Room, method: Literal["GET", "DELETE"]) -> None:
    scene = Scene(place, "turns.get", method)
    scene.ask(b"limit=x&limit=y&session_id=other&%GG", b"not JSON", [("content-length", "999999999")])
    assert scene.given == {"session_id": "sess_1"}


def test_the_body_gate_comes_before_the_lookup_and_the_lookup_before_the_body_is_read(place: Room) -> None:
    for body, log, fault in ((b"[", [], Fault.INVALID), (b'{"a": 1}', ["lookup"], Fault.NOT_FOUND)):
        scene = Scene(place, "sessions.update", "POST", missing=True)
        with pytest.raises(Refusal) as refused:
            scene.ask(b"", body)
        assert (refused.value.fault, scene.log) == (fault, log)


def test_an_operation_without_a_lookup_reads_its_body_first(place: Room) -> None:
    scene = Scene(place, "events.create", "POST", looks_up=False)
    scene.ask(b"events=x", b'{"events": []}')
    assert scene.log == ["read", "run"]
    assert scene.given == {"events": [], "session_id": "sess_1"}


def test_a_member_of_the_path_is_none_of_the_body(place: Room) -> None:
    scene = Scene(place, "sessions.update", "POST")
    with pytest.raises(Refusal) as refused:
        scene.ask(b"", b'{"session_id": "sess_2"}')
    assert (refused.value.status, refused.value.param) == (400, "session_id")
    assert scene.log == ["lookup"]


@pytest.mark.parametrize(
    ("name", "most"),
    [("sessions.create", 16_777_216), ("environments.create_file", 69_921_452), ("events.create", 1_048_576),
     ("sessions.update", 1_048_576), ("agents.create", 1_048_576)],
)  # fmt: skip
def test_the_largest_body_of_each(place: Room, name: str, most: int) -> None:
    assert body_bytes(name) == most
    scene = Scene(place, name, "POST")
    with pytest.raises(Refusal) as refused:
        scene.ask(headers=[("content-length", str(most + 1))])
    assert (refused.value.fault, scene.log) == (Fault.TOO_LARGE, [])
    fitting = b'{"a": "' + b"x" * (1_048_576 - 9) + b'"}'
    scene.ask(b"", fitting)
    assert scene.log[-1] == "run"


def test_an_output_without_members_is_an_empty_answer(place: Room) -> None:
    answer = Scene(place, "events.create", "POST", output=Empty).ask(b"", b"{}")
    assert (answer.body, answer.headers["content-length"]) == (b"", "0")
    assert Scene(place, "agents.create", "POST").ask(b"", b"{}").body == b'{"id":"x"}'


@pytest.mark.parametrize("key", [" ", "\t \xa0", "x" * 129])
def test_an_idempotency_key_that_cannot_be_one(place: Room, key: str) -> None:
    for name in ("sessions.create", "events.create"):
        scene = Scene(place, name, "POST")
        with pytest.raises(Refusal) as refused:
            scene.ask(b"", b"{}", [("idempotency-key", key)])
        assert (refused.value.fault, scene.log) == (Fault.LOCAL, [])


def test_an_idempotency_key_is_taken_where_it_means_something(place: Room) -> None:
    for name, key in (("sessions.create", "k"), ("events.create", "k"), ("sessions.update", None)):
        scene = Scene(place, name, "POST")
        scene.ask(b"", b"{}", [("idempotency-key", "k")])
        assert scene.calls[0].idempotency_key == key
    assert idempotency_key(Headers({"idempotency-key": ""})) is None
    assert idempotency_key(Headers({"idempotency-key": "x" * 128})) == "x" * 128
    twice = Scene(place, "events.create", "POST")
    with pytest.raises(Refusal) as refused:
        twice.ask(b"", b"{}", [("idempotency-key", "a"), ("idempotency-key", "a")])
    assert refused.value.fault is Fault.LOCAL
