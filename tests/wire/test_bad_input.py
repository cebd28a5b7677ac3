"""Bad input: each field of each typed request, of each wrong kind, is 400 naming it, and nothing is created."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.limits import Limits
from tests.wire.scripted import program
from tests.wire.service import Service, sessions, stored_things

LIMITS = Limits()
GOOD = {"lang": "py", "code": program()}
FILE = {"id": "A" * 21, "name": "a.csv", "storage_session_id": "B" * 21}
UPLOAD = {"name": "a.csv", "size": 3, "sha256": "0" * 64}
DROP = object()

NOT_TEXT: tuple[Any, ...] = (1, 1.5, True, [], ["x"], {}, {"a": 1})
NOT_LIST: tuple[Any, ...] = ("x", 1, True, {}, {"0": "x"})
SURROGATE = "\ud800"


def rows() -> Iterator[tuple[str, dict[str, Any], str, Any, str]]:  # noqa: PLR0912
    """(address, good body, member, wrong value, the name that the message has)."""
    for value in (DROP, None, "", "x", "PY", "python", " py", "py\0", SURROGATE, "x" * 10_000, *NOT_TEXT):
        yield "/v1/exec", GOOD, "lang", value, "lang"
    long_code = "#" * (LIMITS.code_bytes + 1)
    for value in (DROP, None, "", "a\0b", SURROGATE, long_code, "é" * (LIMITS.code_bytes // 2 + 1), *NOT_TEXT):
        yield "/v1/exec", GOOD, "code", value, "code"
    for value in (*NOT_LIST, ["x" * (LIMITS.args_bytes + 1)], ["x" * 1000] * 70):
        yield "/v1/exec", GOOD, "args", value, "args"
    for value in (1, True, [], {}, "a\0b", SURROGATE):
        yield "/v1/exec", GOOD, "args", ["ok", value], "args[1]"
    for name in ("session_id", "runtime_session_hint", "user_id", "entity_id"):
        for value in (*NOT_TEXT, "a\0b", SURROGATE, "x" * (LIMITS.label_bytes + 1)):
            yield "/v1/exec", GOOD, name, value, name
    for name in ("session_id", "runtime_session_hint"):
        yield "/v1/exec", GOOD, name, "", name
    for value in ("5", "", 0, -1, 1.5, 1e3, True, [], {}, 10**9, 10**40):
        yield "/v1/exec", GOOD, "timeout", value, "timeout"
    for value in (*NOT_LIST, [FILE] * (LIMITS.run_files + 1)):
        yield "/v1/exec", GOOD, "files", value, "files"
    for value in ("x", 1, True, []):
        yield "/v1/exec", GOOD, "files", [FILE, value], "files[1]"
    for value in (DROP, None, "", "a\0b", SURROGATE, "x" * (LIMITS.path_bytes + 1), *NOT_TEXT):
        yield "/v1/exec", GOOD, "files", [changed(FILE, "id", value)], "files[0].id"
    for value in (*BAD_PATHS, *NOT_TEXT):
        yield "/v1/exec", GOOD, "files", [changed(FILE, "name", value)], "files[0].name"
    for name in ("storage_session_id", "session_id"):
        for value in (*NOT_TEXT, "a\0b", SURROGATE, "x" * (LIMITS.label_bytes + 1)):
            yield "/v1/exec", GOOD, "files", [changed(FILE, name, value)], f"files[0].{name}"
    for value in (DROP, None, *BAD_PATHS, *NOT_TEXT):
        yield "/v1/exec/uploads", UPLOAD, "name", value, "name"
    for value in (DROP, None, -1, "3", 1.5, True, [], {}, LIMITS.upload_bytes + 1, 10**40):
        yield "/v1/exec/uploads", UPLOAD, "size", value, "size"
    for value in (DROP, None, "", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 63 + "\n", SURROGATE, *NOT_TEXT):
        yield "/v1/exec/uploads", UPLOAD, "sha256", value, "sha256"
    for value in ("", "a\0b", SURROGATE, "x" * (LIMITS.label_bytes + 1), *NOT_TEXT):
        yield "/v1/exec/uploads", UPLOAD, "session_id", value, "session_id"
    for value in (1, 0, "true", "", [], {}):
        yield "/v1/exec/uploads", UPLOAD, "read_only", value, "read_only"


BAD_PATHS: tuple[str, ...] = (
    "",
    "/etc/passwd",
    "../../x",
    "..",
    ".",
    "./a",
    "a/../b",
    "a//b",
    "a/",
    "C:\\x",
    "..\\x",
    "a\0b",
    SURROGATE,
    "x" * 256,
    "x/" * 80 + "y",
    ("y" * 250 + "/") * 20 + "z",
)


def changed(good: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    body = {**good, name: value}
    if value is DROP:
        del body[name]
    return body


def shown(value: Any) -> str:
    return "missing" if value is DROP else repr(value)[:24]


ROWS = list(rows())


def test_the_matrix_has_every_member_of_every_request_model(service: Service) -> None:
    """A member that is added to an input has to be added here."""
    with service.client("") as client:
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
    asked = {(address, member) for address, _, member, _, _ in ROWS}
    named = {name.rpartition(".")[2] for _, _, _, _, name in ROWS if name.startswith("files[0].")}
    assert {member for address, member in asked if address == "/v1/exec"} == set(schemas["RunInput"]["properties"])
    assert named == set(schemas["RunFile"]["properties"])
    assert {member for address, member in asked if address == "/v1/exec/uploads"} == set(
        schemas["UploadRequest"]["properties"]
    )


@pytest.mark.parametrize("group", sorted({(row[0], row[4]) for row in ROWS}))
def test_a_wrong_value_is_400_naming_the_member(service: Service, data_folder: Path, group: tuple[str, str]) -> None:
    before = sessions(service.room), stored_things(service.room, data_folder)
    started = service.executor.started
    with service.client() as client:
        for address, good, member, value, name in ROWS:
            if (address, name) != group:
                continue
            content = json.dumps(changed(good, member, value))
            answer = client.post(address, content=content)
            assert answer.status_code == 400, shown(value)
            error = answer.json()
            assert set(error) == {"error", "message"}
            assert error["error"] == "invalid_request"
            assert error["message"].startswith(f"`{name}"), (shown(value), error["message"])
            assert len(error["message"]) < 300
    assert (sessions(service.room), stored_things(service.room, data_folder)) == before
    assert service.executor.started == started


NOT_JSON: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("blank", b"  \r\n "),
    ("broken", b'{"lang":"py"'),
    ("two values", b"{}{}"),
    ("a comment", b'{"lang":"py",/**/"code":"x"}'),
    ("single quotes", b"{'lang':'py'}"),
    ("NaN", b'{"lang":"py","code":"{}","timeout":NaN}'),
    ("Infinity", b'{"lang":"py","code":"{}","x":Infinity}'),
    ("-Infinity", b'{"lang":"py","code":"{}","x":[-Infinity]}'),
    ("an array", b"[]"),
    ("a string", b'"x"'),
    ("a number", b"1"),
    ("null", b"null"),
    ("a control character", b'{"lang":"p\ny"}'),
    ("not UTF-8", b'{"lang":"py","code":"\xff"}'),
    ("latin-1", '{"lang":"py","code":"é"}'.encode("latin-1")),
    ("UTF-16", '{"lang":"py","code":"{}"}'.encode("utf-16")),
    ("a byte order mark", b"\xef\xbb\xbf" + json.dumps(GOOD).encode()),
    ("an encoded surrogate", b'{"lang":"py","code":"\xed\xa0\x80"}'),
    ("an overlong form", b'{"lang":"py","code":"\xc0\x80"}'),
    ("a form", b"lang=py&code=x"),
    ("gzip", b"\x1f\x8b\x08\x00"),
    ("deep arrays", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("deep objects", b'{"x":' * 100_000 + b"1" + b"}" * 100_000),
    ("open arrays", b"[" * 1_000_000),
    ("just too deep", b'{"x":' + b"[" * 64 + b"]" * 64 + b"}"),
    ("a huge number", b'{"lang":"py","code":"{}","timeout":' + b"9" * 10_000 + b"}"),
]
BODIED = ["/v1/exec", "/v1/exec/exec", "/v1/exec/programmatic", "/v1/exec/uploads"]


@pytest.mark.parametrize(("why", "raw"), NOT_JSON, ids=[row[0] for row in NOT_JSON])
def test_a_body_that_is_no_json_object_is_400_naming_the_body(service: Service, why: str, raw: bytes) -> None:
    started = service.executor.started
    for target in BODIED:
        answer = service.ask("POST", target, headers={"Content-Type": "application/json"}, body=raw)
        assert answer.status == 400, (why, target)
        error = json.loads(answer.body)
        assert error["error"] == "invalid_request"
        assert error["message"].startswith("`body` must")
    assert service.executor.started == started


def test_what_is_deep_but_not_too_deep_is_taken(service: Service) -> None:
    raw = json.dumps(GOOD)[:-1].encode() + b',"x":' + b"[" * 63 + b"]" * 63 + b"}"
    assert service.ask("POST", "/v1/exec", body=raw).status == 200


def test_a_body_at_its_limit_is_taken_and_above_it_is_400_naming_the_limit(small: Service) -> None:
    limit = small.room.limits.body_bytes
    good = json.dumps(GOOD).encode()
    with small.client() as client:
        assert client.post("/v1/exec", content=good + b" " * (limit - len(good))).status_code == 200
        over = good + b" " * (limit - len(good) + 1)
        for content in (over, iter([over[:1000], over[1000:]])):
            answer = client.post("/v1/exec", content=content)
            assert answer.status_code == 400
            assert answer.json() == {
                "error": "invalid_request",
                "message": f"`body` must not be longer than {limit} bytes",
            }


@pytest.mark.doors("local", why="a gateway waits for the whole body before it makes an event")
def test_an_announced_length_above_the_limit_is_refused_before_the_body(small: Service) -> None:
    head = f"POST /v1/exec HTTP/1.1\r\nHost: h\r\nX-API-Key: {small.key}\r\nContent-Length: 99999999999\r\n\r\n"
    assert small.send(head.encode()).status == 400


def test_code_at_its_limit_is_taken(service: Service) -> None:
    code = program(stdout="at").encode()
    padded = code[:-1] + b" " * (LIMITS.code_bytes - len(code)) + b"}"
    with service.client() as client:
        answer = client.post("/v1/exec", json={"lang": "py", "code": padded.decode()})
        assert answer.status_code == 200
        assert answer.json()["stdout"] == "at"


def test_a_language_that_is_not_one_is_answered_with_the_set(service: Service) -> None:
    with service.client() as client:
        message = client.post("/v1/exec", json={**GOOD, "lang": "cobol"}).json()["message"]
    for lang in ("py", "js", "ts", "c", "cpp", "java", "php", "rs", "go", "d", "f90", "r", "bash"):
        assert f"'{lang}'" in message


def test_an_unknown_session_in_a_body_is_404_and_creates_nothing(service: Service) -> None:
    before = sessions(service.room)
    with service.client() as client:
        for wrong in ("A" * 21, "nonsense", "../x", "a/b", "file-" + "a" * 16, "%2f", "é", "x" * 1000):
            for address, good in (("/v1/exec", GOOD), ("/v1/exec/uploads", UPLOAD)):
                answer = client.post(address, json={**good, "session_id": wrong})
                assert answer.status_code == 404, (address, wrong)
                assert answer.json()["error"] == "not_found"
    assert sessions(service.room) == before


def test_a_member_of_the_query_that_is_sent_twice_is_400(service: Service) -> None:
    with service.client() as client:
        made = client.post("/v1/upload", files={"file": ("a", b"a")}).json()
        where = f"/v1/files/{made['session_id']}"
        assert client.get(where + "?detail=full&detail=simple").status_code == 400
        assert client.get(where + "?detail=%ff").status_code == 400
        assert client.get(where + "?other=%ff&other=%zz&&=&detail=").status_code == 200
        assert client.get(where + "?session_id=" + "A" * 21).json() != []


@pytest.mark.parametrize("bomb", ["[]", "{}", '""', "0", '{"a":[""]}'])
def test_a_body_of_very_many_values_is_refused_before_it_is_read(service: Service, bomb: str) -> None:
    code = json.dumps(program())
    # An event has 6 MB, in which each quote has an escape.
    size = 7_000_000 if service.door == "local" else 2_500_000
    many = ",".join([bomb] * (size // (len(bomb) + 1)))
    answer = service.ask("POST", "/v1/exec", body=f'{{"lang":"py","code":{code},"x":[{many}]}}'.encode())
    assert answer.status == 400
    assert json.loads(answer.body)["message"].startswith("`body` must not hold more than 100000 values")


def test_a_long_program_of_quotes_commas_and_brackets_is_no_body_of_many_values(service: Service) -> None:
    text = ('[,{\\"\\\\,",' * 90_000)[: LIMITS.code_bytes // 2]
    answer = service.ask("POST", "/v1/exec", body=json.dumps({"lang": "py", "code": program(stdout=text)}).encode())
    assert answer.status == 200
    assert json.loads(answer.body)["stdout"] == text
