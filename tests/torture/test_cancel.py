"""Cancelling Turns: nothing lives, nothing is committed, and exactly one end is told (agents.md 11.35)."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.operations.room import Room
from tests.torture.place import CANCEL, Act, message, processes, real, staged, talk, until


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with real() as made:
        yield made


def programs(mark: str) -> dict[str, str]:
    sleep = f"exec -a {mark} sleep 300"
    return {
        "plain": sleep,
        "setsid": f"setsid bash -c '{sleep}' & {sleep}",
        "daemon": f"( ( setsid nohup bash -c '{sleep}' >/dev/null 2>&1 & ) & ) ; echo x > left.txt; {sleep}",
        "bomb": f"f() {{ bash -c '{sleep}' & f | f & }}; f; {sleep}",
        "deaf": f"trap '' TERM INT HUP QUIT; bash -c \"trap '' TERM INT HUP; {sleep}\" & {sleep}",
        "busy": f"(exec -a {mark} bash -c 'while :; do :; done') & (while :; do :; done) & {sleep}",
        "flood": f"(exec -a {mark} sleep 300) & while :; do echo yes; done",
        "writer": f"(exec -a {mark} sleep 300) & i=0; while :; do echo $i > f$((i++ % 500)); done",
    }


@pytest.mark.parametrize("kind", sorted(programs("")))
def test_11_35_two_seconds_after_a_cancel_nothing_lives(room: Room, kind: str) -> None:
    mark = f"torture-{secrets.token_hex(6)}"
    one = talk(room)
    assert one.run("echo kept > kept.txt")["status"] == "completed"
    before = one.files()
    turn = one.say(programs(mark)[kind])
    until(lambda: processes(mark), 15, "the program does not start")
    time.sleep(0.3)
    one.send(CANCEL)
    begun = time.monotonic()
    row = one.need_over(turn, 5)
    took = time.monotonic() - begun
    assert row["status"] == "cancelled"
    assert took < 2, took
    while time.monotonic() < begun + 2 and processes(mark):
        time.sleep(0.02)
    assert processes(mark) == []
    one.need_idle(5)
    assert one.files() == before
    after = one.run("ls; ps -e | wc -l; pgrep -c sleep")
    assert after["status"] == "completed"
    assert one.output(after["id"]).split()[0] == "kept.txt"
    assert one.output(after["id"]).split()[-1] == "0"
    one.verify()


def test_cancel_twice_and_on_idle(room: Room) -> None:
    one = talk(room)
    one.send(CANCEL)
    assert one.turns() == []
    turn = one.say("sleep 60")
    time.sleep(0.3)
    one.send(CANCEL, CANCEL)
    one.send(CANCEL)
    assert one.need_over(turn, 3)["status"] == "cancelled"
    one.send(CANCEL)
    assert one.run("echo on")["status"] == "completed"
    one.verify()


def test_a_cancel_races_with_the_end_and_one_of_them_wins(room: Room) -> None:
    """Where the cancel wins, the file of the run is not there; where the completion does, file and Artifact are."""
    seen: set[str] = set()
    delay = 0.12
    for _ in range(50):
        one = talk(room)
        turn = one.say("mkdir outputs; echo x > outputs/x; sleep 0.1")
        time.sleep(max(0, delay))
        one.send(CANCEL)
        status = one.need_over(turn, 5)["status"]
        seen.add(status)
        # Ever on the border: how late it lies is the machine's.
        delay += 0.004 if status == "cancelled" else -0.003
        one.need_idle()
        assert len(one.turns()) == 1
        expected = ["/workspace/outputs/x"] if status == "completed" else []
        assert [row["path"] for row in one.artifacts()] == expected
        assert ("outputs/x" in one.files()) == (status == "completed"), status
        one.verify()
    assert seen == {"completed", "cancelled"}


def test_a_cancelled_turn_keeps_nothing_of_a_run_that_had_just_ended(tmp_path: Path) -> None:
    """The cancel is admitted between the program's end and the Turn's."""
    with staged(tmp_path) as stage:
        one = talk(stage.room)

        def act(act: Act) -> None:
            act.desk.write("outputs/a", "a")
            one.send(CANCEL)
            act.stopped.clear()

        stage.executor.acts["go"] = act
        turn = one.say("go")
        assert one.need_over(turn)["status"] == "cancelled"
        until(lambda: not stage.executor.running)
        one.need_idle()
        assert one.files() == {}
        assert one.artifacts() == []
        one.verify()


def test_a_cancel_of_the_second_run_keeps_the_first(tmp_path: Path) -> None:
    """What the first input of a Turn left stays; the run that is cancelled leaves nothing."""
    with staged(tmp_path) as stage:
        one = talk(stage.room)
        begun = threading.Event()

        def first(act: Act) -> None:
            act.desk.write("first", "1")
            one.send(message("second"))

        def second(act: Act) -> None:
            act.desk.write("second", "2")
            begun.set()
            act.wait()

        stage.executor.acts.update(first=first, second=second)
        turn = one.say("first")
        assert begun.wait(10)
        one.send(CANCEL)
        assert one.need_over(turn, 3)["status"] == "cancelled"
        assert set(one.files()) == {"first"}
        one.verify()


def test_a_cancel_just_before_the_executor_knows_the_run_stops_it_all_the_same(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel comes after the last look at it and before the executor has the run."""
    mark = f"torture-{secrets.token_hex(6)}"
    one = talk(room)
    real_run = room.executor.run
    turns: list[str] = []

    def late(request: object, output: object = None) -> object:
        until(lambda: turns)
        one.send(CANCEL)
        time.sleep(0.1)
        return real_run(request, output)  # type: ignore[arg-type]

    monkeypatch.setattr(room.executor, "run", late)
    turns.append(one.say(f"exec -a {mark} sleep 300"))
    row = one.need_over(turns[0], 5)
    assert row["status"] == "cancelled"
    until(lambda: not processes(mark), 3, "the program lives on")
    time.sleep(0.3)
    assert not processes(mark)
    monkeypatch.undo()
    assert one.run("echo on")["status"] == "completed"
    one.verify()


