"""Downloads, listings and freshness over the wire (exec.md A4, A7; cases.md C2, C4, E1)."""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.limits import Limits
from tests.wire.forms import extended, field, file, send
from tests.wire.scripted import Scripted, program
from tests.wire.service import Door, Service, local_store, open_test_room, serving

BASES = ("/v1/exec", "/v1")
CONTENT = bytes(range(256)) * 10_000


@pytest.fixture(scope="module")
def stored(service: Service) -> tuple[str, str]:
    """A session and the id of a file of many pieces in it."""
    with service.client() as client:
        made = send(client, [file("dir/data.bin", CONTENT)]).json()
    return made["session_id"], made["files"][0]["fileId"]


@pytest.mark.parametrize("base", BASES)
def test_a_download_gives_the_bytes_with_their_headers(service: Service, stored: tuple[str, str], base: str) -> None:
    session, ident = stored
    with service.client() as client:
        for name in (ident, "dir/data.bin", "dir%2Fdata.bin", "dir//data.bin"):
            answer = client.get(f"{base}/download/{session}/{name}?kind=user&id=u&version=3")
            assert answer.status_code == 200
            assert answer.content == CONTENT
            assert answer.headers["content-length"] == str(len(CONTENT))
            assert answer.headers["content-type"] == "application/octet-stream"
            assert (
                answer.headers["content-disposition"] == "attachment; filename=\"data.bin\"; filename*=UTF-8''data.bin"
            )
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert parsedate_to_datetime(answer.headers["last-modified"])
            assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("base", BASES)
def test_one_segment_alone_is_400(service: Service, stored: tuple[str, str], base: str) -> None:
    answer = service.ask("GET", f"{base}/download/{stored[0]}")
    assert answer.status == 400
    assert b"`file_id`" in answer.body
    assert service.ask("GET", f"{base}/download/{stored[0]}/").status == 404


NAMES_AND_FALLBACKS = [
    ("🤣.txt", "_.txt", "%F0%9F%A4%A3.txt"),
    ('a"b.txt', "a_b.txt", "a%22b.txt"),
    ("100%.txt", "100_.txt", "100%25.txt"),
    ("line\nbreak.txt", "line_break.txt", "line%0Abreak.txt"),
    ("cr\r\nX-Evil: 1.txt", "cr__X-Evil: 1.txt", "cr%0D%0AX-Evil%3A%201.txt"),
    ("a;b=c.txt", "a;b=c.txt", "a%3Bb%3Dc.txt"),
    ("été/naïve.csv", "na_ve.csv", "na%C3%AFve.csv"),
    ("del\x7f.txt", "del_.txt", "del%7F.txt"),
]


@pytest.mark.parametrize(("name", "fallback", "exact"), NAMES_AND_FALLBACKS)
def test_C2_the_disposition_has_an_ascii_fallback_and_the_exact_name(
    service: Service, name: str, fallback: str, exact: str
) -> None:
    with service.client() as client:
        session = client.post("/v1/exec", json={"lang": "py", "code": program(write={name: "x"})}).json()["session_id"]
        answer = client.get(f"/v1/download/{session}/{quote(name)}")
    assert answer.status_code == 200
    expected = f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{exact}"
    assert answer.headers["content-disposition"] == expected
    assert "x-evil" not in answer.headers


TYPES = [
    ("a.html", "text/html"),
    ("a.svg", "image/svg+xml"),
    ("a.csv", "text/csv"),
    ("a.png", "image/png"),
    ("a.json", "application/json"),
    ("a.tar.gz", "application/octet-stream"),
    ("a.nothing-known", "application/octet-stream"),
    ("README", "application/octet-stream"),
]


@pytest.mark.parametrize(("name", "kind"), TYPES)
def test_the_type_is_by_the_name_and_never_rendered(service: Service, name: str, kind: str) -> None:
    with service.client() as client:
        made = send(client, [file(name, b"<script>alert(1)</script>")]).json()
        answer = client.get(f"/v1/download/{made['session_id']}/{made['files'][0]['fileId']}")
        assert answer.headers["content-type"] == kind
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["x-content-type-options"] == "nosniff"
        row = client.get(f"/v1/files/{made['session_id']}").json()[0]
        assert row["contentType"] == row["metadata"]["content-type"] == kind


RANGES = [
    ("bytes=0-0", 0, 1),
    ("bytes=0-", 0, len(CONTENT)),
    ("bytes=100-299", 100, 200),
    ("bytes=-5", len(CONTENT) - 5, 5),
    (f"bytes={len(CONTENT) - 1}-", len(CONTENT) - 1, 1),
    ("bytes=5-99999999999", 5, len(CONTENT) - 5),
    ("bytes=-99999999999", 0, len(CONTENT)),
    ("bytes=262143-262145", 262_143, 3),
]


