"""Forks processes that kill themselves at a labelled step of one operation: `python -m tests.agents_writes.zygote`.

One line of JSON a command, one an answer. A child opens the real local store, with steps around its transactions, its
object store and the system calls that make bytes durable. Nothing here writes state but the operation.

    in   {"data": folder, "kill": n or null, "operation": name, "input": {…}}
    out  {"killed": whether it died by SIGKILL, "labels": the steps that were reached, [], where it was}
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import shared.operations.all  # noqa: F401
from shared.domain.session import Owner
from shared.errors import Failure
from shared.identity import Caller
from shared.operations.base import Call, operations
from shared.operations.grants import SelfGrants
from shared.operations.room import Room
from shared.store.local import open_local
from tests.agents_writes.desk import PROJECT
from tests.fakes import SECRET, Clock
from tests.kill.zygote import Stepped, Steps


class Zygote:
    """The process that forks. A context manager: leaving it ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.agents_writes.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def run(self, data: Path, kill: int | None, operation: str, given: dict[str, Any]) -> tuple[bool, list[str]]:
        """Run an operation on a data folder: whether it was killed at the `kill`-th step, else the steps."""
        command = {"data": str(data), "kill": kill, "operation": operation, "input": given}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
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


def _child(command: dict[str, Any], out: int) -> None:
    steps = Steps(command["kill"])
    for name in ("link", "fsync", "unlink"):
        setattr(os, name, steps.around(f"os.{name}", getattr(os, name)))
    store = open_local(Path(command["data"]))
    state: Any = Stepped(store.state, steps, "state", ("transact",))
    objects: Any = Stepped(store.objects, steps, "objects", ("put_new", "stage", "read"))
    executor: Any = None
    room = Room(
        state=state,
        objects=objects,
        executor=executor,
        uploads=SelfGrants(SECRET),
        secret=SECRET,
        owner=Owner("serve", os.urandom(8).hex()),
        clock=Clock(),
    )
    steps.arm()
    try:
        operations()[command["operation"]].call_with(room, Call(Caller(PROJECT, "key")), command["input"])
    except Failure:
        steps.labels.append("refused")
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
