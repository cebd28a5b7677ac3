"""Queued runs: one start, one claim, one end, whatever the queue and the workers do (DESIGN §6, §9)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.executor.port import ExecutorFailed
from shared.identity import Caller
from shared.operations.base import Call, operations
from shared.operations.janitor import sweep
from shared.operations.keys import put_key
from shared.operations.queued import resume
from shared.store.ports import StoreUnavailable
from tests.fakes import Desk, House

QUEUE_MS = 900_000


class Queue:
    """The port RunQueue: keeps what it was sent. `then` runs inside `send`, after the message was taken."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.fail: Exception | None = None
        self.then: Callable[[], object] = lambda: None

    def send(self, message: Mapping[str, str]) -> None:
        self.messages.append(dict(message))
        self.then()
        if self.fail is not None:
            raise self.fail


@pytest.fixture
def queue(house: House) -> Queue:
    """The queue of the house; its janitor knows the project."""
    made = Queue()
    house.room = replace(house.room, queue=made)
    put_key(house.room, "key", {"id": "k", "project": "one", "name": "", "created": 0, "until": None})
    return made


def start(house: House, code: str = "queued", **data: Any) -> str:
    more = {name: data.pop(name) for name in ("idempotency_key", "project") if name in data}
    record = house.do("exec.start", {"lang": "py", "code": code, **data}, **more)
    assert record.model_dump() == {"id": record.id, "status": "running"}
    ident: str = record.id
    return ident


def told(house: House, run_id: str) -> Any:
    return house.do("runs.get", {"run_id": run_id})


def item(house: House, run_id: str) -> dict[str, Any] | None:
    found = house.state.inner.get(f"p/one/run/{run_id}", "record")
    return None if found is None else found.attributes


def worker(house: House, name: str = "worker") -> House:
    """Another process on the same store."""
    return house.again(name=name)


def test_a_queued_run_waits_as_running_and_then_has_the_workers_result(house: House, queue: Queue) -> None:
    run_id = start(house, args=["a"])
    assert queue.messages == [{"project": "one", "run_id": run_id}]
    assert told(house, run_id).model_dump() == {"id": run_id, "status": "running"}
    assert house.executor.requests == []
    other = worker(house)

    def script(desk: Desk) -> None:
        desk.stdout = "later"
        desk.write("a", "1")
        assert told(house, run_id).status == "running"

    other.executor.scripts["queued"] = script
    done = resume(other.room, "one", run_id)
    assert done is not None
    assert (done.id, done.status) == (run_id, "finished")
    assert done.result is not None
    assert done.result.stdout == "later"
    assert told(house, run_id) == done
    assert house.names(done.result.session_id) == ["a"]
    assert [request.args for request in other.executor.requests] == [("a",)]
    assert other.room.active == set()


def test_the_message_holds_nothing_of_the_run(house: House, queue: Queue) -> None:
    start(house, "secret program", args=["secret"], user_id="secret")
    assert "secret" not in json.dumps(queue.messages)


def test_a_second_message_runs_nothing(house: House, queue: Queue) -> None:
    run_id = start(house)
    other = worker(house)
    first = resume(other.room, "one", run_id)
    assert resume(other.room, "one", run_id) is None
    assert resume(worker(house, "third").room, "one", run_id) is None
    assert told(house, run_id) == first
    assert len(other.executor.requests) == 1


def test_a_message_while_it_runs_runs_nothing(house: House, queue: Queue) -> None:
    run_id = start(house)
    one, two = worker(house, "w1"), worker(house, "w2")
    seen: list[Any] = []
    one.executor.scripts["queued"] = lambda desk: seen.append(resume(two.room, "one", run_id))
    done = resume(one.room, "one", run_id)
    assert done is not None
    assert done.status == "finished"
    assert seen == [None]
    assert two.executor.requests == []


