"""One program on one version of a workspace: the executor, the judgement of its answer, the version that follows.

It decides nothing about sessions: no lock, no limit of a workspace, no commit. What it stores is named by no manifest
until its caller commits one; the janitor takes the rest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from shared.domain.ids import short_id
from shared.domain.manifest import Entry, Manifest
from shared.domain.merge import Merged, merge
from shared.errors import Code, Failure
from shared.executor import wire
from shared.executor.judge import BrokenAnswer, judge
from shared.executor.port import ExecutorFailed, Output
from shared.limits import Limits
from shared.operations import names, workspace
from shared.operations.base import Cancel
from shared.operations.budget import Budget
from shared.operations.room import Room
from shared.operations.workspace import Opened

# The log's channel of runs, whoever asks for one.
_LOG = logging.getLogger("workroom.run")
_FAILED = {
    "unavailable": Code.EXECUTOR_UNAVAILABLE,
    "throttled": Code.RATE_LIMITED,
    "broken": Code.EXECUTOR_BROKEN,
    "timeout": Code.EXECUTOR_TIMEOUT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is to be run. `wall_ms` is its time; `tenant` and `env` as in `wire.RunRequest`, `env` is in no repr."""

    lang: str
    code: str
    args: tuple[str, ...] = ()
    wall_ms: int
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Stepped:
    """What came of a program. `answer` is judged.

    `merged` is the whole next version, its bytes stored; `beyond` says whether it is within a workspace's limits.
    """

    answer: wire.RunAnswer
    merged: Merged


def step(
    room: Room,
    opened: Opened,
    base: Manifest,
    program: Program,
    cancel: Cancel,
    budget: Budget,
    output: Output | None = None,
) -> Stepped:
    """Run a program on `base` and make the version that it left. Whoever calls holds the lock of `opened`.

    `output` is told what the program prints while it runs, as in `Executor.run`.
    Errors: as `execute`; StoreUnavailable.
    """
    return keep(room, opened, base, execute(room, opened, base, program, cancel, budget, output))


def execute(
    room: Room,
    opened: Opened,
    base: Manifest,
    program: Program,
    cancel: Cancel,
    budget: Budget,
    output: Output | None = None,
) -> wire.RunAnswer:
    """The first half of `step`: run it once, never again, and judge the answer.

    Errors: Failure with 429, 499, 502, 503 or 504.
    """
    request = _request(room, opened, base, program)

    def stop() -> None:
        room.executor.cancel(request.run_id)

    cancel.bind(stop)
    if cancel.requested:
        raise Failure(Code.CANCELLED)
    try:
        with budget.enforced(stop):
            answer = room.executor.run(request, output)
        judge(answer, request, lambda key: info.size if (info := room.objects.head(key)) else None)
    except ExecutorFailed as error:
        # Its words may be a program's: only the kind is logged.
        _LOG.error("run %s: the executor failed: %s", request.run_id, error.kind)
        raise Failure(_FAILED[error.kind], retry_after=error.retry_after) from error
    except BrokenAnswer as error:
        _LOG.error("run %s: its answer was refused: %s", request.run_id, error)
        raise Failure(Code.EXECUTOR_BROKEN) from error
    if answer.reason == "stopped":
        late = Code.EXECUTOR_TIMEOUT if budget.over else Code.EXECUTOR_BROKEN
        raise Failure(Code.CANCELLED if cancel.requested else late)
    return answer


def keep(room: Room, opened: Opened, base: Manifest, answer: wire.RunAnswer) -> Stepped:
    """The second half of `step`: store the bytes of a judged answer and make the next version."""
    return Stepped(answer, merge(base, _kept_bytes(room, opened, answer), answer.deleted))


def beyond(limits: Limits, base: Manifest, new: Manifest) -> str | None:
    """Which limit of a workspace the next version breaks, in words; None while it grows in nothing.

    A sound executor stops a program at the limits; names and read-only files that were put back come on top.
    """
    if new is base:
        return None
    above = workspace.excess(limits, entries=len(new), size=new.size, names=new.names)
    if above is None or (len(new) <= len(base) and new.size <= base.size and new.names <= base.names):
        return None
    return above


def _request(room: Room, opened: Opened, base: Manifest, program: Program) -> wire.RunRequest:
    limits = room.limits
    packs = {entry.blob for entry in base if entry.kind == "file" and 0 < entry.size <= limits.small_file_bytes}
    return wire.RunRequest(
        run_id=short_id(os.urandom),
        workspace=names.workspace(opened.project, opened.session),
        lang=program.lang,
        code=program.code,
        args=program.args,
        limits=wire.RunLimits(
            wall_ms=program.wall_ms,
            **{name: getattr(limits, name) for name in wire.RunLimits.__slots__ if name != "wall_ms"},
        ),
        manifest=tuple(_sent(entry) for entry in base),
        reads=dict.fromkeys(base.blobs, ""),
        writes=tuple((workspace.new_key(opened), "") for _ in range(limits.write_grants)),
        repack=len(packs) > limits.packs,
        env=dict(program.env),
        tenant=program.tenant,
        share=opened.project,
    )


def _sent(entry: Entry) -> wire.Entry:
    return wire.Entry(
        entry.path, cast("wire.Kind", entry.kind), entry.mode, entry.size, entry.mtime_ns,
        entry.sha256, entry.target, entry.blob, entry.offset, entry.read_only,
    )  # fmt: skip


def _kept_bytes(room: Room, opened: Opened, answer: wire.RunAnswer) -> list[Entry]:
    """The changed entries, their bytes stored: the inline pack becomes one object."""
    inline = any(entry.kind == "file" and entry.size and not entry.blob for entry in answer.changes)
    pack = workspace.put_object(room, opened, answer.pack) if inline else ""
    now = room.clock()
    return [
        Entry(
            entry.path,
            entry.kind,
            entry.mode,
            entry.size,
            entry.mtime_ns,
            entry.sha256,
            entry.target,
            blob=(entry.blob or pack) if entry.size else "",
            offset=entry.offset if entry.size else 0,
            stored_ms=now,
            origin="run",
        )
        for entry in answer.changes
    ]
