"""A file write over HTTP whose requests to DynamoDB and S3 are lost, late, cut, refused or left unanswered.

agents.md 4, 11.19, 11.22 to 11.24. `once`: one request of a step meets the fault. `all`: every one of a step, so that
the adapter gives up, and only then does the attempt have to know what to say.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.domain.agents.writes import Receipt
from tests.agents_writes.remote import A, Remote, Told, opened, session
from tests.agents_writes.road import spread
from tests.faults.proxy import CUT, DEAF, HALF, LATE, LOST, PASS, SILENT, Fault, dynamo, s3
from tests.wire.service import expect_eventually

THROTTLED = Fault(delivered=False, answer=dynamo("ThrottlingException"))
SLOW_DOWN = Fault(delivered=False, answer=s3("SlowDown", 503))
FAULTS = {"lost": LOST, "cut": CUT, "half": HALF, "throttled": THROTTLED, "silence": SILENT, "deaf": DEAF}
HAPPENED = ["lost", "half", "silence"]
NOTHING_CAME = ["cut", "throttled", "deaf"]
INLINE = ["read/key", "read/session", "read/session", "read/head", "intent", "put", "publish", "settle"]
COPY = [
    *["read/key", "read/session", "read/session", "read/source", "read/head", "intent"],
    *["get", "put", "publish", "settle"],
]
"""The requests of a write in order; `test_these_are_the_requests_of_a_write` keeps them true."""
FORMS = {"inline": INLINE, "file_id": COPY}
STEPS = [
    pytest.param(form, steps[place], steps[:place].count(steps[place]), id=f"{form}-{place}-{steps[place]}")
    for form, steps in FORMS.items()
    for place in range(len(steps))
]
READS = [step for step in STEPS if str(step.values[1]).startswith("read/")]
GATE = Told(409, "turn_conflict", "false")
HELD = Told(409, "conflict_error", "false")
UNCERTAIN = Told(503, "execution_unavailable", "false")
REJECTED = Told(503, "execution_unavailable", "true")
NOTHING = Told(503, "store_unavailable")
NO_KEY = Told(503, "authentication_unavailable")
MANY = 200


@pytest.fixture(scope="module")
def service() -> Iterator[Remote]:
    with opened() as one:
        yield one


@pytest.fixture
def remote(service: Remote) -> Iterator[Remote]:
    with session(service) as one:
        yield one


def fault_of(name: str, step: str) -> Fault:
    """A fault as the store of that step has it."""
    return SLOW_DOWN if name == "throttled" and step in ("put", "get") else FAULTS[name]


def write(remote: Remote, form: str, path: str = A) -> Told:
    """A write of the bytes `once`; what was seen on the road is of this write alone."""
    return remote.create(path, source=None if form == "inline" else remote.source)


def prepare(remote: Remote, form: str) -> None:
    """Make what the form needs."""
    if form == "file_id":
        remote.source = str(remote.api.made("source", b"once")["id"])
        remote.road.reset()


def all_of(remote: Remote, step: str, before: int, fault: Fault) -> None:
    """Every request of a step meets the fault, but for the first ones."""
    remote.road.plan(step, *[PASS] * before, *[fault] * MANY)


def expect_sent_once(remote: Remote) -> None:
    """The bytes were stored under one key and published by one transaction.

    A beat of the lease between may make that transaction lose for sure; then it is made anew on the renewed lock.
    """
    assert len(remote.road.keys) == 1
    assert 1 <= remote.road.distinct("publish") <= 1 + remote.road.distinct("beat")


def expect_unsettled(remote: Remote, *, receipt: Receipt | None, there: bool) -> str:
    """The Session shows it; reads work; messages and writes are refused and send nothing. The write's id."""
    (record,) = remote.records()
    assert (record.receipt, record.outcome, remote.unsettled()) == (receipt, None, 1)
    assert remote.seen()["unsettled_write"] == {"id": record.id, "created_at": record.since // 1000}
    assert remote.names() == ([A] if there else [])
    assert remote.page("/turns")["data"] == []
    keys = len(remote.road.keys)
    assert remote.say(stdout="never") == HELD
    assert remote.create("/workspace/other") == GATE
    assert (len(remote.road.keys), len(remote.records())) == (keys, 1)
    return record.id


def expect_settles_only(remote: Remote, ident: str, outcome: Receipt) -> None:
    """The operator may say that and nothing else; then writes and messages are admitted again."""
    assert remote.settle(ident, "rejected" if outcome == "committed" else "committed") == 400
    assert remote.unsettled() == 1
    before = remote.names()
    assert remote.settle(ident, outcome) == 200
    assert remote.names() == before
    (record,) = remote.records()
    assert (record.outcome, record.by) == (outcome, "operator")
    assert remote.settle(ident, outcome) == 404
    remote.expect_free(records=1)
    assert remote.say(stdout="goes on").status == 202
    expect_eventually(lambda: remote.idle() and remote.page("/turns")["data"] != [])
    (turn,) = remote.page("/turns")["data"]
    assert turn["status"] == "completed"


@pytest.mark.parametrize("form", FORMS)
def test_these_are_the_requests_of_a_write(remote: Remote, form: str) -> None:
    prepare(remote, form)
    assert write(remote, form) == Told(201)
    assert remote.road.order == FORMS[form]


@pytest.mark.parametrize(("form", "step", "before", "name"), spread(STEPS, tuple(FAULTS)))
def test_one_fault_anywhere_is_not_seen(remote: Remote, form: str, step: str, before: int, name: str) -> None:
    prepare(remote, form)
    remote.road.plan(step, *[PASS] * before, fault_of(name, step))
    assert write(remote, form) == Told(201)
    assert remote.road.left() == 0
    expect_sent_once(remote)
    assert (remote.names(), remote.content(A)) == ([A], b"once")
    remote.expect_free(records=1)


@pytest.mark.parametrize(("form", "step", "before", "name"), spread(READS, tuple(FAULTS)))
def test_what_cannot_be_read_before_the_intent_leaves_nothing(
    remote: Remote, form: str, step: str, before: int, name: str
) -> None:
    prepare(remote, form)
    all_of(remote, step, before, fault_of(name, step))
    assert write(remote, form) == (NO_KEY if step == "read/key" else NOTHING)
    assert (remote.road.distinct("intent"), remote.road.keys) == (0, [])
    remote.road.reset()
    assert remote.names() == []
    remote.expect_free(records=0)


@pytest.mark.parametrize(("form", "name"), spread(tuple(FORMS), NOTHING_CAME))
def test_an_intent_that_never_comes_records_nothing(remote: Remote, form: str, name: str) -> None:
    prepare(remote, form)
    all_of(remote, "intent", 0, FAULTS[name])
    assert write(remote, form) == NOTHING
    assert remote.road.keys == []
    remote.road.reset()
    assert remote.names() == []
    remote.expect_free(records=0)


@pytest.mark.parametrize("step", ["intent", "publish"])
@pytest.mark.parametrize(("form", "name"), spread(tuple(FORMS), HAPPENED))
def test_a_transaction_whose_every_answer_is_lost_is_asked_for(remote: Remote, form: str, step: str, name: str) -> None:
    prepare(remote, form)
    all_of(remote, step, 0, FAULTS[name])
    assert write(remote, form) == Told(201)
    expect_sent_once(remote)
    remote.road.reset()
    assert (remote.names(), remote.content(A)) == ([A], b"once")
    remote.expect_free(records=1)


@pytest.mark.parametrize(
    ("form", "step", "name"),
    [
        (form, step, name)
        for form, step in (("inline", "put"), ("file_id", "get"), ("file_id", "put"))
        for name in FAULTS
        if (step, name) != ("put", "half")  # its answer has no body
    ],
)
def test_bytes_that_cannot_be_had_or_stored_are_rejected(remote: Remote, form: str, step: str, name: str) -> None:
    prepare(remote, form)
    all_of(remote, step, 0, fault_of(name, step))
    assert write(remote, form) == REJECTED
    assert len(remote.road.keys) <= 1
    remote.road.reset()
    assert remote.names() == []
    assert [(one.outcome, one.reason) for one in remote.records()] == [("rejected", "EXECUTION")]
    remote.expect_free(records=1)


@pytest.mark.parametrize(("form", "name"), spread(tuple(FORMS), NOTHING_CAME))
def test_a_publication_that_never_comes_is_unsettled(remote: Remote, form: str, name: str) -> None:
    prepare(remote, form)
    all_of(remote, "publish", 0, FAULTS[name])
    assert write(remote, form) == UNCERTAIN
    expect_sent_once(remote)
    remote.road.reset()
    ident = expect_unsettled(remote, receipt=None, there=False)
    expect_settles_only(remote, ident, "rejected")


@pytest.mark.parametrize(("form", "name"), spread(tuple(FORMS), tuple(FAULTS)))
def test_a_settling_that_cannot_be_done(remote: Remote, form: str, name: str) -> None:
    prepare(remote, form)
    all_of(remote, "settle", 0, FAULTS[name])
    assert write(remote, form) == UNCERTAIN
    expect_sent_once(remote)
    remote.road.reset()
    assert remote.content(A) == b"once"
    if name in HAPPENED:
        assert remote.names() == [A]
        remote.expect_free(records=1)
        return
    ident = expect_unsettled(remote, receipt="committed", there=True)
    expect_settles_only(remote, ident, "committed")


@pytest.mark.parametrize(("step", "name"), spread(["intent", "publish"], tuple(FAULTS)))
def test_a_record_that_cannot_be_asked_for_is_uncertain(remote: Remote, step: str, name: str) -> None:
    all_of(remote, step, 0, FAULTS[name])
    remote.road.always("read/write", CUT)
    assert remote.create() == UNCERTAIN
    assert remote.road.distinct("publish") == len(remote.road.keys) == (step == "publish")
    remote.road.reset()
    happened = name in HAPPENED
    if step == "intent" and not happened:
        remote.expect_free(records=0)
        return
    there = step == "publish" and happened
    # The end of an attempt that never began is said by nobody: its gate closes for good when its lease is over.
    if step == "publish":
        ident = expect_unsettled(remote, receipt="committed" if there else None, there=there)
        expect_settles_only(remote, ident, "committed" if there else "rejected")
        return
    (record,) = remote.records()
    assert remote.seen()["unsettled_write"]["id"] == record.id
    assert (remote.say(stdout="never").status, remote.create("/workspace/other").status) == (409, 409)
    expect_settles_only(remote, record.id, "rejected")


@pytest.mark.parametrize("settled", [False, True], ids=["before the operator", "behind the operator's fence"])
def test_a_publication_that_comes_late(remote: Remote, settled: bool) -> None:
    all_of(remote, "publish", 0, LATE)
    assert remote.create() == UNCERTAIN
    assert remote.road.distinct("publish") == 1
    ident = remote.records()[0].id
    assert remote.names() == []
    if settled:
        assert remote.settle(ident, "rejected") == 200
    remote.road.release()
    remote.road.reset()
    if settled:
        assert remote.names() == []
        remote.expect_free(records=1)
        return
    assert expect_unsettled(remote, receipt="committed", there=True) == ident
    expect_settles_only(remote, ident, "committed")


@pytest.mark.parametrize(("step", "name"), spread(["publish", "settle"], tuple(FAULTS)))
def test_a_rejection_whose_answers_are_lost(remote: Remote, step: str, name: str) -> None:
    assert remote.create() == Told(201)
    remote.road.reset()
    all_of(remote, step, 0, FAULTS[name])
    answer = remote.create(data=b"never")
    happened = name in HAPPENED
    assert answer == (Told(400, "invalid_request_error") if step == "publish" and happened else UNCERTAIN)
    assert remote.road.distinct("publish") == 1
    remote.road.reset()
    assert remote.content(A) == b"once"
    if happened:
        remote.expect_free(records=2)
        return
    ident = remote.seen()["unsettled_write"]["id"]
    assert (remote.say(stdout="never"), remote.create("/workspace/other")) == (HELD, GATE)
    assert remote.settle(ident, "committed") == 400
    assert remote.settle(ident, "rejected") == 200
    assert remote.content(A) == b"once"
    remote.expect_free(records=2)


@pytest.mark.parametrize(("step", "name"), spread(["fence", "settle"], tuple(FAULTS)))
def test_the_operators_own_transactions_lose_their_answers(remote: Remote, step: str, name: str) -> None:
    all_of(remote, "publish", 0, CUT)
    assert remote.create() == UNCERTAIN
    remote.road.reset()
    ident = remote.records()[0].id
    remote.road.plan(step, FAULTS[name])
    assert remote.settle(ident, "rejected") == 200
    assert remote.road.left() == 0
    assert (remote.names(), remote.records()[0].outcome) == ([], "rejected")
    remote.expect_free(records=1)
