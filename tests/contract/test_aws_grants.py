"""What the holder of an S3 grant can do with it, and what the store refuses (issue: grants sign length and digest)."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest

from shared.store.aws import S3Objects
from shared.store.ports import Grant, ObjectMissing
from tests.ministack import shared

from .http import ask

BODY = b"exactly these bytes"
DIGEST = hashlib.sha256(BODY).hexdigest()
SOON = 60


@pytest.fixture
def objects(tmp_path: Path) -> S3Objects:
    """A bucket of its own."""
    aws = shared()
    name = f"g{hashlib.sha256(bytes(tmp_path)).hexdigest()[:40]}"
    return S3Objects(aws.clients().s3, aws.bucket(name))


def _upload(objects: S3Objects, seconds: int = SOON) -> Grant:
    return objects.upload("p/a", size=len(BODY), sha256=DIGEST, expires_at=int(time.time()) + seconds)


def _put(grant: Grant, body: bytes = BODY, headers: Mapping[str, str] | None = None) -> int:
    sent = dict(grant.headers if headers is None else headers)
    sent.setdefault("Content-Length", str(len(body)))
    return ask(grant.method, grant.url, sent, body)[0]


def _signed(grant: Grant) -> set[str]:
    return set(dict(parse_qsl(urlsplit(grant.url).query))["X-Amz-SignedHeaders"].split(";"))


def test_a_client_uploads_the_bytes_that_were_granted_and_no_others_ever(objects: S3Objects) -> None:
    grant = _upload(objects)
    assert grant.method == "PUT"
    assert abs(grant.expires_at - time.time() - SOON) < 5
    assert _signed(grant) == {"host", "if-none-match", "content-length", "x-amz-checksum-sha256"}
    assert _put(grant) == 200
    info = objects.head("p/a")
    assert info is not None
    assert (info.size, info.sha256) == (len(BODY), DIGEST)
    assert _put(grant) == 412
    assert b"".join(objects.read("p/a")) == BODY


def _other_length(grant: Grant) -> int:
    return _put(grant, BODY + b"!", {**grant.headers, "Content-Length": str(len(BODY) + 1)})


def _other_bytes(grant: Grant) -> int:
    return _put(grant, BODY[::-1])


def _other_digest(grant: Grant) -> int:
    checksum = base64.b64encode(hashlib.sha256(BODY[::-1]).digest()).decode()
    return _put(grant, BODY[::-1], {**grant.headers, "x-amz-checksum-sha256": checksum})


def _no_digest(grant: Grant) -> int:
    return _put(grant, BODY[::-1], {k: v for k, v in grant.headers.items() if k != "x-amz-checksum-sha256"})


def _no_condition(grant: Grant) -> int:
    return _put(grant, BODY, {k: v for k, v in grant.headers.items() if k != "If-None-Match"})


def _other_condition(grant: Grant) -> int:
    return _put(grant, BODY, {**grant.headers, "If-None-Match": '"x"'})


def _other_key(grant: Grant) -> int:
    parts = urlsplit(grant.url)
    return ask("PUT", urlunsplit(parts._replace(path=parts.path[:-1] + "b")), grant.headers, BODY)[0]


def _other_time(grant: Grant) -> int:
    parts = urlsplit(grant.url)
    query = {**dict(parse_qsl(parts.query)), "X-Amz-Expires": "600000"}
    return ask("PUT", urlunsplit(parts._replace(query=urlencode(query))), grant.headers, BODY)[0]


def _other_method(grant: Grant) -> int:
    return ask("DELETE", grant.url, grant.headers, BODY)[0]


@pytest.mark.parametrize(
    "misuse",
    [
        _other_length, _other_bytes, _other_digest, _no_digest, _no_condition, _other_condition, _other_key,
        _other_time, _other_method,
    ],
    ids=lambda misuse: str(misuse.__name__).strip("_"),
)  # fmt: skip
def test_an_upload_grant_that_is_used_otherwise_is_refused(objects: S3Objects, misuse: object) -> None:
    assert callable(misuse)
    assert 400 <= misuse(_upload(objects)) < 500
    assert objects.list("") == []


@pytest.fixture
def expired(objects: S3Objects) -> tuple[Grant, Grant, Grant, Grant]:
    """One of each kind whose time is over; there is an object at `p/there`."""
    objects.put_new("p/there", BODY, DIGEST)
    grants = (
        _upload(objects, 1),
        objects.grant_write("p/a", seconds=1),
        objects.grant_read("p/there", seconds=1),
        objects.grant_download("p/there", seconds=1, name="a", media="text/plain"),
    )
    time.sleep(2.2)
    return grants


def test_what_is_over_is_refused(objects: S3Objects, expired: tuple[Grant, Grant, Grant, Grant]) -> None:
    upload, write, read, download = expired
    assert all(grant.expires_at < time.time() for grant in expired)
    assert _put(upload) == 403
    assert _put(write) == 403
    assert ask("GET", read.url)[0] == 403
    assert ask("GET", download.url)[0] == 403
    assert [info.key for info in objects.list("")] == ["p/there"]


def test_an_executors_grant_needs_its_condition_and_takes_any_bytes_once(objects: S3Objects) -> None:
    grant = objects.grant_write("p/a", seconds=SOON)
    assert grant.headers == {"If-None-Match": "*"}
    assert _signed(grant) == {"host", "if-none-match"}
    assert 400 <= _put(grant, b"any", {}) < 500
    assert objects.list("") == []
    assert _put(grant, b"any") == 200
    assert _put(grant, b"any") == 412
    info = objects.head("p/a")
    assert info is not None
    assert info.sha256 is None


def test_a_reading_grant_reads_and_no_more(objects: S3Objects) -> None:
    objects.put_new("p/a", BODY, DIGEST)
    grant = objects.grant_read("p/a", seconds=SOON)
    assert _signed(grant) == {"host"}
    assert ask("GET", grant.url)[2] == BODY
    assert ask("GET", grant.url, {"Range": "bytes=3-5"})[::2] == (206, BODY[3:6])
    assert ask("PUT", grant.url, {"Content-Length": "1"}, b"x")[0] == 403
    assert ask("DELETE", grant.url)[0] == 403
    assert b"".join(objects.read("p/a")) == BODY


@pytest.mark.parametrize(
    ("name", "fallback", "exact"),
    [
        ("a b.txt", "a b.txt", "a%20b.txt"),
        (
            'naïve "x"\r\nX-Evil: 1;%41\\',
            "na_ve _x___X-Evil: 1__41_",
            "na%C3%AFve%20%22x%22%0D%0AX-Evil%3A%201%3B%2541%5C",
        ),
        ("漢字", "__", "%E6%BC%A2%E5%AD%97"),
        ("caf\udce9", "caf_", "caf%3F"),
    ],
    ids=["plain", "evil", "wide", "no text"],
)
def test_a_download_is_named_and_typed(objects: S3Objects, name: str, fallback: str, exact: str) -> None:
    objects.put_new("p/a", BODY, DIGEST)
    grant = objects.grant_download("p/a", seconds=SOON, name=name, media="text/x-c; charset=utf-8")
    status, headers, body = ask("GET", grant.url)
    assert (status, body) == (200, BODY)
    assert headers["content-type"] == "text/x-c; charset=utf-8"
    assert headers["content-disposition"] == f"attachment; filename=\"{fallback}\"; filename*=UTF-8''{exact}"
    assert "x-evil" not in headers


def test_a_download_cannot_be_renamed(objects: S3Objects) -> None:
    objects.put_new("p/a", BODY, DIGEST)
    parts = urlsplit(objects.grant_download("p/a", seconds=SOON, name="a", media="text/plain").url)
    query = {**dict(parse_qsl(parts.query)), "response-content-type": "text/html"}
    assert ask("GET", urlunsplit(parts._replace(query=urlencode(query))))[0] == 403


def test_what_cannot_be_granted_is_refused(objects: S3Objects) -> None:
    for key in ("", "../a", "a b"):
        with pytest.raises(ValueError, match="key"):
            objects.upload(key, size=1, sha256=DIGEST, expires_at=int(time.time()) + SOON)
        with pytest.raises(ObjectMissing):
            objects.grant_download(key, seconds=SOON, name="a", media="text/plain")
    for size, digest, seconds in ((-1, DIGEST, SOON), (1, DIGEST[:-2], SOON), (1, "x" * 64, SOON), (1, DIGEST, 0)):
        with pytest.raises(ValueError, match=r"size|hex|lasts"):
            objects.upload("p/a", size=size, sha256=digest, expires_at=int(time.time()) + seconds)
