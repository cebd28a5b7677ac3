"""An Environment's preparation under stress: lost transactions, lapsed leases, cancels, restarts (11.39)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from shared.domain.session import Owner
from shared.operations.room import Room
from shared.store.local import open_local
from tests.fakes import Clock
from tests.torture.place import CANCEL, Act, Scripted, Talk, make, message, real, staged, talk, until
from tests.torture.test_faults import Losing, patient


def prepared(room: Room, *commands: str) -> Talk:
    environment = {"type": "openai_hosted", "setup_commands": [{"command": command} for command in commands]}
    return talk(room, environment=environment)


def connected(one: Talk) -> list[str]:
    return [frame["type"] for frame in one.log() if "environment." in frame["type"]]


PENDING, CONNECTED, FAILED = (f"agent.session.environment.{status}" for status in ("pending", "connected", "failed"))


@pytest.mark.parametrize("kind", ["refused", "lost", "late", "away", "lost and away"])
def test_the_transaction_that_connects_is_lost(tmp_path: Path, kind: str) -> None:
    with staged(tmp_path, wrap=Losing) as stage:
        stage.executor.acts["setup"] = lambda act: act.desk.write("made", "x")
        stage.state.arm(1, kind)
        one = prepared(stage.room, "setup")
        ends = time.monotonic() + 20
        while patient(one, "sessions.get")["status"] != "idle" or one.found.head.environment.status != "connected":
            assert time.monotonic() < ends
            time.sleep(0.05)
        assert stage.state.count > 1
        stage.state.arm(-1, "")
        assert connected(one) == [PENDING, CONNECTED]
        assert set(one.files()) == {"made"}
        assert one.run("next")["status"] == "completed"
        assert [request.code for request in stage.executor.requests] == ["setup", "next"]
        one.verify()


def test_a_lease_that_lapses_under_a_living_preparation(tmp_path: Path) -> None:
    """A second attempt begins beside the first, which is fenced out; the Turn that waits runs at once."""
    clock = Clock()
    with staged(tmp_path, clock) as stage:
        begun: list[threading.Event] = [threading.Event(), threading.Event()]
        go: list[threading.Event] = [threading.Event(), threading.Event()]
        count = iter(range(2))

        def setup(act: Act) -> None:
            number = next(count)
            begun[number].set()
            go[number].wait(20)
            act.desk.write(f"made{number}", "x")

        stage.executor.acts["setup"] = setup
        one = prepared(stage.room, "setup")
        assert begun[0].wait(10)
        one.send(message("turn"))
        clock.forward(stage.room.limits.lease_ms + 1)
        one.do("sessions.get")
        assert begun[1].wait(10)
        go[0].set()
        until(lambda: len(stage.executor.running) == 1)
        time.sleep(0.1)
        go[1].set()
        until(lambda: [request.code for request in stage.executor.requests] == ["setup", "setup", "turn"], 5)
        one.need_idle()
        assert set(one.files()) == {"made1"}
        assert connected(one) == [PENDING, CONNECTED]
        one.verify()


def test_a_command_that_fails_fails_the_environment_its_turn_and_the_session() -> None:
    with real() as room:
        one = prepared(room, "echo a > a", "exit 3")
        until(lambda: one.do("sessions.get")["status"] == "failed", 20)
        assert connected(one) == [PENDING, FAILED]
        with pytest.raises(Exception, match="already_exists") as refused:
            one.say("more")
        assert refused.value.envelope()["error"]["message"] == "the hosted environment failed to provision"  # type: ignore[attr-defined]
        assert one.files() == {}
        two = prepared(room, "sleep 0.5; exit 1")
        turn = two.say("never")
        until(lambda: two.do("sessions.get")["status"] == "failed", 20)
        row = two.turn(turn)
        assert (row["status"], row["error"]["code"]) == ("failed", "sandbox_error")
        kinds = [frame["type"].removeprefix("agent.session.") for frame in two.log()]
        assert kinds[-6:] == [
            "turn.created",
            "environment.failed",
            "turn.in_progress",
            "turn.failed",
            "failed",
            "error",
        ]
        three = prepared(room, "mkdir -p outputs; echo x > outputs/x", "cat outputs/x > y; setsid sleep 100 & true")
        turn = three.say("cat y; pgrep -c sleep")
        assert three.need_over(turn)["status"] == "completed"
        assert three.output(turn) == "x\n0\n"
        assert len(three.artifacts()) == 1
        three.verify()


@pytest.mark.parametrize("restarts", [1, 2, 3])
def test_a_preparation_that_dies_with_its_process(tmp_path: Path, restarts: int) -> None:
    """Twice it may be tried; the third who sees it fails the Environment."""
    store = open_local(tmp_path / "data")
    go = threading.Event()
    session = ""
    codes: list[str] = []
    rooms: list[Room] = []
    for number in range(restarts + 1):
        executor: Any = Scripted(store.objects)
        begun = threading.Event()

        def setup(act: Act, begun: threading.Event = begun) -> None:
            codes.append("setup")
            begun.set()
            go.wait(20)

        if number < restarts:
            executor.acts["setup"] = setup
        room = make(store.state, store.objects, executor, owner=Owner("serve", f"{number}"))
        rooms.append(room)
        if not session:
            session = prepared(room, "setup").session
        one = Talk(room, session)
        if number:
            time.sleep(2.05)
            one.do("sessions.get")
        if number < min(restarts, 2):
            assert begun.wait(10)
    status = "connected" if restarts < 2 else "failed"
    until(lambda: one.found.head.environment.status == status, 10)
    go.set()
    time.sleep(0.2)
    assert connected(one) == [PENDING, f"agent.session.environment.{status}"]
    assert len(codes) == min(restarts, 2)
    for room in rooms:
        room.background.shutdown(wait=True)
    assert one.found.head.environment.status == status
    store.close()


def test_cancel_and_message_while_it_is_prepared(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        begun, go = threading.Event(), threading.Event()

        def setup(act: Act) -> None:
            begun.set()
            go.wait(20)

        stage.executor.acts["setup"] = setup
        one = prepared(stage.room, "setup")
        assert begun.wait(10)
        one.send(message("a"), CANCEL, message("b"))
        one.send(CANCEL)
        one.send(message("c"))
        assert [turn["status"] for turn in one.turns()] in (["queued"], ["cancelled", "queued"])
        go.set()
        one.need_idle()
        assert [request.code for request in stage.executor.requests] == ["setup", "c"]
        one.verify()
