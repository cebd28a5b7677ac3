"""What goes wrong between the adapter and AWS: the outcome is right, the effect happens once, the time is bounded."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.store.aws import Clients, DynamoState, S3Objects, make_clients
from shared.store.ports import (
    Action,
    Check,
    Conflict,
    DeleteIf,
    Item,
    Loss,
    ObjectExists,
    ObjectMissing,
    PutIf,
    PutNew,
    StoreUnavailable,
)
from tests.faults import proxy as faults
from tests.faults.proxy import CUT, DEAF, HALF, LATE, LOST, SILENT, Fault, Proxy, dynamo, s3
from tests.ministack import shared

WAIT = 0.4
"""The clients' time-out for a part of an answer, in seconds."""
BUDGET = 2.0
"""What one call of a port may take, in seconds, but for its last request."""
WRITE = "TransactWriteItems"


@dataclass(frozen=True, slots=True)
class Room:
    """The stores through the proxy, and the same ones without it."""

    proxy: Proxy
    state: DynamoState
    objects: S3Objects
    real: DynamoState
    kept: S3Objects


@pytest.fixture(scope="module")
def road() -> Iterator[tuple[Proxy, Clients]]:
    """The proxy and the clients that go through it."""
    aws = shared()
    with Proxy(aws.endpoint) as proxy:
        clients = make_clients(
            session=aws.session(), endpoint=proxy.endpoint, state_read_seconds=WAIT, objects_read_seconds=WAIT
        )
        try:
            yield proxy, clients
        finally:
            clients.close()


@pytest.fixture
def room(road: tuple[Proxy, Clients], tmp_path: Path) -> Room:
    """Stores of their own."""
    aws = shared()
    proxy, clients = road
    proxy.reset()
    name = f"f{hashlib.sha256(bytes(tmp_path)).hexdigest()[:40]}"
    table, bucket = aws.table(name), aws.bucket(name)
    plain = aws.clients()
    return Room(
        proxy,
        DynamoState(clients.dynamodb, table, seconds=BUDGET),
        S3Objects(clients.s3, bucket, seconds=BUDGET),
        DynamoState(plain.dynamodb, table),
        S3Objects(plain.s3, bucket),
    )


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What happens inside takes no longer."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


BOUND = BUDGET + WAIT + 1.5
CANCELLED_BY_ANOTHER = dynamo(
    "TransactionCanceledException",
    CancellationReasons=[{"Code": "TransactionConflict", "Message": "busy"}, {"Code": "None"}],
)
ONE_CANCELLED_BY_ANOTHER = dynamo(
    "TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict", "Message": "busy"}]
)
ONE_CANCELLED_BY_RATE = dynamo(
    "TransactionCanceledException", CancellationReasons=[{"Code": "ThrottlingError", "Message": "slow"}]
)


def refused(code: str, status: int = 400) -> Fault:
    """The store does nothing and says why."""
    return Fault(delivered=False, answer=dynamo(code, status))


STATE_FAULTS: dict[str, list[Fault]] = {
    "lost": [LOST],
    "lost thrice": [LOST, LOST, LOST],
    "cut": [CUT],
    "cut, then lost": [CUT, LOST],
    "late": [LATE],
    "after the time-out": [SILENT],
    "never delivered": [DEAF],
    "half": [HALF],
    "500 afterwards": [Fault(answer=dynamo("InternalServerError", 500))],
    "500 instead": [refused("InternalServerError", 500)],
    "503 without a body": [Fault(answer=faults.Canned(503))],
    "no JSON": [Fault(answer=faults.Canned(200, {"Content-Type": "application/x-amz-json-1.0"}, b"<html>"))],
    "throttled": [refused("ThrottlingException")] * 3,
    "over the capacity": [refused("ProvisionedThroughputExceededException")] * 3,
    "over the limit": [refused("RequestLimitExceeded")],
    "lost, then throttled": [LOST, refused("ThrottlingException")],
}
WRITE_FAULTS: dict[str, list[Fault]] = {
    **STATE_FAULTS,
    "in progress": [LOST, refused("TransactionInProgressException")],
}


