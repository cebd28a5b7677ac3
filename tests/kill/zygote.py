"""Forks services that kill themselves at a labelled step: `python -m tests.kill.zygote`, one line of JSON a command.

The process imports the service once and forks it for each command, so that hundreds of services start in seconds.
A child serves the real application on the real local store over a real socket; only the executor is scripted. It
counts the labelled steps since it was armed and ends itself by SIGKILL at the asked one. Nothing here writes state.

    in   {"data": folder, "kill": n or null}     start a service; n counts steps from arming
    out  {"pid": …, "port": …}
    child's control pipe: a line "arm" starts to count, and is answered with "armed"; "steps" answers the labels.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

import shared.operations.all  # noqa: F401
from functions.api.app import create_app
from functions.room import deployment_secret, development_key
from shared.domain.session import Owner
from shared.limits import Limits
from shared.operations.grants import SelfGrants
from shared.operations.room import Room
from shared.settings import Settings
from shared.store.local import open_local
from tests.kill.scripted import ScriptedExecutor

LIMITS = Limits(small_file_bytes=2_000, inline_item_bytes=4_096, packs=3, lease_ms=60_000, lock_wait_ms=5_000)
"""Small numbers: large objects, manifests in objects and compaction all happen within a few calls."""


class Steps:
    """Counts labelled steps once armed and kills this process at the n-th."""

    def __init__(self, kill: int | None) -> None:
        self._kill = kill
        self._lock = threading.Lock()
        self._armed = False
        self.labels: list[str] = []

    def arm(self) -> None:
        """Begin to count."""
        with self._lock:
            self._armed = True

    def reached(self, label: str) -> None:
        """A step is reached."""
        with self._lock:
            if not self._armed:
                return
            self.labels.append(label)
            if len(self.labels) == self._kill:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, label: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call with a step before and one after it."""

        def stepped(*args: Any, **kwargs: Any) -> Any:
            self.reached(f"before {label}")
            result = call(*args, **kwargs)
            self.reached(f"after {label}")
            return result

        return stepped


class Stepped:
    """Any port with steps around the named calls."""

    def __init__(self, port: Any, steps: Steps, prefix: str, names: tuple[str, ...]) -> None:
        self._port = port
        for name in names:
            setattr(self, name, steps.around(f"{prefix}.{name}", getattr(port, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def serve(data: Path, kill: int | None, sock: socket.socket, control: int, answers: int) -> None:
    """Be the service until killed."""
    steps = Steps(kill)
    for name in ("link", "fsync", "unlink"):
        setattr(os, name, steps.around(f"os.{name}", getattr(os, name)))
    store = open_local(data)
    secret = deployment_secret(store.state)
    state: Any = Stepped(store.state, steps, "state", ("transact",))
    objects: Any = Stepped(store.objects, steps, "objects", ("put_new", "stage"))
    executor: Any = Stepped(ScriptedExecutor(store.objects), steps, "executor", ("run",))
    settings = Settings(data=data, dev_key=True)
    room = Room(
        state=state,
        objects=objects,
        executor=executor,
        uploads=SelfGrants(secret),
        secret=secret,
        owner=Owner("serve", os.urandom(8).hex()),
        limits=LIMITS,
        dev_key=True,
    )
    development_key(settings, room)
    threading.Thread(target=_control, args=(steps, control, answers), daemon=True).start()
    config = uvicorn.Config(create_app(room, settings), log_level="critical", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[sock])


def _control(steps: Steps, control: int, answers: int) -> None:
    with os.fdopen(control) as lines:
        for line in lines:
            if line.strip() == "arm":
                steps.arm()
                os.write(answers, b"armed\n")
            elif line.strip() == "steps":
                os.write(answers, (json.dumps(steps.labels) + "\n").encode())


def main() -> None:
    """Fork a service per line of standard input. The control pipe of each is a pair of named pipes in its command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        command = json.loads(line)
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sock.listen(64)
        port = sock.getsockname()[1]
        child = os.fork()
        if child == 0:
            control = os.open(command["control"], os.O_RDONLY)
            answers = os.open(command["answers"], os.O_WRONLY)
            try:
                serve(Path(command["data"]), command["kill"], sock, control, answers)
            finally:
                os._exit(1)
        sock.close()
        print(json.dumps({"pid": child, "port": port}), flush=True)


if __name__ == "__main__":
    main()
