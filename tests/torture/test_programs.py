"""Turns that run real programs: every language, every way to end, what they print, and input that steers."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from shared.agents_errors import Refusal
from shared.operations.room import Room
from tests.torture.place import CANCEL, Reader, Talk, message, real, talk

HELLO = {
    "py": "print('hi')",
    "js": "console.log('hi')",
    "ts": "const a: string = 'hi'; console.log(a)",
    "bash": "echo hi",
    "c": '#include <stdio.h>\nint main(void){puts("hi");}',
    "cpp": '#include <iostream>\nint main(){std::cout<<"hi\\n";}',
    "java": 'public class Main { public static void main(String[] a) { System.out.println("hi"); } }',
    "go": 'package main\nimport "fmt"\nfunc main() { fmt.Println("hi") }',
    "rs": 'fn main() { println!("hi"); }',
    "php": '<?php echo "hi\\n";',
    "r": 'cat("hi\\n")',
    "d": 'import std.stdio; void main() { writeln("hi"); }',
    "f90": 'program a\nwrite(*,"(A)") "hi"\nend program',
}


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with real(turn_run_ms=60_000) as made:
        yield made


@pytest.mark.parametrize("lang", sorted(HELLO))
def test_each_language_speaks(room: Room, lang: str) -> None:
    one = talk(room, f"program:{lang}")
    turn = one.run(HELLO[lang])
    assert (turn["status"], turn["error"]) == ("completed", None)
    assert one.output(turn["id"]) == "hi\n"
    assert (one.command(turn["id"])["exit_code"], one.command(turn["id"])["status"]) == (0, "completed")
    one.verify()


@pytest.mark.parametrize(
    ("model", "code", "exit_code", "said"),
    [
        ("bash", "echo out; echo err >&2; exit 3", 3, "out\n"),
        ("bash", "echo before; kill -SEGV $$", None, "before\n"),
        ("bash", "exec kill -9 $$", None, ""),
        ("c", "int main( {", 1, ""),
        ("py", "raise SystemExit(255)", 255, ""),
        ("py", "import os; os.abort()", None, ""),
    ],
)
def test_11_32_a_program_that_fails_is_a_failed_item_of_a_completed_turn(
    room: Room, model: str, code: str, exit_code: int | None, said: str
) -> None:
    one = talk(room, f"program:{model}")
    turn = one.run(code)
    command = one.command(turn["id"])
    assert (turn["status"], turn["error"], command["status"]) == ("completed", None, "failed")
    if exit_code is not None:
        assert command["exit_code"] == exit_code
    assert one.output(turn["id"]) == said
    one.verify()
    assert one.run("echo again" if model == "bash" else HELLO[model])["status"] == "completed"


def test_11_32_a_program_over_its_time_is_a_failed_item_of_a_completed_turn() -> None:
    with real(turn_run_ms=1_500) as room:
        one = talk(room)
        turn = one.run("echo begun; sleep 60")
        assert (turn["status"], one.command(turn["id"])["status"]) == ("completed", "failed")
        assert one.output(turn["id"]) == "begun\n"
        one.verify()
        assert one.output(one.run("echo next")["id"]) == "next\n"


def test_no_output_and_only_stderr(room: Room) -> None:
    one = talk(room)
    quiet = one.run("true")
    assert (one.output(quiet["id"]), one.command(quiet["id"])["output"]) == ("", "")
    loud = one.run("echo oh >&2")
    assert (one.output(loud["id"]), one.command(loud["id"])["output"]) == ("", "oh\n")
    one.verify()


@pytest.mark.parametrize("kib", [31, 32, 33, 700, 2_048])
def test_11_27_large_output_is_cut_in_the_command_and_kept_by_pointer_in_the_message(room: Room, kib: int) -> None:
    one = talk(room)
    code = f"echo HEAD; head -c {kib * 1024} /dev/zero | tr '\\0' x; echo; echo TAIL"
    turn = one.run(code)
    assert turn["status"] == "completed"
    command = one.command(turn["id"])
    assert command["status"] == "completed"
    assert command["output"].startswith("HEAD\n")
    assert command["output"].endswith("TAIL\n")
    assert len(command["output"].encode()) <= 32 * 1024
    text = one.output(turn["id"])
    assert text.startswith("HEAD\n")
    if kib < 1_000:
        assert len(text) == kib * 1024 + 11
    one.verify()


def test_binary_output(room: Room) -> None:
    one = talk(room, "program:py")
    turn = one.run("import os,sys; sys.stdout.buffer.write(bytes(range(256)) * 400)")
    assert turn["status"] == "completed"
    assert "\x00\x01" in one.output(turn["id"])
    one.verify()
    slowly = "sys.stdout.buffer.write(bytes([b])); sys.stdout.flush(); time.sleep(.2)"
    turn = one.run(f"import sys,time\nfor b in '🤣é'.encode(): {slowly}")
    assert one.output(turn["id"]) == "🤣é"
    one.verify()


def test_a_line_a_second_is_told_as_it_comes(room: Room) -> None:
    one = talk(room)
    one.run("true")
    reader = Reader(one)
    turn = one.run("for i in 1 2 3 4 5; do echo line $i; sleep 1; done")
    time.sleep(0.3)
    reader.close()
    for kind in ("agent.session.turn.output_text.delta", "agent.output.command_execution_output.delta"):
        times = [at for at, frame in reader.frames if frame["type"] == kind]
        apart = [after - before for before, after in itertools.pairwise(times)]
        assert len(times) >= 4
        assert sum(gap >= 0.5 for gap in apart) >= 4 - 1, apart
    assert one.output(turn["id"]) == "".join(f"line {i}\n" for i in range(1, 6))
    one.verify()


@pytest.mark.parametrize("burst", ["x", "\0", "报", "🤣"])
def test_what_follows_a_burst_is_told_as_it_comes(room: Room, burst: str) -> None:
    """A burst is more than one record holds; the lines behind it do not wait for the program's end."""
    one = talk(room, "program:py")
    one.run("pass")
    reader = Reader(one)
    count = 100_000 // len(burst.encode())
    lines = "for n in range(6): print('line', n, flush=True); time.sleep(1)"
    turn = one.run(f"import time\nprint({burst!r} * {count}, flush=True)\n{lines}")
    time.sleep(0.3)
    reader.close()
    for kind in ("agent.session.turn.output_text.delta", "agent.output.command_execution_output.delta"):
        said = [at for at, frame in reader.frames if frame["type"] == kind and "line" in frame["delta"]]
        apart = [after - before for before, after in itertools.pairwise(said)]
        assert sum(gap >= 0.4 for gap in apart) >= 2, (len(said), apart)
    assert one.output(turn["id"]) == burst * count + "\n" + "".join(f"line {n}\n" for n in range(6))
    one.verify()