@pytest.mark.parametrize(("value", "start", "length"), RANGES)
def test_one_range_is_206(service: Service, stored: tuple[str, str], value: str, start: int, length: int) -> None:
    with service.client() as client:
        answer = client.get(f"/v1/download/{stored[0]}/{stored[1]}", headers={"Range": value})
    assert answer.status_code == 206
    assert answer.content == CONTENT[start : start + length]
    assert answer.headers["content-range"] == f"bytes {start}-{start + length - 1}/{len(CONTENT)}"
    assert answer.headers["content-length"] == str(length)


def test_a_range_of_nothing_is_416_and_no_range_is_the_whole(service: Service, stored: tuple[str, str]) -> None:
    target = f"/v1/download/{stored[0]}/{stored[1]}"
    with service.client() as client:
        tag = client.head(target).headers["etag"]
        for value in (f"bytes={len(CONTENT)}-", "bytes=-0", "bytes=99999999999-"):
            answer = client.get(target, headers={"Range": value})
            assert answer.status_code == 416
            assert answer.headers["content-range"] == f"bytes */{len(CONTENT)}"
            assert answer.json()["error"] == "invalid_request"
        for value in ("bytes=0-1,4-5", "bytes=5-2", "lines=0-1", "bytes=-", "bytes=a-b", "bytes", ""):
            answer = client.get(target, headers={"Range": value})
            assert answer.status_code == 200
            assert answer.content == CONTENT
        part = client.get(target, headers={"Range": "bytes=0-1", "If-Range": tag})
        assert part.status_code == 206
        whole = client.get(target, headers={"Range": "bytes=0-1", "If-Range": '"other"'})
        assert whole.status_code == 200


@local_store("it changes the store's files")
def test_bytes_that_are_not_what_was_stored_never_pass_for_the_file(tmp_path: Path, door: Door) -> None:
    room = open_test_room(tmp_path, Limits(), Scripted())
    with serving(room, door=door) as service, service.client() as client:
        session = send(client, [file("big", CONTENT)]).json()["session_id"]
        small = send(client, [file("small", b"0123456789")]).json()["session_id"]
        for info in room.objects.list("p/"):
            for path in tmp_path.rglob("*"):
                if path.is_file() and path.stat().st_size == info.size and info.size in (10, len(CONTENT)):
                    raw = bytearray(path.read_bytes())
                    raw[-1] ^= 1
                    path.write_bytes(raw)
        for target in (f"/v1/download/{session}/big", f"/v1/download/{small}/small"):
            if door == "local":
                # The answer breaks off below its length.
                with pytest.raises(httpx.RemoteProtocolError):
                    client.get(target)
                continue
            answer = client.get(target)
            assert answer.status_code == 500
            assert answer.json()["error"] == "internal_error"
            assert set(answer.headers) >= {"x-request-id", "content-type"}
            assert "content-disposition" not in answer.headers
        assert client.get("/v1/health").status_code == 200


def test_an_empty_file_is_downloaded(service: Service) -> None:
    with service.client() as client:
        session = send(client, [file("empty", b"")]).json()["session_id"]
        answer = client.get(f"/v1/download/{session}/empty")
        assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "0")
        assert client.get(f"/v1/download/{session}/empty", headers={"Range": "bytes=0-"}).status_code == 416


def test_a_client_that_goes_away_in_the_middle_harms_nobody(service: Service, stored: tuple[str, str]) -> None:
    for _ in range(5):
        with service.connect() as sock:
            head = f"GET /v1/download/{stored[0]}/{stored[1]} HTTP/1.1\r\nHost: h\r\nX-API-Key: {service.key}\r\n\r\n"
            sock.sendall(head.encode())
            assert sock.recv(1000)
    with service.client() as client:
        assert client.get(f"/v1/download/{stored[0]}/{stored[1]}").content == CONTENT


def test_E1_links_are_not_listed_and_not_followed(service: Service) -> None:
    script = program(link={"out.txt": "/proc/self/environ", "outd": "/etc", "in": "real.txt"}, write={"real.txt": "x"})
    with service.client() as client:
        made = client.post("/v1/exec", json={"lang": "bash", "code": script}).json()
        session = made["session_id"]
        assert [row["name"] for row in made["files"]] == ["real.txt"]
        rows = client.get(f"/v1/files/{session}").json()
        assert [row["metadata"]["original-filename"] for row in rows] == ["real.txt"]
        for name in ("out.txt", "outd/passwd", "outd", "in"):
            for target in (f"/v1/download/{session}/{name}", f"/v1/sessions/{session}/objects/{name}"):
                assert client.get(target).status_code == 404, target
            assert client.delete(f"/v1/files/{session}/{name}").status_code == 404