@dataclass(frozen=True, slots=True)
class Write:
    """A transaction on the items `a` at version 2 and `b` at version 1, what it returns, and what is there then."""

    actions: Sequence[Action]
    versions: list[int]
    after: dict[str, tuple[int, object]]


BEFORE: dict[str, tuple[int, object]] = {"a": (2, "old"), "b": (1, "old")}
WRITES: dict[str, Write] = {
    "put new": Write([PutNew("p", "n", {"by": "us"})], [1], {**BEFORE, "n": (1, "us")}),
    "put if": Write([PutIf("p", "a", 2, {"by": "us"})], [3], {**BEFORE, "a": (3, "us")}),
    "delete": Write([DeleteIf("p", "a", 2)], [0], {"b": (1, "old")}),
    "check": Write([Check("p", "a", 2)], [0], BEFORE),
    "deletes": Write([DeleteIf("p", "a", 2), DeleteIf("p", "b", 1)], [0, 0], {}),
    "all": Write(
        [
            PutIf("p", "a", 2, {"by": "us"}),
            DeleteIf("p", "b", 1),
            PutNew("p", "n", {"by": "us"}),
            Check("p", "m", None),
        ],
        [3, 0, 1, 0],
        {"a": (3, "us"), "n": (1, "us")},
    ),
}


def prepare(state: DynamoState) -> None:
    """The items of BEFORE."""
    state.transact([PutNew("p", "a", {"by": "older"}), PutNew("p", "b", {"by": "old"})])
    state.transact([PutIf("p", "a", 1, {"by": "old"})])


def contents(state: DynamoState) -> dict[str, tuple[int, object]]:
    """All items of the partition."""
    return {item.sort: (item.version, item.attributes["by"]) for item in state.query("p")}


@pytest.mark.parametrize("fault", WRITE_FAULTS)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_has_its_effect_once_and_says_so(room: Room, name: str, fault: str) -> None:
    prepare(room.real)
    room.proxy.plan(WRITE, *WRITE_FAULTS[fault])
    with within(BOUND):
        assert room.state.transact(WRITES[name].actions) == WRITES[name].versions
    room.proxy.release()
    assert room.proxy.left() == 0
    assert contents(room.real) == WRITES[name].after
    # Nothing is stuck: the next write of each item that is there wins.
    for sort, (version, _) in WRITES[name].after.items():
        assert room.state.transact([PutIf("p", sort, version, {"by": "next"})]) == [version + 1]


@pytest.mark.parametrize("fault", [[ONE_CANCELLED_BY_ANOTHER] * 3, [ONE_CANCELLED_BY_RATE]], ids=["another", "rate"])
def test_a_write_that_another_one_was_in_the_way_of_is_sent_again(room: Room, fault: list[faults.Canned]) -> None:
    room.proxy.plan(WRITE, *(Fault(delivered=False, answer=answer) for answer in fault))
    assert room.state.transact([PutNew("p", "n", {"by": "us"})]) == [1]
    assert room.proxy.seen(WRITE) == len(fault) + 1


def test_a_condition_beside_an_action_in_anothers_way_is_told_once_both_are_known(room: Room) -> None:
    prepare(room.real)
    room.proxy.plan(WRITE, Fault(delivered=False, answer=CANCELLED_BY_ANOTHER))
    with pytest.raises(Conflict) as caught:
        room.state.transact([PutIf("p", "a", 1, {}), PutIf("p", "b", 2, {})])
    assert [loss.index for loss in caught.value.losses] == [0, 1]


@pytest.mark.parametrize("fault", WRITE_FAULTS)
def test_a_write_that_lost_says_so_and_has_no_effect(room: Room, fault: str) -> None:
    prepare(room.real)
    room.proxy.plan(WRITE, *WRITE_FAULTS[fault])
    with within(BOUND), pytest.raises(Conflict) as caught:
        room.state.transact([PutNew("p", "a", {"by": "us"}), PutNew("p", "n", {"by": "us"})])
    assert caught.value.losses == (Loss(0, Item("p", "a", 2, {"by": "old"})),)
    room.proxy.release()
    assert contents(room.real) == BEFORE


