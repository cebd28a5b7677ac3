"""Forks processes that send one message, run its Turn, and kill themselves at a labelled step.

`python -m tests.torture.zygote`: one line of JSON a command, one an answer. A child opens the real local store, with
steps around its transactions, its object store, its executor, and inside the program. Nothing here writes state but
the operations.

    in   {"data": folder, "kill": n or null, "session": id}
    out  {"killed": whether it died by SIGKILL, "labels": the steps that were reached, [] where it was}
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from shared.store.local import open_local
from tests.kill.zygote import Stepped, Steps
from tests.torture.place import Act, Scripted, Talk, make, message, small


class Zygote:
    """The process that forks. A context manager: leaving it ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def run(self, data: Path, kill: int | None, session: str) -> tuple[bool, list[str]]:
        """A Turn on a data folder: whether it was killed at the `kill`-th step, else the steps."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"data": str(data), "kill": kill, "session": session}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["killed"], answer["labels"]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def leave(act: Act, prefix: str = "") -> None:
    """What the program of a killed process does: files that want objects of their own, and output."""
    act.print(f"{prefix}one\n")
    for number in range(40):
        act.desk.write(f"outputs/{number:02}", f"{prefix}{number}" * 30)
    act.desk.write("outputs/large", f"{prefix}large" * 1_000)
    act.desk.write("kept", prefix)


def _child(command: dict[str, Any], out: int) -> None:
    steps = Steps(command["kill"])
    for name in ("link", "fsync"):
        setattr(os, name, steps.around(f"os.{name}", getattr(os, name)))
    store = open_local(Path(command["data"]))
    state: Any = Stepped(store.state, steps, "state", ("transact",))
    objects: Any = Stepped(store.objects, steps, "objects", ("put_new", "stage"))
    scripted = Scripted(store.objects)

    def act(act: Act) -> None:
        steps.reached("the program runs")
        leave(act, "new ")
        time.sleep(0.1)
        steps.reached("the program ends")

    scripted.acts["go"] = act
    executor: Any = Stepped(scripted, steps, "executor", ("run",))
    room = make(state, objects, executor, limits=small())
    steps.arm()
    Talk(room, command["session"]).send(message("go"))
    room.background.shutdown(wait=True)
    os.write(out, json.dumps(steps.labels).encode())


def main() -> None:
    """Fork a child per line of standard input, and wait for it."""
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _child(json.loads(line), write)
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as said:
            text = said.read()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": killed, "labels": json.loads(text or "[]")}), flush=True)


if __name__ == "__main__":
    main()