@pytest.mark.parametrize("base", BASES)
def test_a_listing_has_the_rows_of_the_contract(service: Service, base: str) -> None:
    with service.client() as client:
        made = send(client, [file("data.csv", b"1,2\n3,4\n56")]).json()
        session, ident = made["session_id"], made["files"][0]["fileId"]
        queries = ["", "?detail=summary", "?detail=full", "?detail=simple&kind=user&id=1&version=2&entity_id=e"]
        for query in queries:
            answer = client.get(f"{base}/files/{session}{query}")
            assert answer.status_code == 200
            rows = answer.json()
            modified = rows[0]["lastModified"]
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", modified)
            assert rows == [
                {
                    "name": f"{session}/{ident}",
                    "lastModified": modified,
                    "id": ident,
                    "session_id": session,
                    "storage_session_id": session,
                    "size": 10,
                    "contentType": "text/csv",
                    "metadata": {"original-filename": "data.csv", "content-type": "text/csv"},
                }
            ]
        probe = client.get(f"{base}/sessions/{session}/objects/{ident}?kind=user&id=u")
        assert probe.json() == {
            "lastModified": modified,
            "originalFilename": "data.csv",
            "size": 10,
            "contentType": "text/csv",
        }
        assert abs(datetime.fromisoformat(modified).timestamp() - datetime.now().timestamp()) < 60
        assert client.delete(f"{base}/files/{session}/{ident}?kind=user&id=u").status_code == 200
        empty = client.get(f"{base}/files/{session}")
        assert (empty.status_code, empty.content) == (200, b"[]")
        for gone in (f"{base}/sessions/{session}/objects/{ident}", f"{base}/download/{session}/{ident}"):
            assert client.get(gone).status_code == 404
        assert client.delete(f"{base}/files/{session}/{ident}").status_code == 404


def test_a_files_reply_is_part_of_the_listing(service: Service) -> None:
    """The one traversal that answers a run is the listing (exec.md A8.11)."""
    script = program(write={"x/y/z.txt": "1", ".hidden": "2", "a b": ""})
    with service.client() as client:
        made = client.post("/v1/exec", json={"lang": "py", "code": script}).json()
        listed = client.get(f"/v1/files/{made['session_id']}").json()
        assert {row["id"] for row in made["files"]} == {row["id"] for row in listed}
        assert [row["name"] for row in made["files"]] == [".hidden", "a b", "x/y/z.txt"]


SEGMENT = st.text(st.characters(codec="utf-8", exclude_characters="/\\\0"), min_size=1, max_size=40).filter(
    lambda text: text not in (".", "..") and len(text.encode()) <= 255
)
NAME = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)
CASES = ["a b.txt", "a+b.txt", "100%.txt", "%2e%2e", "a#b?.txt", "a&b=c.txt", "%", "%2F", "%00", "~", "a;b", "é\u0301"]


def prefix_free(names: set[str]) -> bool:
    return not any(other.startswith(name + "/") for name in names for other in names)


def must_round_trip(service: Service, names: set[str]) -> None:
    wanted = {name: name.encode() * 3 for name in names}
    with service.client() as client:
        parts = [extended("UTF-8''" + quote(name, safe=""), body) for name, body in wanted.items()]
        plain = {name for name in names if not re.search('[\r\n"\\x00-\\x1f\\x7f]|%22|%0A|%0D', name)}
        made = send(client, parts, "/v1/upload/batch").json()
        session = made["session_id"]
        for name in plain:
            again = send(client, [field("session_id", session), file(name, wanted[name])])
            assert again.json()["files"][0]["filename"] == name
        rows = client.get(f"/v1/exec/files/{session}").json()
        listed = [row["metadata"]["original-filename"] for row in rows]
        assert sorted(listed, key=str.encode) == listed, "bytewise order"
        assert set(listed) == names
        for row in rows:
            name = row["metadata"]["original-filename"]
            for path in (row["name"], f"{session}/{quote(name)}", f"{session}/{quote(name, safe='')}"):
                answer = client.get(f"/v1/download/{path}")
                assert (answer.status_code, answer.content) == (200, wanted[name])
            exact = answer.headers["content-disposition"].partition("filename*=UTF-8''")[2]
            assert unquote(exact, errors="strict") == name.rpartition("/")[2]


def test_C4_names_that_need_escapes_round_trip(service: Service) -> None:
    must_round_trip(service, set(CASES))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.sets(NAME, min_size=1, max_size=5).filter(prefix_free))
def test_C4_any_set_of_names_round_trips(service: Service, names: set[str]) -> None:
    must_round_trip(service, names)