def test_of_many_workers_at_once_one_claims(house: House, queue: Queue) -> None:
    workers = [worker(house, f"w{number}") for number in range(6)]
    for _ in range(5):
        run_id = start(house)
        gate = threading.Barrier(len(workers))
        ends: list[Any] = []

        def take(one: House, run_id: str = run_id, gate: threading.Barrier = gate, ends: list[Any] = ends) -> None:
            gate.wait(10)
            ends.append(resume(one.room, "one", run_id))

        threads = [threading.Thread(target=take, args=(one,)) for one in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(ends) == len(workers)
        assert [end.status for end in ends if end is not None] == ["finished"]
    assert sum(len(one.executor.requests) for one in workers) == 5


@pytest.mark.parametrize(
    ("project", "run_id"),
    [("one", "u" * 21), ("one", ""), ("one", "../x"), ("two", None), ("", None), ("a/b", None), ("ONE", None)],
)
def test_a_message_that_names_no_queued_run_runs_nothing(
    house: House, queue: Queue, project: str, run_id: str | None
) -> None:
    mine = start(house)
    other = worker(house)
    assert resume(other.room, project, mine if run_id is None else run_id) is None
    assert other.executor.requests == []
    assert told(house, mine).status == "running"


def test_a_large_input_is_an_object_that_lives_as_long_as_it_waits(house: House, queue: Queue) -> None:
    code = "é" * 40_000
    run_id = start(house, code)
    stored = [info.key for info in house.objects.list("p/one/run/")]
    assert len(stored) == 1
    attributes = item(house, run_id)
    assert attributes is not None
    assert (attributes["input"], attributes["pointer"]) == (None, stored[0])
    object.__setattr__(house.room, "limits", replace(house.room.limits, queue_ms=86_000_000))
    waiting = start(house, code + "x")
    house.clock.forward(3_600_000)
    sweep(house.room)
    other = worker(house)
    done = resume(other.room, "one", waiting)
    assert done is not None
    assert done.status == "finished"
    assert [len(request.code) for request in other.executor.requests] == [40_001]
    house.clock.forward(3_600_000)
    sweep(house.room)
    assert [info.key for info in house.objects.list("p/one/run/")] == stored, "what ran leaves no input behind"


def test_a_small_input_leaves_no_trace_once_it_runs(house: House, queue: Queue) -> None:
    run_id = start(house, "secret program")
    resume(worker(house).room, "one", run_id)
    assert "secret program" not in json.dumps(item(house, run_id))


def test_the_caller_who_started_it_is_the_one_it_runs_for(house: House, queue: Queue) -> None:
    house.room = replace(house.room, isolation="user")
    call = Call(Caller("one", "jwt", "subject"))
    start_run = operations()["exec.start"]
    ids = [start_run.call_with(house.room, call, {"lang": "py", "code": "x"}).id for _ in range(2)]
    operations()["exec.run"].call_with(house.room, call, {"lang": "py", "code": "x"})
    other = worker(house)
    room = replace(other.room, isolation="user")
    for run_id in ids:
        assert resume(room, "one", run_id) is not None
    tenants = {request.tenant for request in [*other.executor.requests, *house.executor.requests]}
    assert len(other.executor.requests) == 2
    assert len(tenants) == 1, "one subject, one tenant, whoever runs it"
    assert "" not in tenants


@pytest.mark.parametrize("kind", ["unavailable", "broken", "timeout", "throttled"])
def test_a_failure_of_ours_is_stored_and_never_run_again(house: House, queue: Queue, kind: Any) -> None:
    run_id = start(house)
    other = worker(house)
    other.executor.fail = ExecutorFailed(kind)
    done = resume(other.room, "one", run_id)
    assert done is not None
    assert done.status == "failed"
    assert done.error is not None
    assert done.error["error"].startswith(("executor_", "rate_limited"))
    other.executor.fail = None
    assert resume(other.room, "one", run_id) is None
    assert told(house, run_id) == done
    assert len(other.executor.requests) == 1


def test_a_session_that_went_meanwhile_is_a_failed_run(house: House, queue: Queue) -> None:
    session = house.put("a").session_id
    run_id = start(house, session_id=session)
    house.state.inner.delete_partition(f"p/one/s/{session}")
    done = resume(worker(house).room, "one", run_id)
    assert done is not None
    assert done.error is not None
    assert (done.status, done.error["error"]) == ("failed", "not_found")


def test_a_worker_that_dies_leaves_a_failed_run_after_its_time(house: House, queue: Queue) -> None:
    class Death(BaseException):
        pass

    def die(desk: Desk) -> None:
        raise Death

    run_id = start(house)
    other = worker(house)
    other.executor.scripts["queued"] = die
    with pytest.raises(Death):
        resume(other.room, "one", run_id)
    limits = house.room.limits
    longest = limits.run_ms_max + limits.lock_wait_ms + limits.lease_ms
    house.clock.forward(longest - 1)
    assert told(house, run_id).status == "running"
    house.clock.forward(1)
    assert told(house, run_id).status == "failed"
    assert resume(worker(house, "third").room, "one", run_id) is None


@pytest.mark.parametrize("late", [False, True])
def test_a_run_that_no_worker_takes_has_failed_to_the_millisecond(house: House, queue: Queue, late: bool) -> None:
    run_id = start(house)
    house.clock.forward(QUEUE_MS - 1)
    assert told(house, run_id).status == "running"
    if not late:
        done = resume(worker(house).room, "one", run_id)
        assert done is not None
        assert done.status == "finished"
        return
    house.clock.forward(1)
    failed = told(house, run_id)
    assert failed.status == "failed"
    assert failed.error["error"] == "executor_unavailable"
    house.clock.forward(-1)
    assert resume(worker(house).room, "one", run_id) is None, "what was told as failed never runs, by no clock"
    assert told(house, run_id) == failed


def test_a_worker_that_comes_too_late_answers_that_it_failed(house: House, queue: Queue) -> None:
    run_id = start(house)
    house.clock.forward(QUEUE_MS)
    other = worker(house)
    done = resume(other.room, "one", run_id)
    assert done is not None
    assert done.status == "failed"
    assert other.executor.requests == []
    assert told(house, run_id) == done


@pytest.mark.parametrize("error", [StoreUnavailable("queue"), RuntimeError("bug")])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_run_that_could_not_be_sent_leaves_no_record(
    house: House, queue: Queue, error: Exception, key: str | None
) -> None:
    queue.fail = error
    with pytest.raises(type(error)):
        start(house, idempotency_key=key)
    (message,) = queue.messages
    assert item(house, message["run_id"]) is None
    assert resume(worker(house).room, "one", message["run_id"]) is None, "though it may have been taken all the same"
    queue.fail = None
    again = start(house, idempotency_key=key)
    assert again != message["run_id"]
    assert resume(worker(house).room, "one", again) is not None


def test_a_run_that_a_worker_has_was_sent_whatever_the_queue_says(house: House, queue: Queue) -> None:
    other = worker(house)
    queue.then = lambda: resume(other.room, "one", queue.messages[0]["run_id"])
    queue.fail = StoreUnavailable("queue")
    run_id = start(house, idempotency_key="k")
    assert told(house, run_id).status == "finished"
    assert start(house, idempotency_key="k") == run_id
    assert len(other.executor.requests) == 1


def test_a_start_with_a_key_is_one_message_and_one_run(house: House, queue: Queue) -> None:
    run_id = start(house, idempotency_key="k")
    assert start(house, idempotency_key="k") == run_id
    resume(worker(house).room, "one", run_id)
    assert start(house, idempotency_key="k") == run_id
    assert len(queue.messages) == 1
    with pytest.raises(Failure) as refusal:
        start(house, "other", idempotency_key="k")
    assert refusal.value.code is Code.IDEMPOTENCY_CONFLICT


def test_a_full_worker_leaves_the_run_queued(house: House, queue: Queue) -> None:
    run_id = start(house)
    other = worker(house)
    places = house.room.limits.project_runs
    for _ in range(places):
        other.room.runs.take("one")
    with pytest.raises(Failure) as refusal:
        resume(other.room, "one", run_id)
    assert refusal.value.code is Code.RATE_LIMITED
    assert told(house, run_id).status == "running"
    other.room.runs.leave("one")
    done = resume(other.room, "one", run_id)
    assert done is not None
    assert done.status == "finished"


def test_a_store_that_fails_before_the_claim_leaves_the_run_queued(house: House, queue: Queue) -> None:
    run_id = start(house)
    other = worker(house)

    def lose(actions: Any) -> None:
        raise StoreUnavailable

    other.state.before = lose
    with pytest.raises(StoreUnavailable):
        resume(other.room, "one", run_id)
    assert other.room.active == set()
    done = resume(other.room, "one", run_id)
    assert done is not None
    assert done.status == "finished"


def test_a_commit_whose_answer_was_lost_is_told_as_finished(house: House, queue: Queue) -> None:
    run_id = start(house)
    other = worker(house)
    transact = other.state.inner.transact
    calls: list[int] = []

    def answer_lost(actions: Any) -> list[int]:
        calls.append(len(actions))
        versions = transact(actions)
        if len(calls) == 2:  # the claim, then the commit
            raise StoreUnavailable
        return versions

    other.state.transact = answer_lost  # type: ignore[method-assign]
    done = resume(other.room, "one", run_id)
    assert done is not None
    assert done.status == "finished"
    assert len(other.executor.requests) == 1


def test_a_worker_of_bounded_time_stores_the_end_before_it_is_over(house: House, queue: Queue) -> None:
    ids = [start(house, timeout=60_000) for _ in range(2)]
    other = worker(house)
    for run_id, left_ms, status in ((ids[0], 10_000, "finished"), (ids[1], 3_100, "failed")):
        room = replace(other.room, limits=replace(other.room.limits, answer_ms=left_ms))
        done = resume(room, "one", run_id)
        assert done is not None
        assert done.status == status
        assert told(house, run_id) == done
        if done.result is not None:
            assert "limited to" in done.result.stderr
    assert 5_000 <= other.executor.requests[0].limits.wall_ms <= 7_000
    assert len(other.executor.requests) == 1


def test_an_unexpected_error_is_stored_without_its_words(house: House, queue: Queue) -> None:
    def script(desk: Desk) -> None:
        raise RuntimeError("secret /path")

    run_id = start(house)
    other = worker(house)
    other.executor.scripts["queued"] = script
    done = resume(other.room, "one", run_id)
    assert done is not None
    assert done.error is not None
    assert done.error["error"] == "internal_error"
    assert "secret" not in str(done.error)


def test_a_session_that_is_not_there_is_404_at_once_and_sends_nothing(house: House, queue: Queue) -> None:
    with pytest.raises(Failure) as refusal:
        start(house, session_id="A" * 21)
    assert refusal.value.code is Code.NOT_FOUND
    assert queue.messages == []


def test_a_queued_run_holds_no_place_here(house: House, queue: Queue) -> None:
    for _ in range(house.room.limits.run_queue + 1):
        start(house)
    assert house.run().code == 0
