"""A hundred Sessions with a Turn of a real program each at once: all complete, memory and threads stay bounded."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

from shared.operations.agents.artifacts import open_artifact
from tests.torture.place import PROJECT, processes, real, talk

MANY = 100


def resident_mib() -> int:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def test_a_hundred_real_programs_at_once() -> None:
    with real() as room:
        warm = talk(room)
        assert warm.run("true")["status"] == "completed"
        before, threads_before = resident_mib(), threading.active_count()
        talks = [talk(room) for _ in range(MANY)]
        code = "mkdir outputs; head -c 300000 /dev/zero | tr '\\0' {}; echo {} > outputs/f"
        senders = [threading.Thread(target=one.say, args=(code.format(n % 10, n),)) for n, one in enumerate(talks)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(60)
        most = 0
        for one in talks:
            one.need_idle(100)
            most = max(most, threading.active_count())
        for number, one in enumerate(talks):
            (turn,) = one.turns()
            assert turn["status"] == "completed"
            assert one.output(turn["id"]) == str(number % 10) * 300_000
            (row,) = one.artifacts()
            opened = open_artifact(room, PROJECT, one.session, row["id"])
            assert b"".join(room.objects.read(opened.blob, opened.offset, opened.size)) == f"{number}\n".encode()
            one.verify()
        assert most <= threads_before + 2 * MANY + 10
        assert resident_mib() - before < 300
        assert not [thread for thread in threading.enumerate() if thread.name in ("live", "cancelling")]


def test_a_crowd_that_is_cancelled_at_once() -> None:
    """Forty running and waiting Turns cancelled together: none lives, none commits, each Session goes on."""
    with real() as room:
        talks = [talk(room) for _ in range(40)]
        turns = [one.say("echo x > f; exec sleep 3141592") for one in talks]
        senders = [threading.Thread(target=one.send, args=({"type": "agent.session.input.cancel"},)) for one in talks]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(30)
        for one, turn in zip(talks, turns, strict=True):
            assert one.need_over(turn, 10)["status"] == "cancelled"
        for one in talks:
            one.need_idle(10)
            assert one.files() == {}
        assert processes("sleep 3141592") == []
        for one in talks[:5]:
            assert one.run("echo on")["status"] == "completed"
            one.verify()
