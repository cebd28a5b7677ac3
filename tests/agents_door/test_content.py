"""The bytes of an Artifact at the door (agents.md 6.2, 11.41)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from functions.api.agents import content
from shared.limits import Limits
from shared.operations.agents.artifacts import OpenArtifact, open_artifact
from shared.operations.room import Room
from shared.store.ports import Grant
from tests.agents.asking import BETA, Asker
from tests.agents_door.listening import HOSTED, SESSIONS, client, creating
from tests.wire.scripted import Scripted, program
from tests.wire.service import expect_eventually, open_test_room, serving

BIG = 2_500_000


def published(api: Asker, **script: Any) -> dict[str, str]:
    """A Session whose Turn wrote files below `outputs`: the address of each Artifact's content, by file name."""
    body = {**HOSTED, "input": program(**script)}
    with client(api) as one:
        session = one.post(SESSIONS, json=body).json()["id"]
        expect_eventually(lambda: one.get(f"{SESSIONS}/{session}").json()["status"] == "idle")
        rows = one.get(f"{SESSIONS}/{session}/artifacts", params={"limit": 100}).json()["data"]
    where = f"{SESSIONS}/{session}/artifacts"
    return {row["path"].rpartition("/")[2]: f"{where}/{row['id']}/content" for row in rows}


@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=0-1"}])
def test_the_bytes_come_whole_with_their_headers(api: Asker, headers: dict[str, str]) -> None:
    places = published(api, write={"outputs/deep/a.txt": "hello", "outputs/b": ""}, size={"outputs/big": BIG})
    for name, expected in (("a.txt", b"hello"), ("b", b""), ("big", bytes(BIG))):
        with client(api) as one:
            answer = one.get(places[name], headers={"Accept": "application/octet-stream", **headers})
        assert (answer.status_code, answer.content) == (200, expected)
        assert answer.headers["content-length"] == str(len(expected))
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"] == f"attachment; filename=\"{name}\"; filename*=UTF-8''{name}"
        assert "accept-ranges" not in answer.headers


@pytest.mark.parametrize(
    ("name", "fallback"), [("données.csv", "donn_es.csv"), ('a"b\r\nX: y', "a_b__X: y"), ("🤣", "_")]
)
def test_the_name_of_the_file_is_exact_and_ends_no_header(api: Asker, name: str, fallback: str) -> None:
    places = published(api, write={f"outputs/{name}": "x"})
    with client(api) as one:
        answer = one.get(places[name])
    expected = f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{quote(name, safe='')}"
    assert (answer.content, answer.headers["content-disposition"]) == (b"x", expected)


def test_a_head_is_refused(api: Asker) -> None:
    answer = api.ask("HEAD", published(api, write={"outputs/a": "x"})["a"], BETA)
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


def test_what_is_not_there_is_404_whoever_asks(api: Asker) -> None:
    place = published(api, write={"outputs/a": "x"})["a"]
    other = published(api, write={"outputs/a": "y"})["a"]
    mixed = "/".join([*place.split("/")[:5], *other.split("/")[5:]])
    asked = [
        api.ask("GET", place, BETA, key=api.service.other_key),
        api.ask("GET", mixed, BETA),
        api.ask("GET", place.replace("art_", "art_0"), BETA),
        api.ask("GET", place.replace("sess_", "sess_0"), BETA),
        api.ask("GET", f"{SESSIONS}/x/artifacts/%00/content", BETA),
    ]
    assert {(answer.status, answer.body) for answer in asked} == {(404, asked[0].body)}
    with client(api) as one:
        assert one.delete(place.removesuffix("/content")).status_code == 200
        assert one.get(place).status_code == 404
        assert one.get(other).content == b"y"


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Artifact has another digest than its bytes."""

    def opened(*asked: Any) -> OpenArtifact:
        return replace(open_artifact(*asked), sha256="0" * 64)

    monkeypatch.setattr(content, "open_artifact", opened)


@pytest.mark.usefixtures("wrong")
def test_wrong_bytes_break_the_connection_off(api: Asker) -> None:
    places = published(api, write={"outputs/a": "hello"}, size={"outputs/big": BIG})
    for place in places.values():
        with client(api) as one, pytest.raises(httpx.RemoteProtocolError):
            one.get(place)


@pytest.mark.usefixtures("wrong")
def test_a_door_that_holds_answers_says_that_it_failed(tmp_path: Path) -> None:
    with serving(open_test_room(tmp_path, Limits(), Scripted()), door="http-api") as service:
        answer = Asker(service).ask("GET", published(Asker(service), write={"outputs/a": "hello"})["a"], BETA)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (500, "internal_error")


class Grants:
    """A store that makes grants, and remembers for what."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int, str, str]] = []

    def grant_download(self, key: str, *, seconds: int, name: str, media: str) -> Grant:
        self.made.append((key, seconds, name, media))
        return Grant("GET", "https://store.example/bytes", 0)


def test_what_a_front_door_does_not_carry_is_granted_for_a_minute(tmp_path: Path) -> None:
    grants = Grants()
    room = replace(open_test_room(tmp_path, Limits(answer_bytes=2_000_000), Scripted()), downloads=grants)
    with serving(room, door="http-api") as service:
        api = Asker(service)
        places = published(api, write={"outputs/small": "x"}, size={"outputs/big": BIG})
        assert api.ask("GET", places["small"], BETA).body == b"x"
        answer = api.ask("GET", places["big"], BETA)
    assert (answer.status, answer.body, answer.headers["location"]) == (302, b"", "https://store.example/bytes")
    assert answer.headers["cache-control"] == "no-store"
    ((key, seconds, name, media),) = grants.made
    assert (seconds <= 60, name, media) == (True, "big", "application/octet-stream")
    assert b"".join(room.objects.read(key)) == bytes(BIG)


def test_the_content_of_a_streamed_creation(api: Asker, room: Room) -> None:
    with creating(api, {**HOSTED, "input": program(write={"outputs/a": "hello"})}) as stream:
        session = stream.rest()[0]["session"]["id"]
    assert room.state.get(f"p/first/s/{session}", "session") is not None
    with client(api) as one:
        (row,) = one.get(f"{SESSIONS}/{session}/artifacts").json()["data"]
        assert one.get(f"{SESSIONS}/{session}/artifacts/{row['id']}/content").content == b"hello"
