"""A process that forks a child for each command, and tells whether it killed itself.

One line of JSON a command, with `data` (a folder) and `kill` (the step at which to die, or null); one an answer:
{"killed": whether it died by SIGKILL, "labels": the steps that were reached, [] where it was}. The module that is
started imports the service once, so that hundreds of children begin in seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kill.zygote import Steps


class Zygote:
    """The process that forks: `python -m module`, which calls `fork_each`. `close` ends it."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def run(self, data: Path, kill: int | None, **command: Any) -> tuple[bool, list[str]]:
        """Have a command done on a data folder: whether it was killed at the `kill`-th step, else the steps."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"data": str(data), "kill": kill, **command}) + "\n")
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


def steps_of(command: dict[str, Any], *calls: str) -> Steps:
    """The steps of a child, not armed yet, with one before and one behind each of these calls of `os`."""
    steps = Steps(command["kill"])
    for name in calls:
        setattr(os, name, steps.around(f"os.{name}", getattr(os, name)))
    return steps


def fork_each(child: Callable[[dict[str, Any]], Steps]) -> None:
    """Fork a child per line of standard input, and wait for it. It gives the steps that it has reached."""
    for line in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(write, json.dumps(child(json.loads(line)).labels).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as said:
            text = said.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": killed, "labels": json.loads(text or "[]")}), flush=True)
