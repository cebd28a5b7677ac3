"""What goes wrong between the object adapter and S3: the outcome is right, the effect happens once, in time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

import pytest

from shared.store.aws import S3Objects
from shared.store.ports import ObjectExists, ObjectMissing, StoreUnavailable
from tests.faults import proxy as faults
from tests.faults.proxy import CUT, DEAF, HALF, LOST, Fault, s3

from .room import BOUND, EVERY, Room, within

BODY = bytes(range(256)) * 40


def _put(objects: S3Objects) -> None:
    objects.put_new("p/a", BODY, hashlib.sha256(BODY).hexdigest())


def _commit(objects: S3Objects) -> None:
    with objects.stage() as stage:
        stage.write(BODY[:1000])
        stage.write(BODY[1000:])
        stage.commit("p/a")


PUTS: dict[str, Callable[[S3Objects], None]] = {"put_new": _put, "stage": _commit}


def answered(code: str, status: int) -> Fault:
    """S3 does nothing and says why."""
    return Fault(delivered=False, answer=s3(code, status))


OBJECT_FAULTS: dict[str, list[Fault]] = {
    **EVERY,
    "500 afterwards": [Fault(answer=s3("InternalError", 500))],
    "500 instead": [answered("InternalError", 500)],
    "503 without a body": [Fault(answer=faults.Canned(503))],
    "slow down": [answered("SlowDown", 503)] * 3,
    "lost, then slow down": [LOST, answered("SlowDown", 503)],
}
PUT_FAULTS: dict[str, list[Fault]] = {
    **OBJECT_FAULTS,
    "conflict": [answered("ConditionalRequestConflict", 409)] * 2,
    "lost, then conflict": [LOST, answered("ConditionalRequestConflict", 409)],
    "time-out of theirs": [answered("RequestTimeout", 400)],
    "damaged on the way": [answered("BadDigest", 400)],
}


@pytest.mark.parametrize("fault", PUT_FAULTS)
@pytest.mark.parametrize("way", PUTS)
def test_an_object_is_put_once_and_said_to_be(room: Room, way: str, fault: str) -> None:
    room.proxy.plan("PutObject", *PUT_FAULTS[fault])
    with within(BOUND):
        PUTS[way](room.objects)
    room.proxy.release()
    assert room.proxy.left() == 0
    assert b"".join(room.kept.read("p/a")) == BODY
    assert [info.key for info in room.kept.list("")] == ["p/a"]


@pytest.mark.parametrize("fault", PUT_FAULTS)
@pytest.mark.parametrize("way", PUTS)
@pytest.mark.parametrize("theirs", [BODY, b"other"], ids=["equal bytes", "other bytes"])
def test_an_object_of_anothers_is_never_taken_for_ours(room: Room, theirs: bytes, way: str, fault: str) -> None:
    room.kept.put_new("p/a", theirs, hashlib.sha256(theirs).hexdigest())
    room.proxy.plan("PutObject", *PUT_FAULTS[fault])
    with within(BOUND), pytest.raises(ObjectExists):
        PUTS[way](room.objects)
    room.proxy.release()
    assert b"".join(room.kept.read("p/a")) == theirs


def test_another_who_comes_between_two_attempts_has_won(room: Room) -> None:
    room.proxy.plan("PutObject", CUT.after(lambda: _put(room.kept)))
    with pytest.raises(ObjectExists):
        _put(room.objects)


def test_a_put_that_found_an_object_asks_no_further(room: Room) -> None:
    _put(room.kept)
    with pytest.raises(ObjectExists):
        _put(room.objects)
    assert (room.proxy.seen("PutObject"), room.proxy.seen("HeadObject")) == (1, 0)


@pytest.mark.parametrize("fault", OBJECT_FAULTS)
def test_the_question_whose_an_object_is_may_itself_be_lost(room: Room, fault: str) -> None:
    room.proxy.plan("PutObject", LOST)
    room.proxy.plan("HeadObject", *OBJECT_FAULTS[fault])
    _put(room.objects)
    assert b"".join(room.kept.read("p/a")) == BODY


def test_an_object_that_is_gone_before_its_question_is_nobodys(room: Room) -> None:
    room.proxy.plan("PutObject", LOST, faults.PASS.after(lambda: room.kept.delete("p/a")))
    with pytest.raises(StoreUnavailable):
        _put(room.objects)


OBJECT_VERBS: dict[str, tuple[str, Callable[[S3Objects], object], object]] = {
    "read": ("GetObject", lambda objects: b"".join(objects.read("p/a")), BODY),
    "read a range": ("GetObject", lambda objects: b"".join(objects.read("p/a", 5, 300)), BODY[5:305]),
    "read nothing": ("GetObject", lambda objects: b"".join(objects.read("p/a", 5, 0)), b""),
    "head": ("HeadObject", lambda objects: getattr(objects.head("p/a"), "size", None), len(BODY)),
    "list": ("ListObjectsV2", lambda objects: [info.key for info in objects.list("p/")], ["p/a"]),
    "delete": ("DeleteObject", lambda objects: objects.delete("p/a"), None),
    "delete_prefix": ("DeleteObjects", lambda objects: objects.delete_prefix("p/"), 1),
}


@pytest.mark.parametrize("fault", OBJECT_FAULTS)
@pytest.mark.parametrize("verb", OBJECT_VERBS)
def test_what_may_be_repeated_is_repeated(room: Room, verb: str, fault: str) -> None:
    _put(room.kept)
    operation, call, expected = OBJECT_VERBS[verb]
    room.proxy.plan(operation, *OBJECT_FAULTS[fault])
    with within(BOUND):
        assert call(room.objects) == expected
    assert room.proxy.left() == 0
    assert (room.kept.head("p/a") is None) is verb.startswith("delete")


def test_an_answer_that_breaks_off_is_taken_up_where_it_did(room: Room) -> None:
    body = os.urandom(3_300_000)
    room.kept.put_new("p/b", body, hashlib.sha256(body).hexdigest())
    for start, length in ((0, None), (7, None), (7, 3_000_000)):
        room.proxy.plan("GetObject", HALF, HALF, LOST, HALF)
        pieces = list(room.objects.read("p/b", start, length))
        assert b"".join(pieces) == body[start : None if length is None else start + length]
        assert max(map(len, pieces)) <= 1 << 20
    assert room.proxy.left() == 0


def test_an_answer_is_never_taken_up_by_another_objects_bytes(room: Room) -> None:
    body = os.urandom(2_500_000)
    room.kept.put_new("p/b", body, hashlib.sha256(body).hexdigest())

    def replace() -> None:
        room.kept.delete("p/b")
        room.kept.put_new("p/b", body[::-1], hashlib.sha256(body[::-1]).hexdigest())

    room.proxy.plan("GetObject", HALF.after(replace))
    pieces = room.objects.read("p/b")
    with pytest.raises(StoreUnavailable):
        b"".join(pieces)


@pytest.mark.parametrize("fault", [CUT, DEAF, answered("SlowDown", 503)], ids=["cut", "deaf", "slow down"])
@pytest.mark.parametrize("verb", [*OBJECT_VERBS, "put"])
def test_a_bucket_that_never_answers_is_unavailable_in_time(room: Room, verb: str, fault: Fault) -> None:
    operation, call, _ = OBJECT_VERBS.get(verb, ("PutObject", _put, None))
    if verb != "put":
        _put(room.kept)
    room.proxy.always(operation, fault)
    with within(BOUND), pytest.raises(StoreUnavailable):
        call(room.objects)
    assert (room.kept.head("p/a") is None) is (verb == "put")
    assert room.proxy.seen(operation) < 40


@pytest.mark.parametrize("verb", [*OBJECT_VERBS, "put"])
def test_a_bucket_that_refuses_is_believed_at_once(room: Room, verb: str) -> None:
    operation, call, _ = OBJECT_VERBS.get(verb, ("PutObject", _put, None))
    if verb != "put":
        _put(room.kept)
    room.proxy.always(operation, answered("AccessDenied", 403))
    with pytest.raises(StoreUnavailable, match=r"AccessDenied|403") as caught:
        call(room.objects)
    assert room.proxy.seen(operation) == 1
    assert "p/a" not in str(caught.value)


def test_no_bucket_is_not_no_object(room: Room) -> None:
    room.proxy.always("GetObject", answered("NoSuchBucket", 404))
    with pytest.raises(StoreUnavailable):
        room.objects.read("p/a")
    room.proxy.plan("GetObject", answered("NoSuchKey", 404))
    with pytest.raises(ObjectMissing):
        room.objects.read("p/a")


REQUESTS: dict[str, tuple[Callable[[S3Objects], object], dict[str, int]]] = {
    "put_new": (lambda objects: objects.put_new("p/b", BODY, hashlib.sha256(BODY).hexdigest()), {"PutObject": 1}),
    "read": (lambda objects: list(objects.read("p/a")), {"GetObject": 1}),
    "read a range": (lambda objects: list(objects.read("p/a", 5, 300)), {"GetObject": 1}),
    "head": (lambda objects: objects.head("p/a"), {"HeadObject": 1}),
    "list": (lambda objects: objects.list("p/"), {"ListObjectsV2": 1}),
    "delete": (lambda objects: objects.delete("p/a"), {"DeleteObject": 1}),
    "delete_prefix": (lambda objects: objects.delete_prefix("p/"), {"ListObjectsV2": 1, "DeleteObjects": 1}),
    "delete_prefix of nothing": (lambda objects: objects.delete_prefix("q/"), {"ListObjectsV2": 1}),
    "grant_read": (lambda objects: objects.grant_read("p/a", seconds=60), {}),
    "grant_write": (lambda objects: objects.grant_write("p/b", seconds=60), {}),
}
"""What a call costs where nothing goes wrong."""


@pytest.mark.parametrize("name", REQUESTS)
def test_a_call_is_as_few_requests_as_it_can_be(room: Room, name: str) -> None:
    _put(room.kept)
    call, requests = REQUESTS[name]
    call(room.objects)
    assert room.proxy.counts() == requests


def test_a_stage_is_one_request_however_it_was_written(room: Room) -> None:
    with room.objects.stage() as stage:
        for _ in range(300):
            stage.write(BODY)
        stage.commit("p/large")
    with room.objects.stage() as stage:
        stage.write(BODY)
    assert room.proxy.counts() == {"PutObject": 1}