MEANWHILE: dict[str, tuple[Sequence[Action], list[list[Action]], list[int], dict[str, tuple[int, object]]]] = {
    "ours was replaced": (
        [PutNew("p", "n", {"by": "us"})],
        [[PutIf("p", "n", 1, {"by": "them"})]],
        [1],
        {**BEFORE, "n": (2, "them")},
    ),
    "ours was deleted": ([PutNew("p", "n", {"by": "us"})], [[DeleteIf("p", "n", 1)]], [1], BEFORE),
    "ours was deleted and put by them": (
        [PutNew("p", "n", {"by": "us"})],
        [[DeleteIf("p", "n", 1)], [PutNew("p", "n", {"by": "them"})]],
        [1],
        {**BEFORE, "n": (1, "them")},
    ),
    "ours was replaced many times": (
        [PutIf("p", "a", 2, {"by": "us"})],
        [[PutIf("p", "a", version, {"by": "them"})] for version in range(3, 9)],
        [3],
        {**BEFORE, "a": (9, "them")},
    ),
    "what we deleted was put again": (
        [DeleteIf("p", "b", 1)],
        [[PutNew("p", "b", {"by": "them"})]],
        [0],
        {**BEFORE, "b": (1, "them")},
    ),
    "what we checked was changed": (
        [Check("p", "a", 2), DeleteIf("p", "b", 1)],
        [[PutIf("p", "a", 2, {"by": "them"})]],
        [0, 0],
        {"a": (3, "them")},
    ),
}


@pytest.mark.parametrize("fault", [LOST, SILENT, Fault(answer=dynamo("InternalServerError", 500))], ids=repr)
@pytest.mark.parametrize("name", MEANWHILE)
def test_what_happens_before_the_repetition_changes_neither_the_outcome_nor_itself(
    room: Room, name: str, fault: Fault
) -> None:
    prepare(room.real)
    ours, theirs, versions, after = MEANWHILE[name]

    def meanwhile() -> None:
        for actions in theirs:
            room.real.transact(actions)

    room.proxy.plan(WRITE, fault.after(meanwhile))
    assert room.state.transact(ours) == versions
    assert contents(room.real) == after


def test_a_write_that_another_got_before_is_lost_though_its_connection_was(room: Room) -> None:
    prepare(room.real)
    room.proxy.plan(WRITE, CUT.after(lambda: _put_if(room.real, "a", 2)))
    with pytest.raises(Conflict) as caught:
        room.state.transact([PutIf("p", "a", 2, {"by": "us"})])
    assert caught.value.losses == (Loss(0, Item("p", "a", 3, {"by": "them"})),)


def _put_if(state: DynamoState, sort: str, version: int) -> None:
    state.transact([PutIf("p", sort, version, {"by": "them"})])


def test_racing_writers_whose_answers_are_lost_lose_no_update(room: Room) -> None:
    """Every other answer is lost; each writer counts what it was told."""
    room.real.transact([PutNew("p", "n", {"by": 0})])

    def count(_: int) -> int:
        done = 0
        while done < 3:
            item = room.state.get("p", "n")
            assert item is not None
            try:
                room.state.transact([PutIf("p", "n", item.version, {"by": item.attributes["by"] + 1})])
                done += 1
            except Conflict:
                continue
        return done

    room.proxy.plan(WRITE, *[LOST, faults.PASS, LATE, faults.PASS] * 6)
    with ThreadPoolExecutor(6) as pool:
        done = sum(pool.map(count, range(6)))
    room.proxy.release()
    assert done == 18
    assert contents(room.real) == {"n": (19, 18)}


