"""Forks processes that send one message, run its Turn, and kill themselves at a labelled step.

`python -m tests.torture.zygote`, for `tests.kill.forking.Zygote`; a command has `session`, the id. A child opens the
real local store, with steps around its transactions, its object store, its executor, and inside the program. Nothing
here writes state but the operations.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from shared.store.local import open_local
from tests.kill.forking import fork_each, steps_of
from tests.kill.zygote import Stepped, Steps
from tests.torture.place import Act, Scripted, Talk, make, message, small


def leave(act: Act, prefix: str = "") -> None:
    """What the program of a killed process does: files that want objects of their own, and output."""
    act.print(f"{prefix}one\n")
    for number in range(40):
        act.desk.write(f"outputs/{number:02}", f"{prefix}{number}" * 30)
    act.desk.write("outputs/large", f"{prefix}large" * 1_000)
    act.desk.write("kept", prefix)


def _child(command: dict[str, Any]) -> Steps:
    steps = steps_of(command, "link", "fsync")
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
    return steps


if __name__ == "__main__":
    fork_each(_child)