def test_a_queued_turn_is_cancelled_and_never_runs(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        one = talk(stage.room)
        places = [f"busy {number}" for number in range(stage.room.limits.project_runs)]
        for _ in places:
            stage.room.runs.take("one")
        turn = one.say("never")
        one.send(CANCEL)
        assert one.need_over(turn, 2)["status"] == "cancelled"
        next_turn = one.say("next")
        for _ in places:
            stage.room.runs.leave("one")
        assert one.need_over(next_turn)["status"] == "completed"
        assert [request.code for request in stage.executor.requests] == ["next"]
        one.verify()


def test_cancels_while_the_environment_is_prepared_do_not_fail_it(tmp_path: Path) -> None:
    """A cancel ends the Turn that waits; the Environment's preparation is not the Turn's, and goes on."""
    with staged(tmp_path) as stage:
        begun, go = threading.Semaphore(0), threading.Event()

        def setup(act: Act) -> None:
            begun.release()
            go.wait(20)
            act.desk.write("made", "x")

        stage.executor.acts["setup"] = setup
        one = talk(
            stage.room,
            environment={"type": "openai_hosted", "setup_commands": [{"command": "setup"}]},
        )
        assert begun.acquire(timeout=10)
        for number in range(4):
            turn = one.say(f"never {number}")
            one.send(CANCEL)
            assert one.need_over(turn, 3)["status"] == "cancelled"
        go.set()
        turn = one.say("next")
        assert one.need_over(turn)["status"] == "completed"
        assert [request.code for request in stage.executor.requests] == ["setup", "next"]
        assert set(one.files()) == {"made"}
        one.verify()


def test_a_forced_cancel_fences_the_holder_out_and_stops_its_program(tmp_path: Path) -> None:
    """The program does not die: the Turn is cancelled all the same, and what comes late is nothing."""
    with staged(tmp_path) as stage:
        one = talk(stage.room)
        late = threading.Event()

        def deaf(act: Act) -> None:
            act.desk.write("outputs/late", "x")
            act.print("begun\n")
            late.wait(20)
            act.stopped.clear()

        stage.executor.acts["deaf"] = deaf
        turn = one.say("deaf")
        until(lambda: any("delta" in frame for frame in one.log()))
        begun = time.monotonic()
        one.send(CANCEL)
        assert one.need_over(turn, 5)["status"] == "cancelled"
        assert time.monotonic() - begun < 2.2
        assert one.run("next")["status"] == "completed"
        late.set()
        until(lambda: not stage.executor.running)
        time.sleep(0.1)
        assert one.files() == {}
        assert one.artifacts() == []
        one.verify()