@pytest.mark.parametrize("fault", STATE_FAULTS)
@pytest.mark.parametrize("verb", ["get", "query", "delete_partition"])
def test_a_reading_or_a_deletion_is_repeated(room: Room, verb: str, fault: str) -> None:
    prepare(room.real)
    room.real.transact([PutNew("q", "a", {})])
    with within(2 * BOUND):
        match verb:
            case "get":
                room.proxy.plan("GetItem", *STATE_FAULTS[fault])
                assert room.state.get("p", "a") == Item("p", "a", 2, {"by": "old"})
            case "query":
                room.proxy.plan("Query", *STATE_FAULTS[fault])
                assert contents(room.state) == BEFORE
            case _:
                room.proxy.plan("Query", *STATE_FAULTS[fault])
                room.proxy.plan("BatchWriteItem", *STATE_FAULTS[fault])
                room.state.delete_partition("p")
                room.proxy.release()
                assert room.real.query("p") == []
                assert len(room.real.query("q")) == 1
    assert room.proxy.left() == 0


def test_what_a_batch_left_undone_is_done_next(room: Room) -> None:
    prepare(room.real)
    table = room.real._table
    undone = {table: [{"DeleteRequest": {"Key": {"pk": {"S": "p"}, "sk": {"S": "a"}}}}]}
    body = json.dumps({"UnprocessedItems": undone}).encode()
    answer = faults.Canned(200, {"Content-Type": "application/x-amz-json-1.0"}, body)
    room.proxy.plan("BatchWriteItem", Fault(delivered=False, answer=answer))
    room.state.delete_partition("p")
    assert contents(room.real) == {"b": (1, "old")}
    assert room.proxy.seen("BatchWriteItem") == 2


STATE_VERBS: dict[str, tuple[str, Callable[[DynamoState], object]]] = {
    "get": ("GetItem", lambda state: state.get("p", "a")),
    "query": ("Query", lambda state: state.query("p")),
    "transact": (WRITE, lambda state: state.transact([PutIf("p", "a", 2, {"by": "us"})])),
    "delete_partition": ("BatchWriteItem", lambda state: state.delete_partition("p")),
}


@pytest.mark.parametrize("fault", [CUT, DEAF, refused("ThrottlingException")], ids=["cut", "deaf", "throttled"])
@pytest.mark.parametrize("verb", STATE_VERBS)
def test_a_store_that_never_answers_is_unavailable_in_time(room: Room, verb: str, fault: Fault) -> None:
    prepare(room.real)
    operation, call = STATE_VERBS[verb]
    room.proxy.always(operation, fault)
    with within(BOUND), pytest.raises(StoreUnavailable):
        call(room.state)
    assert contents(room.real) == BEFORE
    # No storm: the waits grow.
    assert room.proxy.seen(operation) < 40


@pytest.mark.parametrize("verb", STATE_VERBS)
def test_a_refusal_is_told_at_once_and_without_what_was_asked(room: Room, verb: str) -> None:
    prepare(room.real)
    operation, call = STATE_VERBS[verb]
    room.proxy.always(operation, refused("AccessDeniedException"))
    with pytest.raises(StoreUnavailable, match="AccessDeniedException") as caught:
        call(room.state)
    assert room.proxy.seen(operation) == 1
    assert room.real._table not in str(caught.value)


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
    "lost": [LOST],
    "lost thrice": [LOST, LOST, LOST],
    "cut": [CUT],
    "cut, then lost": [CUT, LOST],
    "late": [LATE],
    "after the time-out": [SILENT],
    "never delivered": [DEAF],
    "half": [HALF],
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


def test_nobody_at_the_address_is_unavailable_in_time() -> None:
    with Proxy("http://127.0.0.1:9") as proxy:
        gone = proxy.endpoint
    clients = make_clients(session=shared().session(), endpoint=gone)
    try:
        with within(3), pytest.raises(StoreUnavailable):
            DynamoState(clients.dynamodb, "none", seconds=1).get("p", "a")
        with within(3), pytest.raises(StoreUnavailable):
            S3Objects(clients.s3, "none", seconds=1).head("p/a")
    finally:
        clients.close()
