"""Event streams of a running service (agents.md 1.1, 5.3, 9)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from shared.domain.agents import events
from shared.limits import Limits
from shared.operations.room import Bells, Room
from tests.agents.asking import BETA, JSON, Asker
from tests.agents_door.conftest import SILENT, served
from tests.agents_door.listening import HOSTED, SESSIONS, client, creating, kinds, listening, made, say
from tests.agents_door.states import session, tell
from tests.wire.scripted import Scripted, program
from tests.wire.service import expect_eventually, open_test_room, serving

MESSAGE = {"input": program(stdout="hello")}


def test_the_headers_come_before_any_frame(api: Asker) -> None:
    with listening(api, made(api)) as stream:
        headers = stream.answer.headers
        assert headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"].startswith("req_")
        assert headers["openai-version"] == "2020-10-01"
        assert headers["openai-processing-ms"].isdigit()
        assert "content-length" not in headers


def test_a_turn_is_told_from_its_beginning_to_the_idle_session(api: Asker) -> None:
    ident = made(api)
    with listening(api, ident, params={"include_obfuscation": "false", "stream": "x"}) as stream:
        say(api, ident, stdout="hello")
        frames = stream.until("idle")
        assert kinds(frames)[:4] == ["turn.created", "turn.item.added", "in_progress", "turn.in_progress"]
        assert kinds(frames)[-2:] == ["turn.completed", "idle"]
        (text,) = [frame["text"] for frame in frames if frame["type"].endswith("output_text.done")]
        assert text == "hello"
        assert frames[-1]["session"]["id"] == ident
        assert len({frame["event_id"] for frame in frames}) == len(frames)
        say(api, ident, stdout="again")
        more = stream.until("idle")
        assert kinds(more)[0] == "turn.created"
        assert more[0]["turn_id"] != frames[0]["turn_id"]


def test_what_was_told_before_is_not_told_again_whatever_the_last_event_id(api: Asker) -> None:
    ident = made(api)
    with listening(api, ident) as stream:
        say(api, ident, stdout="1")
        first = stream.until("idle")
    with listening(api, ident, headers={"Last-Event-ID": first[0]["event_id"]}) as stream:
        say(api, ident, stdout="2")
        second = stream.until("idle")
    assert kinds(second)[0] == "turn.created"
    assert not {frame["event_id"] for frame in first} & {frame["event_id"] for frame in second}


def test_a_comment_keeps_a_quiet_stream(api: Asker) -> None:
    with listening(api, made(api)) as stream:
        quiet = [next(stream.lines) for _ in range(4)]
    assert quiet == [": keepalive", "", ": keepalive", ""]


def test_a_bell_alone_wakes_a_stream(room: Room) -> None:
    with served(room, SILENT) as (api, _):
        ident = made(api)
        with listening(api, ident) as stream:
            say(api, ident, stdout="hello")
            assert kinds(stream.until("idle"))[-1] == "idle"


def test_news_of_another_process_come_without_a_bell(room: Room) -> None:
    elsewhere = replace(room, bells=Bells())
    found = session(elsewhere)
    with served(room) as (api, _), listening(api, found.session) as stream:
        tell(elsewhere, found, events.session_frame("idle", {"status": "idle"}))
        assert kinds(stream.until("idle")) == ["idle"]


@pytest.mark.parametrize(
    "text", ["a\nb\r\nc\rd", "\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e", "\ud800", "\x00", "data: x\n\n"]
)
def test_no_text_ends_a_line(room: Room, text: str) -> None:
    found = session(room)
    with served(room) as (api, _), listening(api, found.session) as stream:
        tell(room, found, {"type": "agent.session.note", "text": text}, events.session_frame("idle", {}))
        (note, _) = stream.until("idle")
        assert note["text"] == text.replace("\ud800", "\ufffd")


def test_a_stream_ends_when_its_session_is_deleted(api: Asker) -> None:
    ident = made(api)
    with listening(api, ident) as stream:
        with client(api) as one:
            assert one.delete(f"{SESSIONS}/{ident}").status_code == 200
        assert stream.rest() == []


def test_a_stream_ends_behind_the_error_of_a_failed_environment(room: Room) -> None:
    found = session(room)
    with served(room) as (api, _), listening(api, found.session) as stream:
        tell(room, found, *events.environment_failed({}, "env_1", "openai_hosted", found.session))
        assert kinds(stream.rest()) == ["environment.failed", "failed", "error"]


def test_a_creation_stream_tells_of_the_session_up_to_its_first_idle(api: Asker) -> None:
    with creating(api, {**HOSTED, **MESSAGE}) as stream:
        assert (stream.answer.status_code, stream.answer.headers["content-type"]) == (201, "text/event-stream")
        frames = stream.rest()
    assert kinds(frames)[0] == "created"
    assert kinds(frames)[-2:] == ["turn.completed", "idle"]
    with client(api) as one:
        assert one.get(f"{SESSIONS}/{frames[0]['session']['id']}").json()["status"] == "idle"


def test_the_same_creation_again_tells_the_same(api: Asker) -> None:
    with creating(api, {**HOSTED, **MESSAGE}, **{"Idempotency-Key": "k"}) as stream:
        first = stream.rest()
    with creating(api, {**HOSTED, **MESSAGE}, **{"Idempotency-Key": "k"}) as stream:
        assert stream.rest() == first


@pytest.mark.parametrize("body", [{}, {**HOSTED, "agent": {"model": "program:none"}, **MESSAGE}, {**HOSTED, "x": 1}])
def test_what_is_wrong_with_a_creation_is_told_in_json(api: Asker, body: dict[str, object]) -> None:
    for _ in range(3):
        with creating(api, body) as stream:
            stream.answer.read()
            assert stream.answer.status_code == 400
            assert stream.answer.json()["error"]["type"] == "invalid_request_error"
    with listening(api, made(api)), listening(api, made(api)):
        pass


@pytest.mark.parametrize("value", [False, None])
def test_without_stream_a_creation_is_json(api: Asker, value: bool | None) -> None:
    body = {**HOSTED, **({} if value is None else {"stream": value})}
    with client(api) as one:
        answer = one.post(SESSIONS, json=body, headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["content-type"]) == (201, "application/json")


def test_a_missing_a_malformed_and_a_foreign_session_are_the_same(api: Asker) -> None:
    ident = made(api)
    asked = [
        api.ask("GET", f"{SESSIONS}/{name}/events?limit=x", BETA, key=key)
        for name, key in ((ident, api.service.other_key), ("sess_" + "0" * 33, None), ("%GG", None), ("%00", None))
    ]
    assert {(answer.status, answer.body) for answer in asked} == {(404, asked[0].body)}


def test_a_head_is_refused(api: Asker) -> None:
    answer = api.ask("HEAD", f"{SESSIONS}/{made(api)}/events", BETA)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")


class Counted(Bells):
    """Bells that know how many listen."""

    def __init__(self) -> None:
        super().__init__()
        self.listening = 0

    @contextlib.contextmanager
    def listen(self, partition: str, news: Callable[[], None]) -> Iterator[None]:
        with super().listen(partition, news):
            self.listening += 1
            try:
                yield
            finally:
                self.listening -= 1


def test_a_client_that_goes_frees_its_place_and_stops_nothing_else(tmp_path: Path) -> None:
    bells = Counted()
    limits = Limits(streams=2, project_streams=2)
    with served(replace(open_test_room(tmp_path, limits, Scripted()), bells=bells)) as (api, _):
        ident = made(api)
        with listening(api, ident) as staying:
            for _ in range(3):
                with listening(api, ident):
                    expect_eventually(lambda: bells.listening == 2)
                expect_eventually(lambda: bells.listening == 1)
                expect_eventually(lambda: _opens(api, ident))
                expect_eventually(lambda: bells.listening == 1)
            say(api, ident, stdout="hello")
            assert kinds(staying.until("idle"))[-1] == "idle"


def test_a_client_that_goes_does_not_stop_the_turn_that_it_asked_for(api: Asker, room: Room) -> None:
    executor = room.executor
    assert isinstance(executor, Scripted)
    with creating(api, {**HOSTED, "input": program(wait=20)}) as stream:
        ident = stream.until("created")[0]["session"]["id"]
        assert executor.begun.acquire(timeout=10)
    expect_eventually(lambda: _opens(api, ident))
    assert not executor.stopped
    with client(api) as one:
        assert one.get(f"{SESSIONS}/{ident}").json()["status"] == "in_progress"
        cancel = {"events": [{"type": "agent.session.input.cancel"}]}
        assert one.post(f"{SESSIONS}/{ident}/events", json=cancel).status_code == 202


def _opens(api: Asker, ident: str) -> bool:
    """Whether there is a place for one more stream of the project."""
    with client(api) as one, one.stream("GET", f"{SESSIONS}/{ident}/events") as answer:
        return answer.status_code == 200


def test_the_places_of_a_project_and_of_the_service_are_bounded(api: Asker, room: Room) -> None:
    ident = made(api)
    with listening(api, ident), listening(api, ident):
        full = api.ask("GET", f"{SESSIONS}/{ident}/events", BETA)
        assert full.status == 429
        assert b'"rate_limit_error"' in full.body
        assert full.headers["retry-after"].isdigit()
        count = len(room.state.query("p/first", "sess/", limit=100))
        with creating(api, {**HOSTED, **MESSAGE}) as stream:
            assert stream.answer.status_code == 429
        assert len(room.state.query("p/first", "sess/", limit=100)) == count
        with client(api, api.service.other_key) as other:
            theirs = other.post(SESSIONS, json=HOSTED).json()["id"]
            with other.stream("GET", f"{SESSIONS}/{theirs}/events") as third:
                assert third.status_code == 200
                with other.stream("GET", f"{SESSIONS}/{theirs}/events") as fourth:
                    assert fourth.status_code == 429


def test_the_end_of_the_service_is_the_end_of_its_streams(room: Room) -> None:
    with served(room, SILENT) as (api, server), listening(api, made(api)) as stream:
        server.should_exit = True
        assert stream.rest() == []


@pytest.mark.parametrize("door", ["http-api", "function-url"])
def test_a_door_that_carries_no_stream_refuses_before_anything_is_made(room: Room, door: str) -> None:
    with serving(room, door=door) as service:  # type: ignore[arg-type]
        api = Asker(service)
        ident = made(api)
        refused = api.ask("GET", f"{SESSIONS}/{ident}/events", BETA)
        assert (refused.status, b"streaming address" in refused.body) == (400, True)
        body = httpx.Request("POST", "http://h", json={**HOSTED, **MESSAGE, "stream": True}).content
        refused = api.ask("POST", SESSIONS, BETA, JSON, body=body)
        assert (refused.status, b"streaming address" in refused.body) == (400, True)
        assert b'"param":"stream"' in refused.body
        assert [row.sort for row in room.state.query("p/first", "sess/")] == [f"sess/{ident}"]