def test_11_32_input_during_a_turn_runs_next_in_the_same_turn(room: Room) -> None:
    one = talk(room)
    turn = one.say("echo first > a; sleep 1; echo first")
    time.sleep(0.3)
    assert one.say("cat a; echo second") == turn
    with pytest.raises(Refusal):
        one.say("echo third")
    assert one.need_over(turn)["status"] == "completed"
    assert len(one.turns()) == 1
    kinds = [(item["type"], item.get("role")) for item in one.items(turn)]
    user, command, said = ("message", "user"), ("command_execution", None), ("message", "assistant")
    assert kinds == [user, command, said, user, command, said]
    assert one.output(turn) == "first\nsecond\n"
    one.verify()


def test_two_hundred_messages_in_one_batch(room: Room) -> None:
    one = talk(room)
    turn = one.run(*[f"echo {number}" for number in range(200)])
    assert one.output(turn["id"]) == "".join(f"{number}\n" for number in range(200))
    assert len(one.items()) == 202
    one.verify()


def test_input_of_half_a_mebibyte(room: Room) -> None:
    one = talk(room)
    turn = one.run("echo big", "#" + "x" * 500_000, "echo end")
    assert one.output(turn["id"]) == "big\nend\n"
    one.verify()
    one.run("sleep 0.2", *["#" + "y" * 5_000] * 100, "echo many")
    one.verify()


