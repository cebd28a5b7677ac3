"""Turns that wait for functions, with results, cancels, messages and restarts racing (agents.md 5.2, 11.37)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.operations.agents.engine import Done, EngineTable, FunctionCall, Outcome, Said, Turn, Waits
from shared.operations.agents.program import PROGRAMS
from shared.operations.room import Room
from tests.fakes import Clock
from tests.torture.place import CANCEL, Stage, Talk, message, staged, talk, until


class Asking:
    """Runs each text as a program, then calls two functions once; with the results it says them and is done."""

    at_once = False

    def run(self, turn: Turn) -> Outcome:
        """See Engine.run."""
        results = turn.results()
        texts = [part["text"] for messages in turn.input() for message in messages for part in message["content"]]
        for text in texts:
            turn.program("bash", text, Said(command=text))
        if results:
            turn.message(",".join(f"{row.output}" for row in results))
            return Done()
        turn.reasoning(["because", ""])
        return Waits([FunctionCall("f", {"a": 1}), FunctionCall("g", "x")])


def asking(room: Room) -> Room:
    table = EngineTable({**PROGRAMS.by_prefix, "asking": Asking()}, (*PROGRAMS.models, "asking"))
    return replace(room, engines=table)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as made:
        made.room = asking(made.room)
        yield made


def result(call: dict[str, Any], output: str) -> dict[str, Any]:
    return {
        "type": "agent.session.input.tool_result",
        "turn_id": call["turn_id"],
        "call_id": call["call_id"],
        "success": True,
        "output": output,
    }


def calls(one: Talk) -> list[dict[str, Any]]:
    until(lambda: one.do("sessions.get")["status"] == "requires_action")
    actions: list[dict[str, Any]] = one.do("sessions.get")["required_actions"]
    return actions


def test_results_resume_the_turn_whatever_their_order(stage: Stage) -> None:
    one = talk(stage.room, "asking")
    turn = one.say("go")
    first, second = calls(one)
    one.verify(over=False)
    one.send(result(second, "2"))
    one.send(result(second, "2"))
    with pytest.raises(Refusal):
        one.send(result(second, "other"))
    one.send(result(first, "1"))
    assert one.need_over(turn)["status"] == "completed"
    assert one.output(turn) == "1,2"
    one.verify()


def test_a_message_while_it_waits_is_taken_up_with_the_results(stage: Stage) -> None:
    one = talk(stage.room, "asking")
    turn = one.say("go")
    found = calls(one)
    one.send(message("more"))
    one.send(*(result(call, "r") for call in found))
    assert one.need_over(turn)["status"] == "completed"
    assert [request.code for request in stage.executor.requests] == ["go", "more"]
    assert len(one.turns()) == 1
    one.verify()


def test_a_cancel_races_with_the_results(stage: Stage) -> None:
    seen: set[str] = set()
    for number in range(40):
        one = talk(stage.room, "asking")
        turn = one.say("go")
        found = calls(one)

        def answer(one: Talk = one, found: list[dict[str, Any]] = found, number: int = number) -> None:
            time.sleep((number % 2) * 0.002)
            with suppress(Refusal):
                one.send(*(result(call, "r") for call in found))

        thread = threading.Thread(target=answer)
        thread.start()
        time.sleep((number % 8) * 0.002)
        one.send(CANCEL)
        thread.join(20)
        seen.add(one.need_over(turn, 5)["status"])
        one.need_idle()
        assert len(one.turns()) == 1
        one.verify()
        assert one.found.head.calls == ()
    assert "cancelled" in seen


def test_a_cancel_while_it_waits_keeps_what_its_programs_left_and_the_next_turn_runs(stage: Stage) -> None:
    stage.executor.acts["go"] = lambda act: act.desk.write("a", "x")
    one = talk(stage.room, "asking")
    turn = one.say("go")
    calls(one)
    assert set(one.files()) == {"a"}
    one.send(CANCEL, message("next"))
    assert one.turn(turn)["status"] == "cancelled"
    until(lambda: len(one.turns()) == 2 and one.do("sessions.get")["required_actions"])
    one.send(CANCEL)
    one.need_idle()
    one.verify()


def test_11_37_it_waits_only_so_long(tmp_path: Path) -> None:
    clock = Clock()
    with staged(tmp_path, clock, waiting_ms=10_000) as stage:
        stage.room = asking(stage.room)
        one = talk(stage.room, "asking")
        turn = one.say("go")
        found = calls(one)
        one.send(result(found[0], "r"))
        clock.forward(9_999)
        assert one.turn(turn)["status"] == "waiting"
        clock.forward(1)
        row = one.turn(turn)
        assert (row["status"], row["error"]["code"]) == ("failed", "request_timeout")
        with pytest.raises(Refusal):
            one.send(result(found[1], "late"))
        one.verify()
        clock.forward(stage.room.limits.environment_ms)
        assert one.do("sessions.get")["status"] == "idle"
        one.verify()
