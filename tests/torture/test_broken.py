"""What breaks beside a Turn: its executor, its engine, the service that is stopped, files that cannot be kept."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.executor.local import LocalExecutor
from shared.executor.port import ExecutorFailed
from shared.operations.agents.work import work
from shared.operations.room import Hands
from tests.torture.place import CANCEL, PROJECT, Act, message, processes, real, staged, talk, until


def ended(mark: str) -> None:
    """Wait until no process has the mark."""
    until(lambda: not processes(mark), 5, "a program outlives its executor")


def test_a_dead_executor_fails_the_turn_and_the_next_one_runs() -> None:
    with real() as room:
        executor = room.executor
        assert isinstance(executor, LocalExecutor)
        one = talk(room)
        assert one.run("mkdir outputs; echo kept > outputs/kept")["status"] == "completed"
        mark = f"torture-{secrets.token_hex(6)}"
        turn = one.say(f"echo half > outputs/half; echo word; exec -a {mark} sleep 300")
        until(lambda: processes(mark) and any("word\n" in frame.get("delta", "") for frame in one.log()), 15)
        assert executor.pid is not None
        os.kill(executor.pid, signal.SIGKILL)
        row = one.need_over(turn, 10)
        assert (row["status"], row["error"]["code"]) == ("failed", "sandbox_error")
        assert [item["status"] for item in one.items(turn)] == ["completed", "incomplete", "incomplete"]
        assert one.output(turn) == "word\n"
        ended(mark)
        after = one.run("ls outputs")
        assert one.output(after["id"]) == "kept\n"
        assert len(one.artifacts()) == 1
        one.verify()


def test_an_executor_that_dies_while_a_cancel_is_on_its_way() -> None:
    with real() as room:
        executor = room.executor
        assert isinstance(executor, LocalExecutor)
        for _ in range(5):
            one = talk(room)
            mark = f"torture-{secrets.token_hex(6)}"
            turn = one.say(f"exec -a {mark} sleep 300")
            until(partial(processes, mark), 15)
            assert executor.pid is not None
            os.kill(executor.pid, signal.SIGKILL)
            one.send(CANCEL)
            assert one.need_over(turn, 5)["status"] in ("cancelled", "failed")
            ended(mark)
            assert one.run("echo on", seconds=20)["status"] == "completed"
            one.verify()


@pytest.mark.parametrize(
    ("kind", "code"),
    [("unavailable", "sandbox_error"), ("broken", "sandbox_error"), ("throttled", "server_overloaded")],
)
def test_an_executor_that_refuses(tmp_path: Path, kind: Any, code: str) -> None:
    with staged(tmp_path) as stage:

        def act(act: Act) -> None:
            raise ExecutorFailed(kind, "no")

        stage.executor.acts["go"] = act
        one = talk(stage.room)
        row = one.run("go")
        assert (row["status"], row["error"]["code"]) == ("failed", code)
        assert one.run("next")["status"] == "completed"
        one.verify()


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda desk: desk.changed.append("outputs/x"), "artifact_capture_failed"),
        (lambda desk: desk.lost.append(("outputs/x", "why")), "artifact_capture_failed"),
        (lambda desk: desk.lost.append(("outputs", "why")), "artifact_capture_failed"),
        (lambda desk: desk.lost.append(("elsewhere", "why")), "sandbox_error"),
        (lambda desk: desk.lost.append(("outputs.txt", "why")), "sandbox_error"),
        (lambda desk: desk.make("outputs/dev", "other"), "artifact_capture_failed"),
        (lambda desk: desk.make("dev", "other"), None),
    ],
)
def test_11_31_what_could_not_be_kept(tmp_path: Path, spoil: Callable[[Any], None], code: str | None) -> None:
    with staged(tmp_path) as stage:

        def act(act: Act) -> None:
            act.desk.write("outputs/kept", "x")
            spoil(act.desk)

        stage.executor.acts["go"] = act
        one = talk(stage.room)
        row = one.run("go")
        assert (row["error"] or {}).get("code") == code
        assert len(one.artifacts()) == (0 if code else 1)
        assert ("outputs/kept" in one.files()) == (code != "sandbox_error")
        one.verify()
        # Sockets and devices last to the end of their Turn: the next one begins without them.
        second = one.run("next")
        assert (second["status"], second["error"]) == ("completed", None)
        one.verify()


def test_input_that_came_while_a_turn_failed_runs_in_the_next(tmp_path: Path) -> None:
    """Whether the failing capture or the message comes first, the message runs once."""
    with staged(tmp_path) as stage:
        for number in range(20):
            stage.executor.acts["spoil"] = lambda act: act.desk.make("outputs", "fifo")
            stage.executor.acts["mend"] = lambda act: act.desk.remove("outputs")
            one = talk(stage.room)
            one.send(message("spoil"))
            time.sleep(number * 0.001)
            if number % 5 == 4:
                one.send(CANCEL)
            ends = time.monotonic() + 10
            while time.monotonic() < ends:
                try:
                    one.send(message("mend"))
                except Refusal:
                    time.sleep(0.001)
                    continue
                break
            one.need_idle()
            said = [item["content"][0]["text"] for item in one.items() if item.get("role") == "user"]
            assert said.count("mend") == 1
            assert one.turns()[-1]["status"] == "completed"
            one.verify()


def test_a_service_that_stops_ends_its_turns_and_what_waits_runs_after_its_start(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        begun = threading.Event()

        def act(act: Act) -> None:
            begun.set()
            act.wait()

        stage.executor.acts["go"] = act
        one = talk(stage.room)
        turn = one.say("go")
        assert begun.wait(10)
        stage.room.hands.stop_all()
        row = one.need_over(turn, 5)
        assert (row["status"], row["error"]["code"]) == ("failed", "internal_error")
        waiting = one.say("next")
        assert one.turn(waiting)["status"] == "queued"
        one.room = replace(stage.room, hands=Hands())
        work(one.room, PROJECT, one.session)
        assert one.turn(waiting)["status"] == "completed"
        one.verify()
