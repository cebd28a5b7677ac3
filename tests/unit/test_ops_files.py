"""Listing, probing, deleting, reading and writing files (exec.md A4, A7, A8.11, A8.12, A8.14)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.operations.media import content_type
from shared.operations.texts import rfc3339
from tests.fakes import EPOCH_MS, Desk, House, writes

DAY_MS = 86_400_000


def code_of(house: House, name: str, **data: Any) -> Code:
    with pytest.raises(Failure) as refusal:
        house.do(name, data)
    return refusal.value.code


def test_a_row_serves_every_detail(house: House) -> None:
    upload = house.put("in/data.csv", "1,2,3,4,5\n")
    session, ident = upload.session_id, upload.files[0].fileId
    expected = [
        {
            "name": f"{session}/{ident}",
            "lastModified": "2027-01-15T08:00:00.000Z",
            "id": ident,
            "session_id": session,
            "storage_session_id": session,
            "size": 10,
            "contentType": "text/csv",
            "metadata": {"original-filename": "in/data.csv", "content-type": "text/csv"},
        }
    ]
    for detail in (None, "simple", "summary", "full", "normalized"):
        rows = house.do("files.list", {"session_id": session, "detail": detail})
        assert json.loads(rows.model_dump_json()) == expected


def test_a_session_without_files_lists_a_bare_empty_array(house: House) -> None:
    session = house.run().session_id
    assert house.do("files.list", {"session_id": session}).model_dump_json() == "[]"


def test_the_listing_is_bytewise(house: House) -> None:
    names = ["a", "B", "a/", "a-b", "é", "🤣", "z", ".x", "a b"]
    names = [name for name in names if not name.endswith("/")]
    session = house.run(writes(*((name, "x") for name in names))).session_id
    assert house.names(session) == sorted(names, key=lambda name: name.encode())


def test_C4_every_listed_name_reads_back(house: House) -> None:
    names = ["a b.txt", "a+b.txt", "100%.txt", "%2e%2e", "a#b?.txt", "a&b=c.txt", "-rf", "$(id)", "`id`", "new\nline",
             "报告.csv", "back\\slash"]  # fmt: skip
    session = house.run(writes(*((name, name) for name in names))).session_id
    for name in house.names(session):
        assert house.text(session, name) == name


def test_A8_12_last_modified_is_the_later_of_the_two_times(house: House) -> None:
    from dataclasses import replace  # noqa: PLC0415

    def script(desk: Desk) -> None:
        for name, seconds in (("old", 946_684_800), ("future", 2_524_608_000), ("edge", -1)):
            desk.write(name, "x")
            desk.entries[name] = replace(desk.entries[name], mtime_ns=seconds * 10**9)

    session = house.run(script).session_id
    stamps = {row.metadata["original-filename"]: row.lastModified
              for row in house.do("files.list", {"session_id": session}).root}  # fmt: skip
    assert stamps == {
        "old": "2027-01-15T08:00:00.000Z", "edge": "2027-01-15T08:00:00.000Z", "future": "2050-01-01T00:00:00.000Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"), (1, "1970-01-01T00:00:00.001Z"), (-1, "1970-01-01T00:00:00.000Z"),
        (EPOCH_MS, "2027-01-15T08:00:00.000Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (2**63, "9999-12-31T23:59:59.999Z"),
    ],
)  # fmt: skip
def test_times_are_such_as_every_client_can_parse(ms: int, text: str) -> None:
    assert rfc3339(ms) == text


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", "text/csv"), ("d.csv/a", "application/octet-stream"), ("a.PNG", "image/png"), ("a.png", "image/png"),
        ("a.tar.gz", "application/octet-stream"), ("a.json", "application/json"), ("a.b.json", "application/json"),
        (".csv", "application/octet-stream"), ("a", "application/octet-stream"), ("a.", "application/octet-stream"),
        ("a.md", "text/markdown"), ("x:y.pdf", "application/pdf"), ("a.jsonl", "application/x-ndjson"),
        ("a.html", "text/html"), ("..png", "application/octet-stream"), ("a.unknown", "application/octet-stream"),
        ("data:text/html,x", "application/octet-stream"),
        ("é.txt", "text/plain"), ("a.tgz", "application/octet-stream"),
    ],
)  # fmt: skip
def test_media_types_are_by_the_name_alone(name: str, kind: str) -> None:
    assert content_type(name) == kind


def test_a_probe_tells_when_and_what(house: House) -> None:
    upload = house.put("data.csv", "1")
    for file in (upload.files[0].fileId, "data.csv"):
        stat = house.do("files.stat", {"session_id": upload.session_id, "file_id": file})
        assert json.loads(stat.model_dump_json()) == {
            "lastModified": "2027-01-15T08:00:00.000Z",
            "originalFilename": "data.csv",
            "size": 1,
            "contentType": "text/csv",
        }


@pytest.mark.parametrize("file", ["", "u" * 21, "../a", "/a", "a/", "A", "a\0", "\ud800", "%61", "d", "x" * 10_000])
def test_K12_what_names_no_file_is_404(house: House, file: str) -> None:
    session = house.put("a").session_id
    house.put("d/x", session_id=session)
    for name in ("files.stat", "files.read", "files.delete"):
        assert code_of(house, name, session_id=session, file_id=file) is Code.NOT_FOUND
    assert house.names(session) == ["a", "d/x"]


def test_H5_foreign_unknown_and_malformed_sessions_are_one_answer(house: House) -> None:
    foreign = house.put("a", project="two").session_id
    for name in ("files.list", "files.stat", "files.read", "files.delete"):
        bodies = []
        for session in (foreign, "u" * 21, "x", "", "../" + foreign, "é" * 21, "\ud800"):
            data = {"session_id": session} if name == "files.list" else {"session_id": session, "file_id": "a"}
            with pytest.raises(Failure) as refusal:
                house.do(name, data)
            bodies.append((refusal.value.body(), refusal.value.headers()))
        assert all(body == bodies[0] for body in bodies)
        assert bodies[0][0]["error"] == "not_found"
    assert house.names(foreign, "two") == ["a"]


def test_an_id_of_one_session_is_no_file_of_another(house: House) -> None:
    one, two = house.put("a"), house.put("a")
    assert one.files[0].fileId != two.files[0].fileId
    assert code_of(house, "files.read", session_id=two.session_id, file_id=one.files[0].fileId) is Code.NOT_FOUND


def test_a_file_is_deleted_by_id_and_by_path_and_once(house: House) -> None:
    upload = house.put("a", "1")
    session = upload.session_id
    house.put("b", session_id=session, read_only=True)
    deleted = house.do("files.delete", {"session_id": session, "file_id": upload.files[0].fileId})
    assert deleted.model_dump() == {"message": "success", "id": upload.files[0].fileId}
    house.do("files.delete", {"session_id": session, "file_id": "b"})
    assert house.names(session) == []
    assert code_of(house, "files.delete", session_id=session, file_id="b") is Code.NOT_FOUND


def test_a_deletion_that_meets_an_upload_loses_nothing_of_it(house: House) -> None:
    session = house.put("a").session_id
    house.state.before = lambda _: house.put("b", session_id=session)
    house.do("files.delete", {"session_id": session, "file_id": "a"})
    assert house.names(session) == ["b"]


def test_uploads_that_meet_are_both_kept(house: House) -> None:
    session = house.put("a").session_id
    house.state.before = lambda _: house.put("b", session_id=session)
    house.put("c", session_id=session)
    assert house.names(session) == ["a", "b", "c"]


def test_B7_bytes_go_in_and_out_by_an_explicit_encoding(house: House) -> None:
    raw = bytes(range(256))
    session = house.put("b", base64.b64encode(raw).decode(), encoding="base64").session_id
    answer = house.do("files.read", {"session_id": session, "file_id": "b"})
    assert (answer.encoding, base64.b64decode(answer.content), answer.size) == ("base64", raw, 256)
    assert code_of(house, "files.read", session_id=session, file_id="b", encoding="utf-8") is Code.INVALID_REQUEST
    house.put("t", "YQ==", session_id=session)
    assert house.text(session, "t") == "YQ=="
    answer = house.do("files.read", {"session_id": session, "file_id": "t", "encoding": "base64"})
    assert (answer.encoding, answer.content) == ("base64", base64.b64encode(b"YQ==").decode())


@pytest.mark.parametrize("content", ["YQ", "YQ=", "YQ===", "Y Q==", "YQ==\n", "-_8=", "é", "YR==", "====", "\udcff"])
def test_B4_other_base64_is_400(house: House, content: str) -> None:
    with pytest.raises(Failure) as refusal:
        house.put("a", content, encoding="base64")
    assert (refusal.value.code, refusal.value.field) == (Code.INVALID_REQUEST, "content")
    assert house.state.transactions == []


def test_text_that_is_none_is_400(house: House) -> None:
    with pytest.raises(Failure) as refusal:
        house.put("a", "a\ud800")
    assert refusal.value.field == "content"


def test_inline_content_at_its_limit(house: House) -> None:
    limit = house.room.limits.typed_file_bytes
    session = house.put("a", "x" * limit).session_id
    assert len(house.text(session, "a")) == limit
    with pytest.raises(Failure) as refusal:
        house.put("b", "x" * (limit + 1))
    assert refusal.value.field == "content"
    house.run(lambda desk: desk.write("big", b"x" * (limit + 1)), session_id=session)
    with pytest.raises(Failure) as refusal:
        house.do("files.read", {"session_id": session, "file_id": "big"})
    assert refusal.value.code is Code.INVALID_REQUEST


def test_bytes_that_are_not_what_was_stored_are_503(house: House) -> None:
    session = house.put("a", "precious").session_id
    path = next(p for p in (house.data / "objects").rglob("*") if p.is_file() and p.read_bytes() == b"precious")
    path.chmod(0o600)
    path.write_bytes(b"rotten!!")
    assert code_of(house, "files.read", session_id=session, file_id="a") is Code.STORE_UNAVAILABLE
    path.unlink()
    assert code_of(house, "files.read", session_id=session, file_id="a") is Code.STORE_UNAVAILABLE


@pytest.mark.parametrize(("passed", "alive"), [(DAY_MS - 1, True), (DAY_MS, False)])
def test_A8_14_D17_a_session_past_its_life_is_404_to_the_millisecond(house: House, passed: int, alive: bool) -> None:
    session = house.put("a").session_id
    house.clock.forward(passed)
    if alive:
        assert house.names(session) == ["a"]
        return
    with pytest.raises(Failure) as expired:
        house.names(session)
    with pytest.raises(Failure) as unknown:
        house.names("u" * 21)
    assert expired.value.body() == unknown.value.body()
    uses: list[Callable[[], Any]] = [
        lambda: house.put("b", session_id=session),
        lambda: house.run(session_id=session),
    ]
    for use in uses:
        with pytest.raises(Failure) as refusal:
            use()
        assert refusal.value.body() == unknown.value.body()


@pytest.mark.parametrize("use", ["run", "write", "delete"])
def test_A8_14_a_run_upload_or_deletion_extends_the_life(house: House, use: str) -> None:
    session = house.put("a").session_id
    house.clock.forward(DAY_MS - 1)
    if use == "run":
        house.run(session_id=session)
    elif use == "write":
        house.put("b", session_id=session)
    else:
        house.do("files.delete", {"session_id": session, "file_id": "a"})
    house.clock.forward(DAY_MS - 1)
    house.names(session)
    house.clock.forward(1)
    assert code_of(house, "files.list", session_id=session) is Code.NOT_FOUND


def test_A8_14_reads_do_not_extend_it(house: House) -> None:
    session = house.put("a").session_id
    house.clock.forward(DAY_MS - 1)
    house.names(session)
    house.text(session, "a")
    house.do("files.stat", {"session_id": session, "file_id": "a"})
    house.clock.forward(1)
    assert code_of(house, "files.list", session_id=session) is Code.NOT_FOUND
