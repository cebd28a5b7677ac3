"""Two projects never see each other (exec.md A8; cases.md H5, K12): on every route that takes an id."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from starlette.routing import Route

from functions.api.app import create_app
from shared.settings import AGENTS_GROUPS, Settings
from tests.wire.forms import MULTIPART, field, file, form
from tests.wire.scripted import program
from tests.wire.service import Answer, Service, expect_eventually, sessions

UNKNOWN = "Q" * 21
RUN = {"lang": "py", "code": program(stdout="ran")}


@pytest.fixture(scope="module")
def app(service: Service) -> FastAPI:
    """An application of the same room, to walk its routes."""
    return create_app(service.room, Settings(port=0, dev_key=False))


@pytest.fixture(scope="module")
def theirs(service: Service) -> dict[str, str]:
    """Ids of things of the second project."""
    with service.client(service.other_key) as other:
        made = other.post("/v1/upload", files={"file": ("a.txt", b"theirs")}).json()
        started = other.post("/v1/exec", json=RUN, headers={"Prefer": "respond-async"})
        expect_eventually(lambda: other.get(started.headers["location"]).json()["status"] == "finished")
        asked = {"name": "b", "size": 1, "sha256": "0" * 64}
        return {
            "session_id": made["session_id"],
            "file_id": made["files"][0]["fileId"],
            "run_id": started.json()["id"],
            "upload_id": other.post("/v1/exec/uploads", json=asked).json()["upload_id"],
        }


def routes_with_ids(app: FastAPI) -> Iterator[tuple[str, str, list[str]]]:
    for route in app.routes:
        assert isinstance(route, Route)
        names = re.findall(r"\{(\w+)(?::\w+)?\}", route.path)
        # A grant's token is a credential of its own, tested as such; the Agents API's routes are tests/agents'.
        agents = str(route.name).partition(".")[0] in ("sources", *AGENTS_GROUPS)
        if names and names != ["token"] and not agents:
            for method in (route.methods or set()) - {"HEAD"}:
                yield method, re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path), names


def test_the_walk_finds_every_kind_of_id(app: FastAPI) -> None:
    rows = list(routes_with_ids(app))
    assert {name for _, _, names in rows for name in names} == {"session_id", "file_id", "run_id", "upload_id"}
    assert len(rows) == 12


def test_H5_a_foreign_and_an_unknown_id_get_the_same_bytes_on_every_route(
    service: Service, app: FastAPI, theirs: dict[str, str]
) -> None:
    before = sessions(service.room), sessions(service.room, "second")
    for method, template, names in routes_with_ids(app):
        foreign = service.ask(method, template.format(**theirs))
        unknown = service.ask(method, template.format(**dict.fromkeys(names, UNKNOWN)))
        mixed = service.ask(method, template.format(**{**theirs, names[0]: UNKNOWN}))
        expected = 400 if template.endswith("/download/{session_id}") else 404
        assert foreign.status == expected, (method, template)
        assert foreign.comparable == unknown.comparable == mixed.comparable, (method, template)
        assert foreign.headers["x-request-id"] != unknown.headers["x-request-id"]
    assert (sessions(service.room), sessions(service.room, "second")) == before
    with service.client(service.other_key) as other:
        assert other.get(f"/v1/download/{theirs['session_id']}/{theirs['file_id']}").content == b"theirs"


def test_H5_a_foreign_session_in_a_body_gets_the_same_bytes_as_an_unknown_one(
    service: Service, theirs: dict[str, str]
) -> None:
    def ask(session: str) -> list[Answer]:
        run = json.dumps({**RUN, "session_id": session}).encode()
        grant = json.dumps({"name": "b", "size": 1, "sha256": "0" * 64, "session_id": session}).encode()
        upload = form([field("session_id", session), file("a", b"a")])
        rows: list[tuple[str, bytes, dict[str, str]]]
        rows = [("/v1/exec", run, {}), ("/v1/exec/exec", run, {}), ("/v1/exec/uploads", grant, {})]
        rows += [(f"/v1/exec/upload{batch}", upload, MULTIPART) for batch in ("", "/batch")]
        rows += [(f"/v1/upload{batch}", upload, MULTIPART) for batch in ("", "/batch")]
        return [service.ask("POST", target, headers=headers, body=body) for target, body, headers in rows]

    before = sessions(service.room), sessions(service.room, "second")
    started = service.executor.started
    foreign, unknown = ask(theirs["session_id"]), ask(UNKNOWN)
    assert [answer.status for answer in foreign] == [404] * 7
    for one, other in zip(foreign, unknown, strict=True):
        assert one.comparable == other.comparable
    assert (sessions(service.room), sessions(service.room, "second")) == before
    assert service.executor.started == started


def test_H5_a_foreign_file_in_a_run_gets_the_same_answer_as_an_unknown_one(
    service: Service, theirs: dict[str, str]
) -> None:
    with service.client() as client:
        answers = []
        for home, ident in ((theirs["session_id"], theirs["file_id"]), (UNKNOWN, UNKNOWN)):
            reference = {"id": ident, "name": "a.txt", "storage_session_id": home}
            made = client.post("/v1/exec", json={**RUN, "files": [reference]}).json()
            assert made.pop("session_id") not in (theirs["session_id"], UNKNOWN)
            answers.append(made)
        assert answers[0] == answers[1]
        assert answers[0]["stdout"] == "ran"


HOSTILE = [
    "..",
    "%2e%2e",
    "%00",
    "a%00b",
    "%",
    "%zz",
    "%f",
    "%ff%fe",
    "%c0%ae",
    "%ed%a0%80",
    "%0a",
    "%0d%0aX-Evil:%201",
    "x" * 10_240,
    "%D9%A1" * 21,
    "A" * 20,
    "A" * 22,
    "A" * 20 + "%0a",
    "A" * 20 + ".",
    "A" * 20 + "+",
    "file-" + "a" * 16,
    "second",
    "*",
    "'%20OR%201=1--",
]
WITH_SLASHES = ["%2E%2E%2f%2E%2E", "..%2f..%2fp%2fsecond", "a%2fb", "%2f", "a%2F"]


@pytest.mark.parametrize("value", HOSTILE)
def test_K12_an_id_that_cannot_be_one_is_404_on_every_route(service: Service, app: FastAPI, value: str) -> None:
    must_be_no_id(service, app, value)


@pytest.mark.doors("local", "function-url", why="an HTTP API decodes the path: what is left is another address there")
@pytest.mark.parametrize("value", WITH_SLASHES)
def test_K12_an_id_with_an_encoded_slash_is_404_on_every_route(service: Service, app: FastAPI, value: str) -> None:
    must_be_no_id(service, app, value)


def must_be_no_id(service: Service, app: FastAPI, value: str) -> None:
    before = sessions(service.room), sessions(service.room, "second"), len(service.room.objects.list("p/"))
    with service.client() as client:
        mine = client.post("/v1/upload", files={"file": ("a.txt", b"mine")}).json()
    known = {"session_id": mine["session_id"], "file_id": mine["files"][0]["fileId"], "run_id": UNKNOWN}
    for method, template, names in routes_with_ids(app):
        for name in names:
            values = {**known, "upload_id": UNKNOWN, name: value}
            # Below /v1/files what is no id of this contract is the other's, which takes a bearer key alone.
            bearer = {"Authorization": f"Bearer {service.key}"}
            answer = service.ask(method, template.format(**values), headers=bearer)
            # One segment alone is refused before anything is looked up.
            expected = 400 if template.endswith("/download/{session_id}") else 404
            assert answer.status == expected, (method, template, name)
            assert b"Traceback" not in answer.body
            assert "x-evil" not in answer.headers
    assert len(sessions(service.room)) == len(before[0]) + 1
    assert sessions(service.room, "second") == before[1]
    assert len(service.room.objects.list("p/")) == before[2] + 1
    with service.client() as client:
        assert client.get(f"/v1/download/{mine['session_id']}/a.txt").content == b"mine"
