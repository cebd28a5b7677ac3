"""Runs that meet in one session: waiting, taking over, fencing, renewing, going away (DESIGN §5, cases.md D11, D12)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from shared.domain.session import Fenced
from shared.errors import Code, Failure
from shared.operations.base import Cancel
from shared.operations.janitor import sweep
from shared.operations.keys import put_key
from shared.operations.lease import Heart
from shared.operations.workspace import waited
from shared.store.ports import StoreUnavailable
from tests.fakes import Desk, House, Stop


def head_of(house: House, session: str) -> dict[str, Any]:
    item = house.state.inner.get(f"p/one/s/{session}", "head")
    assert item is not None
    return item.attributes


def refusal_of(call: Callable[[], object]) -> Failure:
    with pytest.raises(Failure) as refusal:
        call()
    return refusal.value


def test_a_session_in_use_is_409_busy_after_the_wait(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=30)
    session = house.put("a").session_id

    def script(desk: Desk) -> None:
        for use in (
            lambda: house.run(session_id=session),
            lambda: house.put("b", session_id=session),
            lambda: house.do("files.delete", {"session_id": session, "file_id": "a"}),
        ):
            failure = refusal_of(use)
            assert (failure.code.status, failure.body()["error"]) == (409, "busy")
            assert failure.headers() == {"Retry-After": "1"}
        assert house.names(session) == ["a"]

    assert house.run(script, session_id=session).code == 0
    assert house.names(session) == ["a"]


def test_D11_20_runs_at_once_in_one_session_lose_nothing(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=60_000, packs=4)
    session = house.run().session_id
    gate = threading.Barrier(20)
    inside = threading.Semaphore(1)
    written: list[int] = []
    answers: list[Any] = []

    def one(number: int) -> None:
        def script(desk: Desk) -> None:
            assert inside.acquire(blocking=False), "two programs in one session"
            assert sorted(desk.before) == sorted(f"f{one}" for one in written), "each begins where the last ended"
            desk.write(f"f{number}", str(number))
            written.append(number)
            inside.release()

        house.executor.scripts[f"p{number}"] = script
        gate.wait(20)
        answers.append(house.run(code=f"p{number}", session_id=session))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 20
    assert {path: house.text(session, path) for path in house.names(session)} == {f"f{n}": str(n) for n in range(20)}


def test_a_late_commit_after_a_takeover_is_refused_and_commits_nothing(house: House) -> None:
    session = house.put("a", "1").session_id
    other = house.again(name="other")

    def late(desk: Desk) -> None:
        desk.write("a", "late")
        desk.write("late", "x")
        house.clock.forward(house.room.limits.lease_ms)
        other.run(lambda theirs: theirs.write("a", "taken over"), session_id=session)

    failure = refusal_of(lambda: house.run(late, session_id=session))
    assert failure.code.status == 409
    assert house.names(session) == ["a"]
    assert house.text(session, "a") == "taken over"
    assert head_of(house, session)["lock"] is None


def test_a_late_commit_while_the_other_still_runs_leaves_its_lock(house: House) -> None:
    session = house.put("a", "1").session_id
    other = house.again(name="other")
    failures: list[Failure] = []

    def theirs(desk: Desk) -> None:
        desk.write("a", "theirs")
        resume.set()
        ended.need()
        assert head_of(house, session)["lock"][0] == "other"

    def late(desk: Desk) -> None:
        desk.write("a", "late")
        house.clock.forward(house.room.limits.lease_ms)
        thread.start()
        resume.need()

    resume, ended = Stop(), Stop()
    thread = threading.Thread(target=lambda: other.run(theirs, session_id=session))
    try:
        failures.append(refusal_of(lambda: house.run(late, session_id=session)))
    finally:
        ended.set()
        thread.join(20)
    assert failures[0].code.status == 409
    assert house.text(session, "a") == "theirs"


def test_a_lease_ends_at_the_exact_millisecond(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=20)
    session = house.put("a").session_id
    other = house.again(name="other")
    lease = house.room.limits.lease_ms

    def script(desk: Desk) -> None:
        house.clock.forward(lease - 1)
        assert refusal_of(lambda: other.run(session_id=session)).code is Code.BUSY
        house.clock.forward(1)
        assert other.run(session_id=session).code == 0

    assert refusal_of(lambda: house.run(script, session_id=session)).code.status == 409


def test_a_restarted_service_frees_its_own_locks_at_once(house: House) -> None:
    session = house.put("a", "1").session_id
    restarted = house.again()

    def script(desk: Desk) -> None:
        desk.write("a", "from before the crash")
        assert restarted.run(lambda theirs: theirs.write("a", "2"), session_id=session).code == 0

    assert refusal_of(lambda: house.run(script, session_id=session)).code.status == 409
    assert house.text(session, "a") == "2"


def test_a_lease_is_renewed_while_a_long_run_goes_on(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=20, pause=0.005)
    session = house.put("a").session_id
    other = house.again(name="other")
    lease = house.room.limits.lease_ms

    def script(desk: Desk) -> None:
        for _ in range(5):
            house.clock.forward(lease - 1)
            for _ in range(2_000):
                if head_of(house, session)["lock"][2] >= house.clock.now + lease:
                    break
                threading.Event().wait(0.005)
            assert head_of(house, session)["lock"][2] == house.clock.now + lease
            assert refusal_of(lambda: other.run(session_id=session)).code is Code.BUSY
        desk.write("long", "done")

    assert house.run(script, session_id=session).code == 0
    assert house.names(session) == ["a", "long"]


def test_a_heart_forgets_a_lost_lease_and_outlives_a_store_that_fails_for_a_moment() -> None:
    heart = Heart(0.002)
    calls = {"lost": 0, "shaky": 0, "well": 0}
    enough = Stop()

    def lost() -> None:
        calls["lost"] += 1
        raise Fenced

    def shaky() -> None:
        calls["shaky"] += 1
        raise StoreUnavailable

    def well() -> None:
        calls["well"] += 1
        if calls["well"] == 5:
            enough.set()

    with heart.keep(lost), heart.keep(shaky), heart.keep(well):
        enough.need()
    assert calls["lost"] == 1
    assert calls["shaky"] >= 4


def test_a_heart_beats_again_after_a_rest() -> None:
    heart = Heart(0.002)
    for _ in range(2):
        beat = Stop()
        before = set(threading.enumerate())
        with heart.keep(beat.set):
            beat.need()
            (thread,) = set(threading.enumerate()) - before
        thread.join(10)
        assert not thread.is_alive(), "it rests when nothing is held"


def test_after_its_block_a_lease_is_not_renewed() -> None:
    heart = Heart(0.002)
    ended = threading.Event()
    late: list[bool] = []
    running, other = Stop(), Stop()

    def beat() -> None:
        running.set()
        late.append(ended.is_set())

    with heart.keep(other.set), heart.keep(beat):
        running.need()
    before = len(late)
    ended.set()
    other.clear()
    with heart.keep(other.set):
        other.need()
        other.clear()
        other.need()
    assert len(late) <= before + 1


def test_a_caller_that_went_away_before_the_run_runs_nothing(house: House) -> None:
    cancel = Cancel()
    cancel()
    session = house.put("a").session_id
    inputs: list[dict[str, Any]] = [{}, {"session_id": session}, {"runtime_session_hint": "h"}]
    for data in inputs:
        failure = refusal_of(partial(house.run, cancel=cancel, **data))
        assert failure.code is Code.CANCELLED
    assert house.executor.requests == []
    assert house.run(session_id=session).code == 0
    assert len(house.state.query("p/one", "session/")) == 1


def test_a_caller_that_goes_away_while_it_waits_gives_up_waiting(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=60_000)
    session = house.put("a").session_id
    cancel = Cancel()
    failures: list[Failure] = []

    def script(desk: Desk) -> None:
        waiter.start()
        cancel()
        waiter.join(20)
        assert not waiter.is_alive(), "it waits for nobody"

    waiter = threading.Thread(
        target=lambda: failures.append(refusal_of(lambda: house.run(code="w", session_id=session, cancel=cancel)))
    )
    house.run(script, session_id=session)
    assert [failure.code for failure in failures] == [Code.CANCELLED]
    assert len(house.executor.requests) == 1


def test_a_cancelled_run_commits_nothing_and_frees_the_session(house: House) -> None:
    session = house.put("a", "1").session_id
    cancel = Cancel()

    def script(desk: Desk) -> None:
        desk.write("a", "half")
        cancel()
        assert house.executor.cancelled == [desk.request.run_id]
        desk.reason, desk.code = "stopped", None

    assert refusal_of(lambda: house.run(script, session_id=session, cancel=cancel)).code is Code.CANCELLED
    assert house.text(session, "a") == "1"
    assert house.run(session_id=session).code == 0
    assert house.run(script=None).code == 0


def test_a_cancelled_first_run_leaves_no_session(house: House) -> None:
    cancel = Cancel()

    def script(desk: Desk) -> None:
        cancel()
        desk.write("a", "half")
        desk.reason, desk.code = "stopped", None

    assert refusal_of(lambda: house.run(script, cancel=cancel)).code is Code.CANCELLED
    assert house.state.query("p/one", "") == []


def test_a_run_that_was_over_before_it_could_be_stopped_is_kept(house: House) -> None:
    cancel = Cancel()

    def script(desk: Desk) -> None:
        desk.write("a", "whole")
        cancel()

    assert house.names(house.run(script, cancel=cancel).session_id) == ["a"]


@pytest.mark.parametrize("early", [True, False])
def test_a_cancel_fires_once_whenever_it_is_bound(early: bool) -> None:
    fired: list[int] = []
    cancel = Cancel()
    if early:
        cancel()
    cancel.bind(lambda: fired.append(1))
    cancel()
    cancel()
    assert fired == [1]


def test_D12_a_crash_between_the_objects_and_the_commit_leaves_the_old_version(house: House) -> None:
    session = house.put("a", "1").session_id

    class Crash(BaseException):
        pass

    def crash(actions: Any) -> list[int]:
        raise Crash

    def script(desk: Desk) -> None:
        desk.write("a", "half")
        desk.write("b", "half")
        house.state.transact = crash  # type: ignore[method-assign]

    with pytest.raises(Crash):
        house.run(script, session_id=session)
    restarted = house.again()
    assert restarted.names(session) == ["a"]
    assert restarted.text(session, "a") == "1"
    assert restarted.run(lambda desk: desk.write("b", "2"), session_id=session).files[0].name == "b"


def test_a_commit_that_races_with_its_own_renewal_wins(house: House) -> None:
    session = house.put("a", "1").session_id
    from shared.domain import session as rules  # noqa: PLC0415
    from shared.domain.session import Head  # noqa: PLC0415
    from shared.store.ports import PutIf  # noqa: PLC0415

    def renewal(_: object) -> None:
        item = house.state.inner.get(f"p/one/s/{session}", "head")
        assert item is not None
        head = Head.of(item.attributes)
        renewed = rules.renew(head, head.fence, house.clock.now + 5, house.room.limits.lease_ms)
        house.state.inner.transact([PutIf(item.partition, item.sort, item.version, renewed.attributes())])

    def script(desk: Desk) -> None:
        desk.write("a", "2")
        house.state.before = renewal

    assert house.run(script, session_id=session).code == 0
    assert house.text(session, "a") == "2"
    assert head_of(house, session)["lock"] is None


def test_a_session_that_is_removed_while_it_runs_is_not_revived(house: House) -> None:
    row = {"id": "k", "project": "one", "name": "", "created": 0, "until": None}
    put_key(house.room, "key", row)  # the janitor walks the projects that have had one
    session = house.put("a", "1").session_id

    def script(desk: Desk) -> None:
        desk.write("a", "2")
        house.clock.forward(house.room.limits.session_ms + house.room.limits.lease_ms)
        assert sweep(house.room).sessions == 1

    refusal_of(lambda: house.run(script, session_id=session))
    assert house.state.query("p/one", "session/") == []
    assert refusal_of(lambda: house.names(session)).code is Code.NOT_FOUND


def test_the_pauses_of_a_wait_are_short_at_first_and_bounded(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        pauses.append(seconds)
        now += seconds

    monkeypatch.setattr("shared.operations.workspace.time.monotonic", lambda: now)
    monkeypatch.setattr("shared.operations.workspace.time.sleep", sleep)
    object.__setattr__(house.room, "limits", type(house.room.limits)(lock_wait_ms=10_000))
    assert refusal_of(lambda: waited(house.room, lambda: None)).code is Code.BUSY
    assert max(pauses[:5]) <= 0.02
    assert max(pauses) <= 0.1
    assert 10 <= sum(pauses) <= 10.2
    assert len(pauses) < 400
