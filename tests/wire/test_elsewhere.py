"""Downloads above what a front door carries: 302 to a grant of the object store, here an emulated bucket (A8.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from shared.limits import Limits
from shared.store.aws import open_aws
from tests.ministack import shared
from tests.wire.forms import field, file, send
from tests.wire.scripted import Scripted, program
from tests.wire.service import Door, Service, open_test_room, serving

ANSWER = 400_000
CARRIED = 300_000
"""Three quarters of it: the rest is what Base64 adds."""
CONTENT = bytes(range(256)) * 2_000


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory, door: Door) -> Iterator[Service]:
    """A service whose objects lie in a bucket, behind a door that carries 400,000 bytes."""
    emulator = shared()
    store = open_aws(emulator.clients(), emulator.table(), emulator.bucket())
    room = open_test_room(tmp_path_factory.mktemp("aws"), Limits(answer_bytes=ANSWER), Scripted())
    room = replace(room, objects=store.objects, downloads=store.objects)
    with serving(room, door=door) as running:
        yield running


def granted(answer: httpx.Response) -> str:
    """The address of a redirect, which is checked."""
    assert answer.status_code == 302
    assert answer.content == b""
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in answer.headers
    where: str = answer.headers["location"]
    assert 1 <= int(parse_qs(urlsplit(where).query)["X-Amz-Expires"][0]) <= 60
    return where


def fetched(where: str, **headers: str) -> httpx.Response:
    """What a client that sends no credential gets there."""
    return httpx.get(where, headers=headers, timeout=20, trust_env=False)


def upload(client: httpx.Client, *files: Any) -> str:
    made: str = send(client, list(files), "/v1/upload/batch").json()["session_id"]
    return made


def test_a_file_above_it_is_read_from_the_store(aws: Service) -> None:
    with aws.client() as client:
        session = upload(client, file("dir/données (1).csv", CONTENT))
        for base in ("/v1/exec", "/v1"):
            answer = client.get(f"{base}/download/{session}/dir%2Fdonn%C3%A9es%20(1).csv".replace("%2F", "/"))
            where = granted(answer)
            assert aws.key not in where
            got = fetched(where)
            assert (got.status_code, got.content) == (200, CONTENT)
            assert "filename*=UTF-8''donn%C3%A9es%20%281%29.csv" in got.headers["content-disposition"]
            assert got.headers["content-disposition"].startswith("attachment;")
            assert got.headers["content-type"] == "text/csv"


def test_a_file_up_to_it_is_answered_here(aws: Service) -> None:
    with aws.client() as client:
        session = upload(client, file("at", CONTENT[:CARRIED]), file("above", CONTENT[: CARRIED + 1]))
        answer = client.get(f"/v1/download/{session}/at")
        assert (answer.status_code, answer.content) == (200, CONTENT[:CARRIED])
        assert fetched(granted(client.get(f"/v1/download/{session}/above"))).content == CONTENT[: CARRIED + 1]


def test_a_range_up_to_it_is_answered_here_and_one_above_it_from_the_store(aws: Service) -> None:
    with aws.client() as client:
        target = f"/v1/download/{upload(client, file('a', CONTENT))}/a"
        part = client.get(target, headers={"Range": "bytes=5-9"})
        assert (part.status_code, part.content) == (206, CONTENT[5:10])
        wide = f"bytes=7-{CARRIED + 7}"
        got = fetched(granted(client.get(target, headers={"Range": wide})), Range=wide)
        assert (got.status_code, got.content) == (206, CONTENT[7 : CARRIED + 8])
        assert client.get(target, headers={"Range": f"bytes={len(CONTENT)}-"}).status_code == 416


def test_a_head_request_gets_the_headers_and_no_grant(aws: Service) -> None:
    with aws.client() as client:
        head = client.head(f"/v1/download/{upload(client, file('a', CONTENT))}/a")
        assert head.status_code == 200
        assert head.headers["content-length"] == str(len(CONTENT))
        assert "location" not in head.headers


def test_a_file_in_a_pack_is_granted_alone(aws: Service) -> None:
    script = program(write={"secret.txt": "not to be seen"}, size={"big.bin": CARRIED + 1, "other.bin": 1000})
    with aws.client() as client:
        made = client.post("/v1/exec", json={"lang": "py", "code": script}).json()
        before = len(aws.room.objects.list("p/", limit=1000))
        got = fetched(granted(client.get(f"/v1/download/{made['session_id']}/big.bin")))
        assert (got.status_code, got.content) == (200, bytes(CARRIED + 1))
        assert len(aws.room.objects.list("p/", limit=1000)) == before + 1, "a copy of its own, of this session"
        again = send(client, [field("session_id", made["session_id"]), file("big.bin", b"new")])
        assert again.status_code == 200


def test_a_grant_is_for_whoever_may_download_and_the_bytes_that_are_there(aws: Service) -> None:
    with aws.client() as client, aws.client(aws.other_key) as other, aws.client("") as nobody:
        session = upload(client, file("a", CONTENT))
        target = f"/v1/download/{session}/a"
        assert nobody.get(target).status_code == 401
        assert other.get(target).status_code == 404
        granted(client.get(target))
        for info in aws.room.objects.list(f"p/first/{session}", limit=100):
            aws.room.objects.delete(info.key)
        keys = [info.key for info in aws.room.objects.list("p/", limit=1000) if session in info.key]
        for key in keys:
            aws.room.objects.delete(key)
        gone = client.get(target)
        assert (gone.status_code, gone.json()["error"]) == (503, "store_unavailable")
