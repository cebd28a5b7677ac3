"""Uploads over the wire (exec.md A4, A7; cases.md B6, C1, C7)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.forms import BOUNDARY, MULTIPART, Raw, extended, field, file, form, pieces, send
from tests.wire.scripted import program
from tests.wire.service import Service, expect_eventually, local_store, sessions, stored_things

ID = re.compile(r"[A-Za-z0-9_-]{21}")


@pytest.mark.parametrize("path", ["/v1/exec/upload", "/v1/upload"])
def test_an_upload_answers_the_members_of_the_contract(service: Service, path: str) -> None:
    with service.client() as client:
        answer = send(client, [field("kind", "user"), field("id", "u-1"), file("data.csv", b"1,2\n3,4\n56")], path)
    assert answer.status_code == 200
    made = answer.json()
    session, ident = made["session_id"], made["files"][0]["id"]
    assert ID.fullmatch(session)
    assert ID.fullmatch(ident)
    assert made == {
        "message": "success",
        "session_id": session,
        "storage_session_id": session,
        "files": [{"fileId": ident, "filename": "data.csv", "id": ident, "name": "data.csv", "size": 10}],
    }


@pytest.mark.parametrize("path", ["/v1/exec/upload/batch", "/v1/upload/batch"])
def test_a_batch_answers_the_members_of_the_contract(service: Service, path: str) -> None:
    with service.client() as client:
        answer = send(client, [file("skill/SKILL.md", b"a"), file("skill/b.py", b"bc", part="files")], path)
    made = answer.json()
    session = made["session_id"]
    assert {key: made[key] for key in ("message", "storage_session_id", "succeeded", "failed")} == {
        "message": "success",
        "storage_session_id": session,
        "succeeded": 2,
        "failed": 0,
    }
    assert [(row["status"], row["filename"], row["name"], row["size"]) for row in made["files"]] == [
        ("success", "skill/SKILL.md", "skill/SKILL.md", 1),
        ("success", "skill/b.py", "skill/b.py", 2),
    ]
    assert all(row["fileId"] == row["id"] and ID.fullmatch(row["id"]) for row in made["files"])
    assert "filesLimitReached" not in made


NAMES = [
    (file("报告.csv"), "报告.csv"),
    (file("données/été 🤣.txt"), "données/été 🤣.txt"),
    (extended("UTF-8''%E6%8A%A5%E5%91%8A.csv"), "报告.csv"),
    (extended("utf-8'en'a%20b%2Fc%25.txt"), "a b/c%.txt"),
    (extended("UTF-8''it's.txt"), "it's.txt"),
    (file('say \\"hi\\".txt'), 'say "hi".txt'),
    (file("say %22hi%22.txt"), 'say "hi".txt'),
    (file("100%.txt"), "100%.txt"),
    (file("%2e%2e"), "%2e%2e"),
    (file("a+b&c=d;e#f?.txt"), "a+b&c=d;e#f?.txt"),
    (file("-rf"), "-rf"),
    (file("--help"), "--help"),
    (file("$(id)"), "$(id)"),
    (file("'q'.txt"), "'q'.txt"),
    (file(".env"), ".env"),
    (file("deep/er/still/x"), "deep/er/still/x"),
    (file(" lead and trail "), " lead and trail "),
    (Raw(b"content-disposition: form-data;name=file;filename=plain.txt", b"x"), "plain.txt"),
    (Raw(b'Content-Disposition:   FORM-DATA ; NAME="file" ; FileName="case.txt" ', b"x"), "case.txt"),
    (Raw(b'Content-Disposition: form-data; filename="first.txt"; name="f"', b"x"), "first.txt"),
    (
        Raw(b'Content-Disposition: form-data; name="file"; filename="x.txt"; filename*=UTF-8\'\'%C3%A9.txt', b"x"),
        "é.txt",
    ),
    (file("x" * 255), "x" * 255),
]


@pytest.mark.parametrize(("part", "name"), NAMES)
def test_C1_the_name_is_exact_in_the_answer_the_listing_a_run_and_the_download(
    service: Service, part: Raw, name: str
) -> None:
    with service.client() as client:
        answer = send(client, [part])
        assert answer.status_code == 200, answer.text
        made = answer.json()
        assert made["files"][0]["filename"] == made["files"][0]["name"] == name
        session, ident = made["session_id"], made["files"][0]["fileId"]
        rows = client.get(f"/v1/files/{session}").json()
        assert [row["metadata"]["original-filename"] for row in rows] == [name]
        assert rows[0]["name"] == f"{session}/{ident}"
        run = client.post("/v1/exec", json={"lang": "py", "code": program(show="files"), "session_id": session})
        assert name in json.loads(run.json()["stdout"])
        assert client.get(f"/v1/download/{session}/{ident}").content == b"x"


REFUSED_NAMES = [
    "",
    "/etc/passwd",
    "../../x",
    "..",
    ".",
    "./a",
    "a/./b",
    "a/../b",
    "a/..",
    "a//b",
    "a/",
    "/",
    "C:\\x",
    "..\\x",
    "a\\\\b",
    "a\0b",
    "x" * 256,
    "é" * 128,
    "d/" * 80 + "x",
    ("y" * 250 + "/") * 20 + "z",
]


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_C7_a_name_that_is_not_canonical_is_refused_and_opens_nothing(
    service: Service, data_folder: Path, name: str
) -> None:
    before = sessions(service.room), stored_things(service.room, data_folder)
    with service.client() as client:
        answer = send(client, [file(name)])
        assert answer.status_code == 400, name
        assert set(answer.json()) == {"error", "message"}
        assert answer.json()["error"] == "invalid_request"
        assert "\0" in name or "`filename`" in answer.json()["message"]
        if "\0" not in name:
            row = send(client, [file(name)], "/v1/upload/batch")
            assert row.status_code == 400
    assert (sessions(service.room), stored_things(service.room, data_folder)) == before


BROKEN: list[tuple[str, bytes, dict[str, str]]] = [
    ("no content type", form([file("a")]), {}),
    ("another content type", form([file("a")]), {"Content-Type": "application/json"}),
    ("a near content type", form([file("a")]), {"Content-Type": "multipart/mixed; boundary=" + BOUNDARY}),
    ("no boundary", form([file("a")]), {"Content-Type": "multipart/form-data"}),
    ("an empty boundary", form([file("a")]), {"Content-Type": "multipart/form-data; boundary="}),
    ("a long boundary", form([file("a")]), {"Content-Type": "multipart/form-data; boundary=" + "b" * 300}),
    ("another boundary", form([file("a")]), {"Content-Type": "multipart/form-data; boundary=other"}),
    ("no body", b"", MULTIPART),
    ("nonsense", b"nonsense", MULTIPART),
    ("no end", form([file("a")])[: -len(BOUNDARY) - 8], MULTIPART),
    ("a cut end", form([file("a")])[:-4], MULTIPART),
    ("cut in a header", form([file("a")])[:60], MULTIPART),
    ("no parts", f"--{BOUNDARY}--\r\n".encode(), MULTIPART),
    ("only fields", form([field("kind", "user")]), MULTIPART),
    ("no disposition", form([Raw(b"Content-Type: text/plain", b"x")]), MULTIPART),
    ("another disposition", form([Raw(b'Content-Disposition: attachment; filename="a"', b"x")]), MULTIPART),
    ("no part name", form([Raw(b'Content-Disposition: form-data; filename="a"', b"x")]), MULTIPART),
    ("an open quote", form([Raw(b'Content-Disposition: form-data; name="file"; filename="a', b"x")]), MULTIPART),
    (
        "a name twice",
        form([Raw(b'Content-Disposition: form-data; name="f"; filename="a"; filename="b"', b"")]),
        MULTIPART,
    ),
    ("disposition twice", form([Raw(file("a").head + b"\r\n" + file("b").head, b"x")]), MULTIPART),
    ("not UTF-8", form([file(b"\xff\xfe.txt")]), MULTIPART),
    ("a latin name", form([extended("ISO-8859-1''%e9.txt")]), MULTIPART),
    ("a bad escape", form([extended("UTF-8''%zz.txt")]), MULTIPART),
    ("bad UTF-8 in an escape", form([extended("UTF-8''%ff.txt")]), MULTIPART),
    ("no charset", form([extended("a.txt")]), MULTIPART),
    (
        "continued",
        form([Raw(b"Content-Disposition: form-data; name=\"file\"; filename*0*=UTF-8''a; filename*1=b", b"")]),
        MULTIPART,
    ),
    ("base64", form([Raw(file("a").head + b"\r\nContent-Transfer-Encoding: base64", b"eA==")]), MULTIPART),
    ("two files", form([file("a"), file("b")]), MULTIPART),
    ("session after the file", form([file("a"), field("session_id", "A" * 21)]), MULTIPART),
    ("read_only after the file", form([file("a"), field("read_only", "true")]), MULTIPART),
    ("session twice", form([field("session_id", "A" * 21), field("session_id", "A" * 21), file("a")]), MULTIPART),
    ("an empty session", form([field("session_id", ""), file("a")]), MULTIPART),
    ("a session that is not UTF-8", form([field("session_id", b"\xff"), file("a")]), MULTIPART),
    ("a session with NUL", form([field("session_id", "a\0b"), file("a")]), MULTIPART),
    ("a long session", form([field("session_id", "a" * 1025), file("a")]), MULTIPART),
    ("read_only of no kind", form([field("read_only", "1"), file("a")]), MULTIPART),
    ("an empty read_only", form([field("read_only", ""), file("a")]), MULTIPART),
    ("read_only in capitals", form([field("read_only", "TRUE"), file("a")]), MULTIPART),
    ("a long label", form([field("entity_id", "a" * 1025), file("a")]), MULTIPART),
    ("a label that is not UTF-8", form([field("kind", b"\xff"), file("a")]), MULTIPART),
    ("a label with NUL", form([field("version", "\0"), file("a")]), MULTIPART),
    ("a huge unknown field", form([field("whatever", "a" * 70_000), file("a")]), MULTIPART),
    ("many fields", form([*(field(f"f{n}", "") for n in range(101)), file("a")]), MULTIPART),
    ("many headers", form([Raw(b"\r\n".join(b"X-%d: y" % n for n in range(50)), b"")]), MULTIPART),
    ("a huge header", form([Raw(b"X: " + b"y" * 100_000, b"")]), MULTIPART),
    ("a header without a colon", form([Raw(b"nonsense", b"")]), MULTIPART),
]


@pytest.mark.parametrize(("why", "body", "headers"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_upload_is_400_and_leaves_nothing(
    service: Service, data_folder: Path, why: str, body: bytes, headers: dict[str, str]
) -> None:
    before = sessions(service.room), stored_things(service.room, data_folder)
    with service.client() as client:
        for path in ("/v1/upload",) if why == "two files" else ("/v1/upload", "/v1/upload/batch"):
            for content in (body, pieces(body, 7 if len(body) < 1_000 else 1_111)):
                answer = client.post(path, content=content, headers=headers)
                assert answer.status_code == 400, (path, answer.text)
                assert answer.json()["error"] == "invalid_request"
                assert set(answer.json()) == {"error", "message"}
    assert (sessions(service.room), stored_things(service.room, data_folder)) == before


def test_an_unknown_and_a_foreign_session_are_404_before_any_byte_of_the_file(service: Service) -> None:
    with service.client() as client, service.client(service.other_key) as other:
        foreign = other.post("/v1/upload", files={"file": ("a", b"a")}).json()["session_id"]
        answers = set()
        for session in (foreign, "A" * 21, "nonsense", "../x", "x" * 1000):
            read = 0

            def body(session: str = session) -> Iterator[bytes]:
                nonlocal read
                start = form([field("session_id", session), file("a", b"")]).split(
                    b"\r\n--" + BOUNDARY.encode() + b"--"
                )[0]
                yield start
                for _ in range(4):
                    read += 1
                    yield bytes(600_000)
                yield f"\r\n--{BOUNDARY}--\r\n".encode()

            answer = client.post("/v1/upload", content=body(), headers=MULTIPART)
            assert answer.status_code == 404
            answers.add(answer.content)
        assert len(answers) == 1
        assert len(other.get(f"/v1/files/{foreign}").json()) == 1


def test_an_upload_joins_a_session_and_replaces_a_file_of_that_name(service: Service) -> None:
    with service.client() as client:
        first = send(client, [file("a.txt", b"old")]).json()
        session = first["session_id"]
        for name, body in (("a.txt", b"new"), ("b/c.txt", b"more")):
            again = send(client, [field("session_id", session), file(name, body)]).json()
            assert again["session_id"] == again["storage_session_id"] == session
        assert client.get(f"/v1/download/{session}/{first['files'][0]['fileId']}").content == b"new"
        rows = client.get(f"/v1/files/{session}").json()
        assert [row["metadata"]["original-filename"] for row in rows] == ["a.txt", "b/c.txt"]


def test_labels_may_come_anywhere_and_empty_files_are_files(service: Service) -> None:
    with service.client() as client:
        answer = send(
            client, [field("entity_id", "asst_1"), field("unknown", "x"), file("empty", b""), field("version", "3")]
        )
        assert answer.status_code == 200
        made = answer.json()
        assert made["files"][0]["size"] == 0
        assert client.get(f"/v1/download/{made['session_id']}/empty").content == b""


def test_B6_every_byte_comes_back_with_and_without_a_length_and_at_any_cut(service: Service) -> None:
    content = bytes(range(256)) * 40 + b"\r\n--" + BOUNDARY.encode()[:-1] + b"\r\n--\r\n\0"
    body = form([file("all.bin", content)])
    with service.client() as client:
        for sent in (body, pieces(body, 1), pieces(body, 13), pieces(body, 4096)):
            made = client.post("/v1/upload", content=sent, headers=MULTIPART).json()
            answer = client.get(f"/v1/download/{made['session_id']}/all.bin")
            assert answer.content == content
            assert made["files"][0]["size"] == len(content)


def test_preamble_and_epilogue_are_no_part_of_a_file(service: Service) -> None:
    with service.client() as client:
        body = form([file("a", b"kept")]) + b"an epilogue\r\n"
        made = client.post("/v1/upload", content=body, headers=MULTIPART).json()
        assert client.get(f"/v1/download/{made['session_id']}/a").content == b"kept"


def test_read_only_is_kept_with_the_file(service: Service) -> None:
    with service.client() as client:
        made = send(client, [field("read_only", "true"), file("r.txt", b"keep")]).json()
        session = made["session_id"]
        run = client.post(
            "/v1/exec", json={"lang": "py", "code": program(write={"r.txt": "changed"}), "session_id": session}
        ).json()
        assert [(row["name"], row.get("inherited"), row["id"]) for row in run["files"]] == [
            ("r.txt", True, made["files"][0]["fileId"])
        ]
        assert client.get(f"/v1/download/{session}/r.txt").content == b"keep"
        open_file = send(client, [field("read_only", "false"), file("w.txt", b"old")]).json()
        run = client.post(
            "/v1/exec",
            json={"lang": "py", "code": program(write={"w.txt": "changed"}), "session_id": open_file["session_id"]},
        ).json()
        assert "inherited" not in run["files"][0]
        assert client.get(f"/v1/download/{open_file['session_id']}/w.txt").content == b"changed"


def test_a_file_in_the_place_of_a_folder_is_refused(service: Service) -> None:
    with service.client() as client:
        session = send(client, [file("a/b", b"1")]).json()["session_id"]
        for name in ("a", "a/b/c"):
            answer = send(client, [field("session_id", session), file(name)])
            assert answer.status_code == 400
            assert "`filename`" in answer.json()["message"]
        assert len(client.get(f"/v1/files/{session}").json()) == 1


def test_a_file_at_its_limit_is_taken_and_above_it_is_413_while_it_is_read(small: Service, small_folder: Path) -> None:
    limit = small.room.limits.upload_bytes
    with small.client() as client:
        assert send(client, [file("at", bytes(limit))]).json()["files"][0]["size"] == limit
        before = sessions(small.room), stored_things(small.room, small_folder)

        def many() -> Iterator[bytes]:
            yield form([file("above", b"")]).split(b"\r\n--" + BOUNDARY.encode() + b"--")[0]
            # Behind a gateway, what does not fit into an event never comes here.
            for _ in range(200 if small.door == "local" else 80):
                yield bytes(50_000)

        for content in (form([file("above", bytes(limit + 1))]), many()):
            answer = client.post("/v1/upload", content=content, headers=MULTIPART)
            assert answer.status_code == 413
            assert answer.json() == {
                "error": "too_large",
                "message": f"`file` must not be larger than {limit} bytes",
            }
        assert (sessions(small.room), stored_things(small.room, small_folder)) == before


@pytest.mark.doors("local", why="a gateway waits for the whole body before it makes an event")
def test_a_length_far_above_the_limit_is_refused_before_the_body(small: Service) -> None:
    head = f"POST /v1/upload HTTP/1.1\r\nHost: h\r\nX-API-Key: {small.key}\r\n"
    head += f"Content-Type: {MULTIPART['Content-Type']}\r\n"
    answer = small.send((head + "Content-Length: 999999999999\r\nExpect: 100-continue\r\n\r\n").encode())
    assert answer.status == 413


def test_a_batch_names_what_it_refuses_and_stores_the_rest(small: Service) -> None:
    limit = small.room.limits.upload_bytes
    parts = [file("good.txt", b"1"), file("../bad"), file("big", bytes(limit + 1)), file("dir/also.txt", b"22")]
    with small.client() as client:
        answer = send(client, parts, "/v1/upload/batch")
        assert answer.status_code == 200
        made = answer.json()
        assert (made["message"], made["succeeded"], made["failed"]) == ("partial_success", 2, 2)
        rows = {row["filename"]: row for row in made["files"]}
        assert rows["good.txt"]["status"] == rows["dir/also.txt"]["status"] == "success"
        for name, word in (("../bad", "`filename`"), ("big", str(limit))):
            assert rows[name]["status"] == "error"
            assert word in rows[name]["error"]
        listed = client.get(f"/v1/files/{made['session_id']}").json()
        assert [row["metadata"]["original-filename"] for row in listed] == ["dir/also.txt", "good.txt"]


def test_a_batch_of_which_nothing_is_taken_is_400(small: Service, small_folder: Path) -> None:
    before = sessions(small.room), stored_things(small.room, small_folder)
    with small.client() as client:
        answer = send(client, [file("../a"), file("/b")], "/v1/upload/batch")
        assert answer.status_code == 400
        assert answer.json()["error"] == "invalid_request"
        assert "`filename`" in answer.json()["message"]
    assert (sessions(small.room), stored_things(small.room, small_folder)) == before


def test_a_batch_above_its_number_of_files_says_so(small: Service) -> None:
    most = small.room.limits.batch_files
    with small.client() as client:
        full = send(client, [file(f"{n}", b"x") for n in range(most)], "/v1/upload/batch").json()
        assert (full["message"], full["succeeded"]) == ("success", most)
        assert "filesLimitReached" not in full
        over = send(client, [file(f"{n}", b"x") for n in range(most + 2)], "/v1/upload/batch").json()
        assert (over["message"], over["succeeded"], over["failed"]) == ("partial_success", most, 2)
        assert (over["filesLimitReached"], over["maxFiles"]) == (True, most)
        assert [row["filename"] for row in over["files"] if row["status"] == "error"] == [str(most), str(most + 1)]
        too_many = send(client, [file(f"{n}", b"x") for n in range(1_001)], "/v1/upload/batch")
        assert too_many.status_code == 400
        assert str(most) in too_many.json()["message"]


def test_files_above_the_workspace_together_are_refused(small: Service, small_folder: Path) -> None:
    before = sessions(small.room), stored_things(small.room, small_folder)
    limit = small.room.limits.upload_bytes
    with small.client() as client:
        answer = send(client, [file(f"{n}", bytes(limit)) for n in range(3)], "/v1/upload/batch")
        assert answer.status_code == 413
        assert str(small.room.limits.workspace_bytes) in answer.json()["message"]
    assert (sessions(small.room), stored_things(small.room, small_folder)) == before


@pytest.mark.doors("local", why="an event has 6 MB, less than what the limit is above")
def test_the_bytes_of_refused_files_of_a_batch_count_too(small: Service) -> None:
    def body() -> Iterator[bytes]:
        yield form([file("../a")])[: -len(BOUNDARY) - 8]
        for _ in range(60):
            yield bytes(1_000_000)

    with small.client() as client:
        answer = client.post("/v1/upload/batch", content=body(), headers=MULTIPART)
    assert answer.status_code == 413
    assert "`body`" in answer.json()["message"]


def test_of_two_files_with_one_name_in_a_batch_the_last_wins(service: Service) -> None:
    with service.client() as client:
        made = send(client, [file("a", b"first"), file("a", b"last")], "/v1/upload/batch").json()
        assert client.get(f"/v1/download/{made['session_id']}/a").content == b"last"


@pytest.mark.doors("local", why="a gateway has read the whole body before it makes an event")
def test_a_client_that_goes_away_leaves_nothing(service: Service, data_folder: Path) -> None:
    before = sessions(service.room), stored_things(service.room, data_folder)
    start = form([file("big", bytes(2_000_000))])[:1_500_000]
    with service.connect() as sock:
        head = f"POST /v1/upload HTTP/1.1\r\nHost: h\r\nX-API-Key: {service.key}\r\n"
        head += f"Content-Type: {MULTIPART['Content-Type']}\r\nContent-Length: 2000300\r\n\r\n"
        sock.sendall(head.encode() + start)
        expect_eventually(lambda: stored_things(service.room, data_folder) != before[1])
    expect_eventually(lambda: (sessions(service.room), stored_things(service.room, data_folder)) == before)


def grant_of(service: Service, content: bytes, **more: object) -> dict[str, object]:
    asked = {"name": "g/big.bin", "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **more}
    with service.client() as client:
        answer = client.post("/v1/exec/uploads", json=asked)
    assert answer.status_code == 201, answer.text
    made: dict[str, object] = answer.json()
    return made


@local_store("S3's own grants are tested in tests/contract and tests/e2e")
def test_a_file_is_uploaded_by_grant(service: Service) -> None:
    content = bytes(range(256)) * 5000
    before = sessions(service.room)
    grant = grant_of(service, content)
    assert grant["method"] == "PUT"
    url, complete = str(grant["url"]), f"/v1/exec/uploads/{grant['upload_id']}/complete"
    with service.client() as client, service.client("") as nobody:
        early = client.post(complete)
        assert early.status_code == 400
        sent = nobody.put(url, content=content, headers={"If-None-Match": "*"})
        assert (sent.status_code, sent.content) == (201, b"")
        assert sessions(service.room) == before, "nothing of a session exists before the completion"
        assert nobody.post(complete).status_code == 401
        first = client.post(complete)
        again = client.post(complete, json={})
        assert first.status_code == again.status_code == 200
        assert first.json() == again.json()
        made = first.json()
        assert made["message"] == "success"
        assert made["files"][0]["filename"] == "g/big.bin"
        assert client.get(f"/v1/download/{made['session_id']}/g/big.bin").content == content


@local_store("S3's own grants are tested in tests/contract and tests/e2e")
def test_K7_a_grant_is_refused_late_forged_twice_bigger_and_without_its_condition(service: Service) -> None:
    content = b"0123456789"
    url = str(grant_of(service, content)["url"])
    condition = {"If-None-Match": "*"}
    with service.client("") as nobody:
        path, _, token = url.rpartition("/")
        for forged in (
            token[:-2],
            token + "A",
            "x." + token.partition(".")[2],
            token.partition(".")[0],
            "%00",
            "x" * 9000,
        ):
            assert nobody.put(f"{path}/{forged}", content=content, headers=condition).status_code in (403, 404)
        for headers in ({}, {"If-None-Match": '"x"'}):
            refused = nobody.put(url, content=content, headers=headers)
            assert refused.status_code == 400
            assert "`If-None-Match`" in refused.json()["message"]
        for body in (content + b"x", content[:-1], b"", b"9876543210"):
            assert nobody.put(url, content=body, headers=condition).status_code == 400
            assert nobody.put(url, content=pieces(body, 4), headers=condition).status_code == 400
        assert nobody.put(url, content=content, headers=condition).status_code == 201
        twice = nobody.put(url, content=content, headers=condition)
        assert twice.status_code == 409
        assert twice.json()["error"] == "already_exists"
        for method in ("GET", "POST", "DELETE"):
            assert nobody.request(method, url).status_code == 401
