"""Idempotency-Key and runs in the background (exec.md A8.15, DESIGN §6)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.executor.port import ExecutorFailed
from shared.identity import Caller
from shared.operations import records
from shared.operations.base import Cancel
from shared.operations.janitor import sweep
from shared.store.ports import StoreUnavailable
from tests.fakes import Desk, House, Stop

DAY_MS = 86_400_000


def refused(house: House, name: str = "exec.run", project: str | None = None, **data: Any) -> Failure:
    more = {key: data.pop(key) for key in ("idempotency_key",) if key in data}
    with pytest.raises(Failure) as refusal:
        house.do(name, {"lang": "py", "code": "x", **data}, project=project, **more)
    return refusal.value


def start(house: House, script: Callable[[Desk], None] | None = None, **more: Any) -> Any:
    house.executor.scripts["background"] = script or (lambda desk: None)
    return house.do("exec.start", {"lang": "py", "code": "background"}, **more)


def settled(house: House, run_id: str, **more: Any) -> Any:
    """The run's record, once it says how it ended."""
    for _ in range(2_000):
        record = house.do("runs.get", {"run_id": run_id}, **more)
        if record.status != "running":
            return record
        threading.Event().wait(0.005)
    raise AssertionError("it never ended")


def test_the_same_key_and_body_is_one_execution_and_the_stored_answer(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.stdout = "once"
        desk.write("a", "1")

    first = house.run(script, code="x", idempotency_key="k")
    second = house.run(code="x", idempotency_key="k")
    assert second == first
    assert second.model_dump_json() == first.model_dump_json()
    assert len(house.executor.requests) == 1


def test_it_is_still_so_after_a_restart(house: House) -> None:
    first = house.run(lambda desk: desk.write("a", "1"), code="x", idempotency_key="k")
    again = house.again()
    assert again.run(code="x", idempotency_key="k") == first
    assert again.executor.requests == []


def test_another_body_is_422(house: House) -> None:
    house.run(code="x", idempotency_key="k")
    for data in ({"code": "y"}, {"args": ["a"]}, {"lang": "js"}, {"session_id": "s" * 21}, {"timeout": 5}):
        failure = refused(house, idempotency_key="k", **data)
        assert failure.code.status == 422
        assert failure.body()["error"] == "idempotency_conflict"
    assert refused(house, "exec.start", idempotency_key="k").code.status == 422
    assert len(house.executor.requests) == 1


def test_a_member_that_is_null_or_unknown_is_no_other_body(house: House) -> None:
    first = house.run(code="x", idempotency_key="k")
    assert house.run(code="x", args=None, apiKey="secret", idempotency_key="k") == first


def test_a_key_is_of_one_project(house: House) -> None:
    first = house.run(code="x", idempotency_key="k")
    second = house.run(code="x", idempotency_key="k", project="two")
    assert second.session_id != first.session_id
    assert len(house.executor.requests) == 2


def test_while_it_runs_a_repeat_is_409(house: House) -> None:
    failures: list[Failure] = []

    def script(desk: Desk) -> None:
        failures.append(refused(house, idempotency_key="k"))
        failures.append(refused(house, idempotency_key="k", args=["other"]))

    house.run(script, code="x", idempotency_key="k")
    assert [failure.code.status for failure in failures] == [409, 422]
    assert failures[0].body()["error"] == "in_progress"
    assert failures[0].headers() == {"Retry-After": "1"}
    assert len(house.executor.requests) == 1


def test_a_repeat_that_was_refused_does_not_open_the_key_to_a_third(house: House) -> None:
    codes: list[int] = []

    def script(desk: Desk) -> None:
        codes.extend(refused(house, idempotency_key="k").code.status for _ in range(3))

    house.run(script, code="x", idempotency_key="k")
    assert codes == [409, 409, 409]


def test_an_answer_above_an_items_limit_is_an_object(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.stdout = "é\0" * 20_000

    first = house.run(script, code="x", idempotency_key="k")
    stored = [info for info in house.room.objects.list("p/") if "/idem/" in info.key]
    assert len(stored) == 1
    assert stored[0].size > 32 * 1024
    item = house.state.get(stored[0].key.rpartition("/")[0], "record")
    assert item is not None
    assert item.attributes["result"] is None
    assert house.run(code="x", idempotency_key="k") == first
    house.clock.forward(3_600_000)
    sweep(house.room)
    assert house.run(code="x", idempotency_key="k") == first


@pytest.mark.parametrize("kind", ["unavailable", "broken", "timeout"])
def test_an_infrastructure_failure_is_not_stored(house: House, kind: Any) -> None:
    house.executor.fail = ExecutorFailed(kind)
    assert refused(house, idempotency_key="k").code.status >= 500
    house.executor.fail = None
    assert house.run(code="x", idempotency_key="k").code == 0


def test_a_refusal_is_not_stored(house: House) -> None:
    assert refused(house, idempotency_key="k", session_id="s" * 21).code is Code.NOT_FOUND
    assert refused(house, idempotency_key="k", session_id="s" * 21).code is Code.NOT_FOUND
    assert house.run(code="x", idempotency_key="k").code == 0


def test_a_program_that_fails_is_stored(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.code, desk.stderr = 1, "Traceback"

    first = house.run(script, code="x", idempotency_key="k")
    assert house.run(code="x", idempotency_key="k") == first
    assert len(house.executor.requests) == 1


def test_the_answer_and_the_files_are_one_transaction(house: House) -> None:
    def cut(actions: list[Any]) -> None:
        raise StoreUnavailable

    def script(desk: Desk) -> None:
        desk.write("a", "1")
        house.state.before = cut  # the next transaction is the commit

    house.executor.scripts["x"] = script
    with pytest.raises(StoreUnavailable):
        house.run(code="x", idempotency_key="k")
    assert house.state.query("p/one", "session/") == []
    house.executor.scripts.pop("x")
    house.run(code="x", idempotency_key="k")
    commits = [actions for actions in house.state.transactions if any(a.sort == "head" for a in actions)]
    assert len(commits) == 1
    assert sorted(action.sort.split("/")[0] for action in commits[0]) == ["head", "record", "session"]


def test_a_new_incarnation_takes_over_what_a_crash_left(house: House) -> None:
    later = house.again()
    results: list[Any] = []

    def script(desk: Desk) -> None:
        # The process dies here as far as the new one can tell.
        results.append(later.run(code="x", idempotency_key="k"))

    with pytest.raises(Failure) as refusal:
        house.run(script, code="x", idempotency_key="k")
    assert refusal.value.code.status == 409
    assert len(results) == 1
    assert len(house.state.query("p/one", "session/")) == 1
    assert later.run(code="x", idempotency_key="k") == results[0]


def test_a_living_process_of_another_name_is_left_in_peace(house: House) -> None:
    other = house.again(name="command")

    def script(desk: Desk) -> None:
        assert refused(other, idempotency_key="k").code is Code.IN_PROGRESS

    first = house.run(script, code="x", idempotency_key="k")
    assert other.run(code="x", idempotency_key="k") == first


@pytest.mark.parametrize(("passed", "runs"), [(DAY_MS - 1, 1), (DAY_MS, 2)])
def test_a_key_is_kept_24_hours_to_the_millisecond(house: House, passed: int, runs: int) -> None:
    house.run(code="x", idempotency_key="k")
    house.clock.forward(passed)
    house.run(code="x", idempotency_key="k")
    assert len(house.executor.requests) == runs


def test_a_swept_record_is_gone_and_no_earlier(house: House) -> None:
    house.run(code="x", idempotency_key="k")
    house.clock.forward(DAY_MS - 1)
    assert sweep(house.room).records == 0
    house.clock.forward(3_000)
    assert sweep(house.room).records == 1


@pytest.mark.parametrize("key", ["", "a\0", "k" * 1_025, "\ud800"])
def test_a_key_that_is_none_is_400(house: House, key: str) -> None:
    failure = refused(house, idempotency_key=key)
    assert failure.code is Code.INVALID_REQUEST
    assert failure.field == "Idempotency-Key"


def test_nothing_is_left_in_hand(house: House) -> None:
    house.run(code="x", idempotency_key="k")
    refused(house, idempotency_key="k", args=["other"])
    house.run(code="x", idempotency_key="k")
    settled(house, start(house).id)
    house.room.background.shutdown(wait=True)
    assert house.room.active == set()


def test_a_run_in_the_background_is_told_of_when_it_is_finished(house: House) -> None:
    go = Stop()

    def script(desk: Desk) -> None:
        go.need()
        desk.stdout = "later"
        desk.write("a", "1")

    record = start(house, script)
    assert record.model_dump() == {"id": record.id, "status": "running"}
    assert house.do("runs.get", {"run_id": record.id}).model_dump() == {"id": record.id, "status": "running"}
    go.set()
    done = settled(house, record.id)
    assert done.status == "finished"
    assert done.result.stdout == "later"
    assert house.names(done.result.session_id) == ["a"]
    assert "error" not in done.model_dump()
    assert house.again().do("runs.get", {"run_id": record.id}) == done


def test_a_run_in_the_background_that_fails_says_why(house: House) -> None:
    house.executor.fail = ExecutorFailed("unavailable")
    done = settled(house, start(house).id)
    assert done.status == "failed"
    assert done.error == {"error": "executor_unavailable", "message": "No program can be run at the moment."}
    assert "result" not in done.model_dump()


def test_an_unexpected_error_says_nothing_of_itself(house: House) -> None:
    def script(desk: Desk) -> None:
        raise RuntimeError("secret /path")

    done = settled(house, start(house, script).id)
    assert done.status == "failed"
    assert done.error["error"] == "internal_error"
    assert "secret" not in str(done.error)


def test_a_large_result_comes_back_whole(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.stdout = "x" * 500_000

    assert settled(house, start(house, script).id).result.stdout == "x" * 500_000


def test_a_run_that_a_restart_interrupted_has_failed(house: House) -> None:
    go = Stop()
    record = start(house, lambda desk: go.need())
    try:
        found = house.again().do("runs.get", {"run_id": record.id})
        assert found.status == "failed"
        assert found.error["error"] == "executor_failed"
        assert house.do("runs.get", {"run_id": record.id}).status == "running"
    finally:
        go.set()


def test_a_run_whose_end_could_not_be_written_has_failed(house: House) -> None:
    def lose(actions: Any) -> list[int]:
        raise StoreUnavailable

    def script(desk: Desk) -> None:
        house.state.transact = lose  # type: ignore[method-assign]

    record = start(house, script)
    house.room.background.shutdown(wait=True)
    assert house.do("runs.get", {"run_id": record.id}).status == "failed"


@pytest.mark.parametrize("run_id", ["", "x", "u" * 21, "../run/x", "a/b", "\ud800", "x" * 10_000, "\0"])
def test_an_unknown_run_is_404(house: House, run_id: str) -> None:
    with pytest.raises(Failure) as refusal:
        house.do("runs.get", {"run_id": run_id})
    assert refusal.value.code is Code.NOT_FOUND


def test_a_foreign_run_is_as_an_unknown_one(house: House) -> None:
    record = start(house, project="two")
    settled(house, record.id, project="two")
    bodies = []
    for run_id in (record.id, "u" * 21):
        with pytest.raises(Failure) as refusal:
            house.do("runs.get", {"run_id": run_id})
        bodies.append(refusal.value.body())
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize(("passed", "there"), [(DAY_MS - 1, True), (DAY_MS, False)])
def test_a_result_is_kept_24_hours(house: House, passed: int, there: bool) -> None:
    record = start(house)
    settled(house, record.id)
    house.clock.forward(passed)
    if there:
        assert house.do("runs.get", {"run_id": record.id}).status == "finished"
    else:
        with pytest.raises(Failure):
            house.do("runs.get", {"run_id": record.id})


def test_a_start_with_a_key_is_one_run(house: House) -> None:
    first = start(house, idempotency_key="k")
    assert start(house, idempotency_key="k") == first
    settled(house, first.id)
    assert start(house, idempotency_key="k") == first
    assert len(house.executor.requests) == 1


def test_a_start_is_refused_before_anything_is_made(house: House) -> None:
    failure = refused(house, "exec.start", code="")
    assert failure.field == "code"
    assert house.state.transactions == []


def test_the_client_that_started_a_run_may_go_away(house: House) -> None:
    cancel = Cancel()
    go = Stop()
    record = start(house, lambda desk: go.need(), cancel=cancel)
    cancel()
    go.set()
    assert settled(house, record.id).status == "finished"
    assert house.executor.cancelled == []


def test_background_runs_hold_their_places_until_they_end(build: Callable[..., House]) -> None:
    house = build(run_queue=2)
    go = Stop()
    records = [start(house, lambda desk: go.need()) for _ in range(2)]
    assert refused(house, "exec.start").code is Code.RATE_LIMITED
    assert refused(house).code is Code.RATE_LIMITED
    go.set()
    for record in records:
        assert settled(house, record.id).status == "finished"
    house.room.background.shutdown(wait=True)
    assert house.run(code="x").code == 0


def test_a_start_while_the_service_ends_has_failed(house: House) -> None:
    house.room.background.shutdown()
    record = start(house)
    found = house.do("runs.get", {"run_id": record.id})
    assert found.status == "failed"
    assert found.error["error"] == "executor_unavailable"
    assert house.run(code="x").code == 0
    assert house.room.active == set()


@pytest.mark.parametrize("foreign", [False, True])
def test_a_background_run_in_an_unknown_or_foreign_session_is_404_at_once(house: House, foreign: bool) -> None:
    session = house.run(code="x", project="two").session_id if foreign else "A" * 21
    house.state.transactions.clear()
    assert refused(house, "exec.start", session_id=session).code is Code.NOT_FOUND
    assert house.state.transactions == []
    assert refused(house, "exec.start", session_id=session, idempotency_key="k").code is Code.NOT_FOUND
    assert house.do("exec.start", {"lang": "py", "code": "x"}, idempotency_key="k").status == "running"


def test_a_stored_start_outlives_its_session(house: House) -> None:
    session = house.run(code="x").session_id
    first = house.do("exec.start", {"lang": "py", "code": "x", "session_id": session}, idempotency_key="k")
    settled(house, first.id)
    house.state.inner.delete_partition(f"p/one/s/{session}")
    again = house.do("exec.start", {"lang": "py", "code": "x", "session_id": session}, idempotency_key="k")
    assert again == first


@pytest.mark.parametrize(("answer_ms", "held_ms"), [(28_000, 58_000), (0, 660_000), (897_000, 927_000)])
def test_a_key_whose_process_the_platform_ended_is_free_once_that_cannot_work_on_it(
    build: Callable[..., House], answer_ms: int, held_ms: int
) -> None:
    """The bound of an answer and the lease, or the longest run, the wait for a lock and the lease."""
    house = build(answer_ms=answer_ms, lock_wait_ms=330_000)
    other = house.again(name="another environment")
    results: list[Any] = []

    def script(desk: Desk) -> None:
        house.clock.now += held_ms - 1
        assert refused(other, idempotency_key="k").code is Code.IN_PROGRESS
        house.clock.now += 1
        results.append(other.run(code="x", idempotency_key="k"))

    with pytest.raises(Failure):
        house.run(script, code="x", idempotency_key="k")
    assert len(results) == 1
    assert other.run(code="x", idempotency_key="k") == results[0], "of two that ran, one is kept"


def test_a_worker_with_more_time_than_a_run_takes_is_not_told_dead_meanwhile(build: Callable[..., House]) -> None:
    house = build(answer_ms=897_000)
    record = records.enqueue(house.room, Caller("one", "key"), "r" * 21, {"lang": "py", "code": "x"}, None)
    assert record.rows
    claim = records.claim(house.room, "one", "r" * 21)
    assert claim is not None
    other = house.again(name="another environment")
    house.clock.now += 890_000
    assert other.do("runs.get", {"run_id": "r" * 21}).status == "running"
    house.clock.now += 37_000
    assert other.do("runs.get", {"run_id": "r" * 21}).status == "failed"
