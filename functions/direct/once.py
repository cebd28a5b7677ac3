"""One effect for a key, also of the operations that know no key themselves.

`exec.run` and `exec.start` finish the record of a key in the transaction that commits the run, `sessions.create` and
`events.create` in the one that makes the Session or admits the input. The others here finish it right after their own:
of a call that was cut between the two, a repeat does the same again with the same input, and a file that is written or
deleted twice is as after the first time. Reading needs no key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from shared.operations import records
from shared.operations.base import Call
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

OWN = frozenset(("exec.run", "exec.start", "sessions.create", "events.create"))
"""They take the key themselves."""
KEYED = frozenset(
    (
        "agents.create",
        "agents.delete",
        "agents.update",
        "artifacts.delete",
        "environments.create_file",
        "files.write",
        "files.delete",
        "sessions.delete",
        "sessions.update",
        "sources.begin_upload",
        "sources.cancel_upload",
        "sources.complete_upload",
        "sources.delete",
        "uploads.create",
        "uploads.complete",
    )
)
"""They are done once for a key by this module."""
REPEATABLE = frozenset(
    (
        "agents.get",
        "agents.list",
        "artifacts.get",
        "artifacts.list",
        "environments.get",
        "environments.list_files",
        "exec.programmatic",
        "exec.programmatic_cancel",
        "files.list",
        "files.read",
        "files.stat",
        "health.get",
        "items.list",
        "runs.get",
        "sessions.get",
        "sessions.list",
        "sources.get",
        "sources.list",
        "subagents.list",
        "turns.get",
        "turns.items",
        "turns.list",
    )
)
"""They change nothing: a key is as good as none."""


def once(room: Room, call: Call, key: str, asked: dict[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of `work`, done once for this key of the caller's project, or the answer that was stored.

    Errors: 409 while another has it in hand; 422 when the key was used for anything but `asked`; those of `work`,
    after which the key is free again.
    """
    begun = records.begin(room, call.project, key, asked)
    if isinstance(begun, records.Stored):
        return begun.result
    with records.in_hand(room, begun):
        try:
            answer = work()
            room.state.transact([records.finished(room, begun, answer)])
        except BaseException:
            with contextlib.suppress(StoreUnavailable):
                records.drop(room, begun)
            raise
    return answer