def _said(one: Talk) -> list[str]:
    return ["".join(part["text"] for part in item["content"]) for item in one.items() if item.get("role") == "user"]


def test_input_at_the_very_end_is_never_lost(room: Room) -> None:
    """Steering that races with the Turn's end: it steers, or begins the next Turn, and it runs once."""
    steered = 0
    for number in range(60):
        one = talk(room)
        reader = Reader(one)
        turn = one.say("echo a")
        kinds = ("item.done", "content_part.added", "item.added", "in_progress", "completed")
        wanted = "agent.session.turn." + kinds[number % 5]
        ends = time.monotonic() + 20
        while not any(frame["type"] == wanted for _, frame in reader.frames):
            assert time.monotonic() < ends
            time.sleep(0.0005)
        time.sleep((number // 5) * 0.001)
        one.say(f"echo b{number}")
        reader.close()
        one.need_idle()
        assert _said(one) == ["echo a", f"echo b{number}"]
        last = one.turns()[-1]
        assert last["status"] == "completed"
        assert one.output(last["id"]) == f"b{number}\n"
        steered += last["id"] == turn
        one.verify()
    assert 0 < steered <= 60


def test_a_message_behind_a_cancel_in_one_batch_begins_the_next_turn(room: Room) -> None:
    one = talk(room)
    turn = one.say("sleep 60")
    time.sleep(0.4)
    one.send(message("echo dropped"), CANCEL, message("echo kept"))
    assert one.need_over(turn, 3)["status"] == "cancelled"
    one.need_idle()
    first, second = one.turns()
    assert (first["id"], second["status"]) == (turn, "completed")
    assert one.output(second["id"]) == "kept\n"
    assert "echo dropped" not in _said(one)
    one.verify()


def test_a_message_behind_a_cancel_is_never_lost_whenever_the_program_ends(room: Room) -> None:
    """[cancel, message] that races with the end of the program: the message runs once, in a Turn that completes."""
    outcomes: dict[str, int] = {}
    for number in range(60):
        one = talk(room)
        turn = one.say(f"sleep 0.{number % 3 + 1}")
        time.sleep((number % 3) * 0.1 + 0.05 + number * 0.0015)
        one.send(CANCEL, message(f"echo b{number}"))
        one.need_idle()
        rows = one.turns()
        assert _said(one).count(f"echo b{number}") == 1, [row["status"] for row in rows]
        assert rows[-1]["status"] == "completed"
        assert rows[-1]["id"] != turn
        assert one.output(rows[-1]["id"]) == f"b{number}\n"
        outcomes[rows[0]["status"]] = outcomes.get(rows[0]["status"], 0) + 1
        one.verify()
    assert outcomes.get("cancelled")


def test_two_senders_steer_at_once_and_nothing_admitted_is_lost(room: Room) -> None:
    one = talk(room)
    admitted: list[str] = []
    lock = threading.Lock()

    def sender(name: str) -> None:
        for number in range(15):
            text = f"echo {name}{number}"
            ends = time.monotonic() + 30
            while time.monotonic() < ends:
                try:
                    one.send(message(text))
                except Refusal:
                    time.sleep(0.01)
                    continue
                with lock:
                    admitted.append(text)
                break

    threads = [threading.Thread(target=sender, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    one.need_idle()
    assert sorted(_said(one)) == sorted(admitted)
    assert len(admitted) == 30
    ran = "".join(
        "".join(part["text"] for part in item["content"]) for item in one.items() if item.get("role") == "assistant"
    )
    assert sorted(ran.split()) == sorted(text.split()[1] for text in admitted)
    one.verify()
