"""What goes wrong between the state adapter and DynamoDB: the outcome is right, the effect happens once, in time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from shared.store.aws import DynamoState, S3Objects, make_clients
from shared.store.ports import Action, Check, Conflict, DeleteIf, Item, Loss, PutIf, PutNew, StoreUnavailable
from tests.faults import proxy as faults
from tests.faults.proxy import CUT, DEAF, LATE, LOST, SILENT, Fault, Proxy, dynamo
from tests.ministack import shared

from .room import BOUND, EVERY, Room, within

WRITE = "TransactWriteItems"
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
    **EVERY,
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


@pytest.mark.parametrize(
    "fault", [LOST, SILENT, Fault(answer=dynamo("InternalServerError", 500))], ids=["lost", "late answer", "500"]
)
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


REQUESTS: dict[str, tuple[Callable[[DynamoState], object], dict[str, int]]] = {
    "get": (lambda state: state.get("p", "a"), {"GetItem": 1}),
    "get of nothing": (lambda state: state.get("p", "none"), {"GetItem": 1}),
    "query": (lambda state: state.query("p"), {"Query": 1}),
    "query for one more": (lambda state: state.query("p", after="a", limit=1), {"Query": 1}),
    "one action": (lambda state: state.transact([PutIf("p", "a", 2, {"by": "us"})]), {WRITE: 1}),
    "four actions": (lambda state: state.transact(WRITES["all"].actions), {WRITE: 1}),
    "delete_partition": (lambda state: state.delete_partition("p"), {"Query": 1, "BatchWriteItem": 1}),
    "sweep": (lambda state: state.sweep(2**40), {}),
}
"""What a call costs where nothing goes wrong."""


@pytest.mark.parametrize("name", REQUESTS)
def test_a_call_is_as_few_requests_as_it_can_be(room: Room, name: str) -> None:
    prepare(room.real)
    call, requests = REQUESTS[name]
    call(room.state)
    assert room.proxy.counts() == requests
