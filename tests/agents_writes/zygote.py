"""Forks processes that kill themselves at a labelled step of one operation: `python -m tests.agents_writes.zygote`.

For `tests.kill.forking.Zygote`; a command has `operation` and its `input`. A child opens the real local store, with
steps around its transactions, its object store and the system calls that make bytes durable. Nothing here writes state
but the operation.
"""

from __future__ import annotations

import os
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
from tests.kill.forking import fork_each, steps_of
from tests.kill.zygote import Stepped, Steps


def _child(command: dict[str, Any]) -> Steps:
    steps = steps_of(command, "link", "fsync", "unlink")
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
    return steps


if __name__ == "__main__":
    fork_each(_child)
