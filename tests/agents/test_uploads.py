"""Uploads in parts on the wire, and the objects that they leave (agents.md 11.43)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.limits import Limits
from shared.operations.janitor import sweep
from shared.operations.workspace import grace_ms
from shared.store.ports import Item
from tests.agents.asking import JSON, Asker, envelope
from tests.wire.forms import Raw, field, file
from tests.wire.scripted import Scripted
from tests.wire.service import ON_AWS, open_test_room, serving

GONE = envelope("Resource not found.", "invalid_request_error", None, "upload_id")


def begin(api: Asker, size: int, **more: Any) -> dict[str, Any]:
    body = {"bytes": size, "filename": "big.bin", "mime_type": "text/plain", "purpose": "user_data", **more}
    found: dict[str, Any] = api.json("POST", "/v1/uploads", JSON, body=json.dumps(body).encode())
    return found


def part(api: Asker, upload: str, data: bytes) -> str:
    answer = api.upload([file("upload", data, part="data")], f"/v1/uploads/{upload}/parts")
    assert answer.status == 200, answer.body
    made = json.loads(answer.body)
    assert set(made) == {"id", "created_at", "object", "upload_id"}
    assert (made["object"], made["upload_id"]) == ("upload.part", upload)
    return str(made["id"])


def end(api: Asker, upload: str, how: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = api.ask("POST", f"/v1/uploads/{upload}/{how}", JSON, body=json.dumps(body).encode())
    return answer.status, json.loads(answer.body)


def stored(api: Asker, ident: str) -> bytes:
    item = api.service.room.state.get("p/first", f"source/{ident}")
    assert isinstance(item, Item)
    return b"".join(api.service.room.objects.read(item.attributes["key"]))


def test_parts_become_one_file_in_the_order_that_is_named(api: Asker) -> None:
    upload = begin(api, 8)
    assert (upload["status"], upload["object"], upload["bytes"], upload["filename"], upload["purpose"]) == (
        "pending", "upload", 8, "big.bin", "user_data",
    )  # fmt: skip
    assert upload["expires_at"] - upload["created_at"] in (3_599, 3_600)
    second, first = part(api, upload["id"], b"-two"), part(api, upload["id"], b"one-")
    md5 = hashlib.md5(b"one--two").hexdigest()
    status, done = end(api, upload["id"], "complete", part_ids=[first, second], md5=md5)
    assert (status, done["status"], done["file"]["bytes"]) == (200, "completed", 8)
    assert stored(api, done["file"]["id"]) == b"one--two"
    assert api.json("GET", f"/v1/files/{done['file']['id']}") == done["file"]
    assert end(api, upload["id"], "complete", part_ids=[first, second]) == (200, done)
    assert end(api, upload["id"], "complete", part_ids=[second, first])[0] == 400
    assert end(api, upload["id"], "cancel")[0] == 400
    late = api.upload([file("upload", b"x", part="data")], f"/v1/uploads/{upload['id']}/parts")
    assert late.status == 400


def test_a_completion_that_does_not_fit_is_400_and_may_be_repeated(api: Asker) -> None:
    upload = begin(api, 4)["id"]
    other = part(api, begin(api, 1)["id"], b"x")
    one = part(api, upload, b"abcd")
    wrong: tuple[dict[str, Any], ...] = (
        {}, {"part_ids": "x"}, {"part_ids": []}, {"part_ids": [one, one]}, {"part_ids": [other]}, {"part_ids": ["x"]},
        {"part_ids": [one], "md5": "0" * 32}, {"part_ids": [one], "md5": "x"}, {"part_ids": [one], "more": 1},
    )  # fmt: skip
    for body in wrong:
        status, refused = end(api, upload, "complete", **body)
        assert (status, refused["error"]["type"]) == (400, "invalid_request_error"), body
    assert end(api, upload, "complete", part_ids=[one])[0] == 200


def test_a_cancelled_upload_takes_nothing_more(api: Asker) -> None:
    upload = begin(api, 1)["id"]
    one = part(api, upload, b"x")
    for _ in range(2):
        answer = api.ask("POST", f"/v1/uploads/{upload}/cancel")
        assert (answer.status, json.loads(answer.body)["status"]) == (200, "cancelled")
    assert end(api, upload, "complete", part_ids=[one])[0] == 400


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"bytes": -1}, "bytes"), ({"bytes": 100_001}, "bytes"), ({"bytes": "1"}, "bytes"), ({"bytes": 1.5}, "bytes"),
        ({"filename": ""}, "filename"), ({"filename": "n" * 1_025}, "filename"), ({"filename": "a\0"}, "filename"),
        ({"purpose": "batch"}, "purpose"), ({"mime_type": None}, "mime_type"),
        ({"expires_after": {"anchor": "created_at", "seconds": 3600}}, "expires_after"),
    ],
)  # fmt: skip
def test_a_wrong_beginning_names_the_member(api: Asker, more: dict[str, Any], param: str) -> None:
    body = {"bytes": 1, "filename": "a", "mime_type": "text/plain", "purpose": "user_data", **more}
    answer = api.ask("POST", "/v1/uploads", JSON, body=json.dumps(body).encode())
    assert (answer.status, json.loads(answer.body)["error"]["param"]) == (400, param)


def test_unknown_and_foreign_uploads_have_one_answer_also_with_a_wrong_body(api: Asker) -> None:
    mine = begin(api, 1)["id"]
    for ident in ("x", "upload_x", "upload_000000000000" + "A" * 20, "%00", mine):
        key = api.service.other_key if ident == mine else None
        for how, headers, body in (
            ("parts", [("Content-Type", "text/plain")], b"x"), ("complete", [JSON], b'{"part_ids":1,"x":2}'),
            ("complete", [JSON], b"{}"), ("cancel", [], b""),
        ):  # fmt: skip
            answer = api.ask("POST", f"/v1/uploads/{ident}/{how}", *headers, body=body, key=key)
            assert (answer.status, answer.body) == (404, GONE), (ident, how)


@pytest.mark.parametrize(
    "parts", [[], [field("more", "x"), file("u", part="data")], [file("u"), file("u", part="data")],
              [file("u", part="data"), file("u", part="data")]],
)  # fmt: skip
def test_a_wrong_part_is_400(api: Asker, parts: list[Raw]) -> None:
    upload = begin(api, 1)["id"]
    assert api.upload(parts, f"/v1/uploads/{upload}/parts").status == 400


def test_a_part_has_its_own_limit(api: Asker) -> None:
    upload = begin(api, 50_000)["id"]
    assert part(api, upload, b"x" * 50_000)
    answer = api.upload([file("u", b"x" * 50_001, part="data")], f"/v1/uploads/{upload}/parts")
    assert answer.status == 413


@pytest.mark.skipif(ON_AWS, reason="the janitor walks the objects of every test there")
def test_the_janitor_keeps_what_is_named_and_removes_the_rest(tmp_path: Path) -> None:
    ahead = [0]

    def clock() -> int:
        from shared.operations.room import now_ms  # noqa: PLC0415

        return now_ms() + ahead[0]

    limits = replace(Limits(), source_upload_ms=20_000_000)
    room = open_test_room(tmp_path, limits, Scripted(), clock=clock)
    with serving(room) as running:
        api = Asker(running)
        kept, gone = api.made("kept", b"1"), api.made("gone", b"2")
        pending, over = begin(api, 1)["id"], begin(api, 1)["id"]
        part(api, pending, b"3"), part(api, over, b"4")
        api.json("DELETE", f"/v1/files/{gone['id']}")
        end(api, over, "cancel")
        assert sweep(room).objects == 0
        ahead[0] = grace_ms(room) + 1_000
        assert sweep(room).objects == 2
        assert {info.key.split("/")[3] for info in room.objects.list("p/")} == {kept["id"], pending}
        ahead[0] = 20_001_000
        assert sweep(room).objects == 1
        ahead[0] = limits.record_ms + 10_000
        sweep(room)
        assert room.state.query(f"p/first/parts/{pending}") == []
        assert [info.key.split("/")[3] for info in room.objects.list("p/")] == [kept["id"]]
        assert api.json("GET", f"/v1/files/{kept['id']}")["bytes"] == 1
