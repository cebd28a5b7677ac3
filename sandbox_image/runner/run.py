"""One run from request to answer: restore, write the program, start it in the jail, listen, compare, collect.

The order is the contract (DESIGN §6): nothing is collected while a process of the program may live, and what cannot
be restored whole never runs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Any

from sandbox_image.runner import collect, process, program, snapshot, stop_lines
from sandbox_image.runner.grants import GrantFailed
from sandbox_image.runner.holder import Folders, Held, NoFolder
from sandbox_image.runner.jailed import PROGRAM, SCRATCH, WORKSPACE, Bounds, Job, Machine, chain
from sandbox_image.runner.live import Live, Send
from sandbox_image.runner.output import Stream, with_lines
from sandbox_image.runner.sync import SyncFailed, sync
from sandbox_image.runner.tree import NEW_FLAGS
from shared.executor.wire import RunAnswer, RunLimits, RunRequest

_LEAST_MS = 50
_REAP_S = 8.0
_VARIABLES = ".variables"


class RunFailed(Exception):
    """Nothing of the run may be believed. `kind` is that of ExecutorFailed: "unavailable" or "broken"."""

    def __init__(self, kind: str, why: str) -> None:
        self.kind = kind
        super().__init__(why)


class Cancel:
    """Stops a run, once, whenever it is asked: before, while or after its chain lives. Thread-safe."""

    def __init__(self) -> None:
        self.asked = Event()
        self._lock = Lock()
        self._started: process.Started | None = None

    def ask(self) -> None:
        """Ask for the end."""
        with self._lock:
            self.asked.set()
            if self._started is not None:
                self._started.tell(process.STOP)

    def attach(self, started: process.Started | None) -> None:
        """Say which chain to stop; None before its descriptors are closed."""
        with self._lock:
            self._started = started
            if started is not None and self.asked.is_set():
                started.tell(process.STOP)


@dataclass(frozen=True, slots=True)
class Runner:
    """What runs share. `layers` are those that are applied.

    `sole` is set where the runner and its one program at a time have one user and no namespaces, and says where a
    program sees its source, its scratch space and its workspace; `guarded` are then the ids that the filter guards.
    """

    machine: Machine
    holder: Folders
    layers: frozenset[str]
    languages: program.Toolchains
    sole: program.Places | None = None
    guarded: Callable[[], Sequence[int]] = tuple

    def run(self, request: RunRequest, cancel: Cancel, end: float | None = None, send: Send | None = None) -> RunAnswer:
        """Run one program, which ends before `end` (monotonic clock). `send` is given the output as it comes.

        Errors: RunFailed, and the folders' own.
        """
        begin = time.monotonic()
        try:
            held, before = self._restored(request)
        except NoFolder as error:
            raise RunFailed("unavailable", "no user is free to run programs as") from error
        except (SyncFailed, GrantFailed, OSError) as error:
            raise RunFailed("broken", f"the workspace could not be restored: {type(error).__name__}") from error
        try:
            answer, held.present = self._held(request, cancel, held, before, begin, end, send)
        except (GrantFailed, OSError, UnicodeError) as error:
            raise RunFailed("broken", type(error).__name__) from error
        finally:
            self.holder.give_back(held)
        return answer

    def _restored(self, request: RunRequest) -> tuple[Held, snapshot.Snapshot]:
        """A folder that holds the manifest, and what it holds. Its content counts as unknown until the run is over.

        A program can leave a folder in which restoring fails, by an access list that new files inherit, say. So a
        folder that was used before is given up then, and an empty one is tried. Errors: NoFolder, SyncFailed, OSError.
        """
        for again in (True, False):
            held = self.holder.take(request.workspace)
            present, held.present = held.present, None
            try:
                os.fchmod(held.fd, 0o755)
                before = sync(held.fd, request.manifest, request.reads, present, held.owner, _reach(request.limits))
            except (SyncFailed, OSError):
                self.holder.give_back(held)
                if not (again and held.used):
                    raise
            else:
                return held, before
        raise SyncFailed("never reached")

    def _held(
        self,
        request: RunRequest,
        cancel: Cancel,
        held: Held,
        before: snapshot.Snapshot,
        begin: float,
        end: float | None,
        send: Send | None,
    ) -> tuple[RunAnswer, snapshot.Snapshot | None]:
        limits = request.limits
        if missing := self.languages.missing(request.lang):
            return _missing(request, missing), before
        restored = time.monotonic()
        if end is not None:
            limits = replace(limits, wall_ms=min(limits.wall_ms, int((end - restored) * 1000)))
        if limits.wall_ms < min(_LEAST_MS, request.limits.wall_ms):
            raise RunFailed("timeout", "no time is left to run a program")
        started_ns = time.time_ns()
        live = None if send is None else Live(send)
        out = Stream(limits.stdout_bytes, live.stream("stdout", limits.stdout_bytes) if live else None)
        err = Stream(limits.stderr_bytes, live.stream("stderr", limits.stderr_bytes) if live else None)
        status = self._program(replace(request, limits=limits), cancel, held, out, err, live)
        ended = time.monotonic()
        if status.get("reason") == "start":
            raise RunFailed("unavailable", str(status.get("error")))
        if not status.get("clean"):
            held.dirty_user = True
        os.fchmod(held.fd, 0o755)
        after = snapshot.take(held.fd, _reach(limits), before.records, started_ns)
        owner = None if held.owner is None else held.owner.uid
        kept = collect.collect(
            held.fd, request.manifest, before, after, limits, request.writes, uid=owner, repack=request.repack
        )
        whole = after.complete and not after.unkept
        number = status["signal"]
        reason = stop_lines.reason_of(status["reason"], number)
        answer = RunAnswer(
            run_id=request.run_id,
            phase=status["phase"],
            code=status["code"],
            signal=number,
            reason=reason,
            stdout=out.text(),
            stderr=with_lines(err.text(), stop_lines.lines(reason, number, limits)),
            stdout_cut=out.cut,
            stderr_cut=err.cut,
            changes=tuple(kept.changes),
            deleted=tuple(kept.deleted),
            lost=tuple(kept.lost),
            changed=tuple(kept.changed),
            pack=kept.pack,
            wall_ms=status["wall_ms"],
            cpu_ms=status["cpu_ms"],
            peak_memory=status["peak_memory"] if status["peak_memory"] is not None else status["max_rss"],
            restore_ms=int((restored - begin) * 1000),
            collect_ms=int((time.monotonic() - ended) * 1000),
        )
        return answer, after if whole else None

    def _program(
        self, request: RunRequest, cancel: Cancel, held: Held, out: Stream, err: Stream, live: Live | None
    ) -> dict[str, Any]:
        """Write the program byte for byte, outside the workspace, run it, and take its folder away again."""
        inside = "namespaces" in self.layers
        uid = None if held.owner is None else held.owner.uid
        places = program.Places(PROGRAM, SCRATCH, WORKSPACE)
        if not inside:
            places = self.sole or program.Places(held.program, held.scratch, held.path)
        plan = self.languages.plan(request.lang, request.args, places)
        file = f"{held.program}/{self.languages.source(request.lang)}"
        # Beside the source, which every program may read: nobody else gets into this folder, and no argument list,
        # which anyone may read under /proc, has a caller's variable in it.
        variables = f"{held.program}/{_VARIABLES}" if request.env else ""
        try:
            if not inside:
                self.holder.prepare(held)
            _write(file, request.code.encode("utf-8"))
            if variables:
                _write(variables, "".join(f"{name}={value}\0" for name, value in request.env.items()).encode("utf-8"))
            job = Job(
                name=os.urandom(12).hex(),
                command=plan.command,
                compile=plan.compile,
                # A shell names its folder by this as long as it leads there.
                env={**plan.env, "PWD": places.workspace} if self.sole else plan.env,
                workspace=held.path,
                program=held.program,
                scratch=places.scratch if self.sole else held.scratch,
                uid=uid,
                bounds=_bounds(request.limits),
                layers=self.layers,
                folders=plan.folders,
                guarded=self.guarded(),
                sole=self.sole is not None,
                variables=f"{places.program}/{_VARIABLES}" if variables else "",
            )
            try:
                started = process.start(chain(self.machine, job, process.STATUS_FD, process.CONTROL_FD))
            except process.ChainFailed as error:
                raise RunFailed("unavailable", str(error)) from error
            cancel.attach(started)
            patience = request.limits.wall_ms / 1000 + _REAP_S if self.sole else None
            try:
                return process.listen(
                    started, out, err, request.limits.flood_bytes, lambda: cancel.attach(None), patience, live
                )
            except process.ChainFailed as error:
                held.dirty_user = True
                raise RunFailed("broken", str(error)) from error
        finally:
            # Where the program has the runner's user, it may have put anything in the place of its source.
            for path in (file, variables):
                with contextlib.suppress(OSError):
                    os.unlink(path)
            if not inside:
                self.holder.settle(held)


def _write(path: str, code: bytes) -> None:
    """Write the program; where the runner is root, only root may change it, and every folder on the way is root's."""
    fd = os.open(path, NEW_FLAGS, 0o444)
    with os.fdopen(fd, "wb") as file:
        file.write(code)


def _reach(limits: RunLimits) -> snapshot.Bounds:
    """How far a traversal goes: beyond the limit, so that what is above it is named."""
    return snapshot.Bounds(limits.path_bytes, limits.path_depth, 2 * limits.workspace_entries + 1)


def _bounds(limits: RunLimits) -> Bounds:
    return Bounds(
        wall_ms=limits.wall_ms,
        memory_bytes=limits.memory_bytes,
        processes=limits.processes,
        open_files=limits.open_files,
        file_bytes=limits.file_bytes,
        tmp_bytes=limits.tmp_bytes,
        workspace_bytes=limits.workspace_bytes,
        workspace_entries=limits.workspace_entries,
    )


def _missing(request: RunRequest, missing: str) -> RunAnswer:
    """As a shell answers a command that is not there."""
    return RunAnswer(
        run_id=request.run_id, phase="run", code=127, signal=None, reason=None, stdout="", stderr=f"{missing}\n"
    )
