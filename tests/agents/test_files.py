"""Source files on the wire (agents.md 7 and the `/files` rules of 1.6)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.agents.asking import JSON, Asker, envelope
from tests.wire.forms import BOUNDARY, MULTIPART, Raw, extended, field, file, form
from tests.wire.service import stored_things
from tests.wire.test_tenancy import HOSTILE

REQUEST = "invalid_request_error"
GONE = envelope("Resource not found.", REQUEST, None, "id")
PURPOSE = field("purpose", "user_data")
LIMIT = 100_000


@pytest.mark.parametrize("turned", [False, True])
def test_a_file_has_nine_members_and_its_parts_come_in_either_order(api: Asker, turned: bool) -> None:
    parts = [PURPOSE, file("näme/a b.txt", b"hello")]
    answer = api.upload(parts[::-1] if turned else parts)
    assert answer.status == 200
    made = json.loads(answer.body)
    assert re.fullmatch(r"file-[A-Za-z0-9_-]{20,}", made["id"])
    assert made == {
        "id": made["id"], "object": "file", "bytes": 5, "created_at": made["created_at"], "filename": "näme/a b.txt",
        "purpose": "user_data", "status": "processed", "expires_at": None, "status_details": None,
    }  # fmt: skip
    assert type(made["created_at"]) is int
    assert api.json("GET", f"/v1/files/{made['id']}") == made


def test_an_empty_file_is_stored_and_equal_files_are_two(api: Asker) -> None:
    first, second = api.made("e", b""), api.made("e", b"")
    assert first["bytes"] == 0
    assert first["id"] != second["id"]


def encoded(name: str, head: str) -> Raw:
    return Raw(f'Content-Disposition: form-data; name="{name}"; filename="a"\r\n{head}'.encode(), b"x")


WRONG = [
    [PURPOSE], [file("a")], [], [field("purpose", "assistants"), file("a")], [field("purpose", ""), file("a")],
    [PURPOSE, PURPOSE, file("a")], [PURPOSE, file("a"), file("b")], [PURPOSE, file("a"), field("more", "x")],
    [PURPOSE, file("a"), field("expires_after[anchor]", "created_at")],
    [PURPOSE, encoded("file", "Content-Encoding: gzip")],
    [PURPOSE, encoded("file", "Content-Transfer-Encoding: binary")], [PURPOSE, file("")], [PURPOSE, file("n" * 1_025)],
    [PURPOSE, file(b"\xff")], [PURPOSE, extended("UTF-8''a%00b")], [PURPOSE, field("file", "no name")],
    [file("user_data", b"user_data", part="purpose"), file("a")], [PURPOSE, file("a", part="File")],
]  # fmt: skip


@pytest.mark.parametrize("parts", WRONG, ids=range(len(WRONG)))
def test_a_wrong_form_is_400_and_stores_nothing(api: Asker, agents_folder: Path, parts: list[Raw]) -> None:
    before = stored_things(api.service.room, agents_folder)
    answer = api.upload(parts)
    assert answer.status == 400, answer.body
    error = json.loads(answer.body)["error"]
    assert (error["type"], error["code"]) == (REQUEST, "invalid_request")
    assert stored_things(api.service.room, agents_folder) == before


def test_a_name_of_1024_bytes_is_taken(api: Asker) -> None:
    assert api.made("é" * 512)["filename"] == "é" * 512


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data", "application/json"])
def test_a_body_that_is_no_form_is_400(api: Asker, kind: str) -> None:
    headers = [("Content-Type", kind)] if kind else []
    answer = api.ask("POST", "/v1/files", *headers, body=form([PURPOSE, file("a")]))
    assert answer.status == 400


@pytest.mark.parametrize("cut", [1, 20, 90])
def test_a_form_that_breaks_off_is_400(api: Asker, agents_folder: Path, cut: int) -> None:
    before = stored_things(api.service.room, agents_folder)
    answer = api.ask("POST", "/v1/files", *MULTIPART.items(), body=form([PURPOSE, file("a", b"y" * 50)])[:-cut])
    assert answer.status == (400 if cut > 4 else 200)
    if cut > 4:
        assert stored_things(api.service.room, agents_folder) == before


def test_the_limit_holds_to_the_byte_and_so_does_the_body_s(api: Asker, agents_folder: Path) -> None:
    assert api.made("big", b"x" * LIMIT)["bytes"] == LIMIT
    before = stored_things(api.service.room, agents_folder)
    for parts in ([PURPOSE, file("big", b"x" * (LIMIT + 1))], [file("big", b"x" * (LIMIT + 65_536)), PURPOSE]):
        answer = api.upload(parts)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (413, "request_too_large")
    assert stored_things(api.service.room, agents_folder) == before


IDS = ["file-x", "x", "file-" + "A" * 16, "file-000000000000" + "A" * 20, "%00", "%GG", "file-%FF", "é", "A" * 300]


def test_own_unknown_malformed_and_foreign_ids_have_one_answer(api: Asker) -> None:
    foreign = api.made(key=api.service.other_key)["id"]
    deleted = api.made()["id"]
    assert api.json("DELETE", f"/v1/files/{deleted}") == {"id": deleted, "object": "file", "deleted": True}
    for ident in (*IDS, foreign, deleted):
        target = f"/v1/files/{ident}".encode().decode("latin-1") if not ident.isascii() else f"/v1/files/{ident}"
        if not ident.isascii():
            target = "/v1/files/%C3%A9"
        for method, path in (("GET", target), ("DELETE", target), ("GET", target + "/content")):
            for query in ("", "?limit=x&limit=x"):
                answer = api.ask(method, path + query)
                assert (answer.status, answer.body) == (404, GONE), (method, path)
    assert api.ask("GET", f"/v1/files/{foreign}", key=api.service.other_key).status == 200


def test_content_is_refused_after_the_lookup(api: Asker) -> None:
    ident = api.made()["id"]
    answer = api.ask("GET", f"/v1/files/{ident}/content")
    expected = envelope("Not allowed to download files of purpose: user_data", REQUEST, None)
    assert (answer.status, answer.body) == (400, expected)


RANGE = "limit must be between 1 and 10000."
UNKNOWN = "file-000000000000AAAAAAAAAAAAAAAAAAAA"
REPEATED = "A parameter must not be sent more than once."
QUERIES = [
    ("limit=0", envelope(RANGE, REQUEST, None)), ("limit=10001", envelope(RANGE, REQUEST, None)),
    ("limit=-1", envelope(RANGE, REQUEST, None)), ("limit=x", envelope(RANGE, REQUEST, "invalid_request")),
    ("limit=", envelope(RANGE, REQUEST, "invalid_request")), ("limit=1.5", envelope(RANGE, REQUEST, "invalid_request")),
    ("order=up", envelope("order must be asc or desc.", REQUEST, None)),
    ("order=", envelope("order must be asc or desc.", REQUEST, None)),
    ("purpose=batch", envelope("purpose must be user_data.", REQUEST, None, "purpose")),
    ("after=x", envelope("Resource not found.", REQUEST, None, "after")),
    ("after=", envelope("Resource not found.", REQUEST, None, "after")),
    (f"after={UNKNOWN}", envelope("Resource not found.", REQUEST, None, "after")),
    ("limit=1&limit=1", envelope(REPEATED, REQUEST, "unsupported_parameter", "limit")),
    # of two faults the earlier
    ("after=x&purpose=batch&order=up&limit=0&limit=0", envelope(REPEATED, REQUEST, "unsupported_parameter", "limit")),
    ("after=x&purpose=batch&order=up&limit=0", envelope(RANGE, REQUEST, None)),
    ("after=x&purpose=batch&order=up", envelope("order must be asc or desc.", REQUEST, None)),
    ("after=x&purpose=batch", envelope("purpose must be user_data.", REQUEST, None, "purpose")),
]  # fmt: skip


@pytest.mark.parametrize(("query", "body"), QUERIES)
def test_what_the_list_refuses(api: Asker, query: str, body: bytes) -> None:
    answer = api.ask("GET", f"/v1/files?{query}")
    assert (answer.status, answer.body) == (404 if b"not found" in body else 400, body)


def test_the_list_walks_in_the_order_of_creation(api: Asker) -> None:
    made = [api.made(f"list-{index}")["id"] for index in range(4)]
    whole = api.json("GET", "/v1/files?purpose=&unknown=1&unknown=2&order=asc")
    ids = [row["id"] for row in whole["data"]]
    assert ids == sorted(ids)
    assert set(made) <= set(ids)
    assert (whole["object"], whole["first_id"], whole["last_id"], whole["has_more"]) == ("list", ids[0], ids[-1], False)
    for order, expected in (("asc", ids), ("desc", ids[::-1])):
        seen: list[str] = []
        after = ""
        while True:
            page = api.json("GET", f"/v1/files?limit=3&purpose=user_data&order={order}{after}")
            seen += [row["id"] for row in page["data"]]
            assert len(page["data"]) <= 3
            if not page["has_more"]:
                break
            after = f"&after=%20{page['last_id']}%20"
        assert seen == expected
    last = api.json("GET", f"/v1/files?after={ids[-1]}&order=asc")
    assert last == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    foreign = api.ask("GET", f"/v1/files?after={ids[0]}", key=api.service.other_key)
    assert (foreign.status, json.loads(foreign.body)["error"]["param"]) == (404, "after")


def test_a_boundary_that_is_not_there_is_400(api: Asker) -> None:
    body = form([PURPOSE, file("a")]).replace(BOUNDARY.encode(), b"other")
    assert api.ask("POST", "/v1/files", *MULTIPART.items(), body=body).status == 400


@pytest.mark.parametrize("value", HOSTILE)
def test_K12_an_id_that_cannot_be_one_is_missing_on_every_route(api: Asker, value: str) -> None:
    for method, target in (
        ("GET", "/v1/files/{}"), ("DELETE", "/v1/files/{}"), ("GET", "/v1/files/{}/content"),
        ("POST", "/v1/uploads/{}/parts"), ("POST", "/v1/uploads/{}/complete"), ("POST", "/v1/uploads/{}/cancel"),
    ):  # fmt: skip
        answer = api.ask(method, target.format(value), JSON)
        param = "id" if "files" in target else "upload_id"
        assert (answer.status, answer.body) == (404, envelope("Resource not found.", REQUEST, None, param)), target
        assert "x-evil" not in answer.headers
