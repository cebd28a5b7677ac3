"""The executor of one machine: one warm process (`sandbox_image.runner`) behind a socket pair.

The process holds no key and no state. When it dies, its runs fail as "broken", nothing of them is committed, and the
next run starts another; a run is never sent twice.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from shared.executor.port import Executor, ExecutorFailed, ExecutorHealth, LanguageHealth, LayerHealth, Output
from shared.executor.turns import Turns, stopped
from shared.executor.warm import Process, Waiting
from shared.executor.wire import RunAnswer, RunRequest, WireError
from shared.store.ports import Objects

_START_S = 60.0
_KINDS: dict[str, Literal["unavailable", "broken", "timeout"]] = {"unavailable": "unavailable", "timeout": "timeout"}


class LocalExecutor(Executor):
    """Runs programs in a process of this machine. At most `capacity` at once; others wait, as `Turns` says.

    `root` is the toolchain root, `jail` the jail binary, `work` a folder of the executor's own; where programs' users
    cannot reach it, one below /var/lib/workroom stands for it. `required_layers`: without one of them nothing runs.
    `spare_ms` is what restoring and collecting may take beside a run's own time; a process that then does not react
    within `stuck_ms` is replaced. `off` switches layers off, for tests.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        root: Path,
        jail: Path,
        work: Path,
        required_layers: frozenset[str],
        capacity: int | None = None,
        spare_ms: int = 60_000,
        stuck_ms: int = 5_000,
        off: frozenset[str] = frozenset(),
    ) -> None:
        self._objects = objects
        self._required = required_layers
        self._capacity = capacity or max(4, 2 * (os.cpu_count() or 1))
        self._spare_ms = spare_ms
        self._stuck_s = stuck_ms / 1000
        self._arguments = [
            "--root",
            str(root),
            "--jail",
            str(jail),
            "--work",
            str(work),
            "--off",
            ",".join(sorted(off)),
        ]
        self._start = threading.Lock()
        self._lock = threading.Lock()
        self._inside: dict[str, Process | None] = {}
        self._asked: set[str] = set()
        self._process: Process | None = None
        self._closed = False
        self._turns = Turns(self._capacity)

    def run(self, request: RunRequest, output: Output | None = None) -> RunAnswer:
        """See Executor.run."""
        with self._lock:
            self._inside[request.run_id] = None
        try:
            with self._turns.turn(request.share, lambda: request.run_id in self._asked) as mine:
                if mine:
                    return self._run(request, output)
            if self._closed:
                raise ExecutorFailed("unavailable", "the executor is closed")
            return stopped(request)
        finally:
            with self._lock:
                self._inside.pop(request.run_id, None)
                self._asked.discard(request.run_id)

    def _run(self, request: RunRequest, output: Output | None) -> RunAnswer:
        granted = replace(self._granted(request), live=output is not None)
        process = self._ready()
        if why := self._refusal(process.started):
            raise ExecutorFailed("unavailable", why)
        waiting = process.begin(granted)
        if waiting is None:
            # It died before it had the whole frame, so it cannot have begun the run: another process may.
            process.end()
            process = self._ready()
            waiting = process.begin(granted)
        if waiting is None:
            raise ExecutorFailed("unavailable", "the executor process did not take the run")
        try:
            with self._lock:
                self._inside[request.run_id] = process
                asked = request.run_id in self._asked
            if asked:
                process.tell({"op": "cancel", "run_id": request.run_id})
            return self._answer(process, waiting, request, output)
        finally:
            process.forget(request.run_id)

    def place(self, share: str) -> AbstractContextManager[bool]:
        """See Executor.place."""
        return self._turns.turn(share)

    def cancel(self, run_id: str) -> None:
        """See Executor.cancel. A run that waits for its turn waits no longer."""
        with self._lock:
            if run_id not in self._inside:
                return
            process = self._inside[run_id]
            self._asked.add(run_id)
        if process is not None:
            process.tell({"op": "cancel", "run_id": run_id})
        else:
            self._turns.look()

    def health(self) -> ExecutorHealth:
        """See Executor.health."""
        started = self._ready().started
        why = self._refusal(started)
        return ExecutorHealth(
            ready=not why,
            why=why,
            languages={
                name: LanguageHealth(bool(row["present"]), str(row["version"]), str(row["packages"]))
                for name, row in started["languages"].items()
            },
            layers={
                name: LayerHealth(bool(row["active"]), name in self._required, str(row["detail"]))
                for name, row in started["layers"].items()
            },
            running=self._turns.running,
            capacity=self._capacity,
        )

    def close(self) -> None:
        """See Executor.close."""
        with self._start:
            self._closed = True
            if self._process is not None:
                self._process.end()
        self._turns.close()

    @property
    def pid(self) -> int | None:
        """The executor process, while one is there."""
        return None if self._process is None else self._process.pid

    def _ready(self) -> Process:
        """The process, started and probed. Errors: ExecutorFailed."""
        process = self._process
        if process is not None and process.started and not process.dead.is_set():
            return process
        with self._start:
            process = self._process
            if self._closed:
                raise ExecutorFailed("unavailable", "the executor is closed")
            if process is None or process.dead.is_set():
                self._process = process = self._new()
            return process

    def _new(self) -> Process:
        try:
            process = Process(self._arguments)
        except OSError as error:
            raise ExecutorFailed("unavailable", "the executor process cannot be started") from error
        answer = process.health(_START_S)
        if answer is None:
            process.end()
            raise ExecutorFailed("unavailable", "the executor process ended while it started")
        if not _is_health(answer["health"]):
            process.end()
            raise ExecutorFailed("broken", "the executor process does not say how it is")
        process.started = answer["health"]
        return process

    def _refusal(self, started: dict[str, Any]) -> str:
        """Why nothing may run, or ""."""
        if started["trouble"]:
            return str(started["trouble"])
        layers = started["layers"]
        for name in sorted(self._required):
            if not layers.get(name, {}).get("active"):
                return f"the sandbox layer `{name}` is required and not active: {layers.get(name, {}).get('detail')}"
        return ""

    def _granted(self, request: RunRequest) -> RunRequest:
        seconds = (request.limits.wall_ms + self._spare_ms) // 1000 + 1
        reads = {key: self._objects.grant_read(key, seconds=seconds).url for key in request.reads}
        writes = tuple((key, self._objects.grant_write(key, seconds=seconds).url) for key, _ in request.writes)
        return replace(request, reads=reads, writes=writes)

    def _answer(self, process: Process, waiting: Waiting, request: RunRequest, output: Output | None) -> RunAnswer:
        """Wait for the answer and read it. What is no answer is "broken"; its content is judged elsewhere."""
        if not self._heard(process, waiting, request, output):
            process.tell({"op": "cancel", "run_id": request.run_id})
            if not waiting.done.wait(self._stuck_s):
                if process.health(self._stuck_s) is None:
                    process.end(0)
                raise ExecutorFailed("timeout", "the executor did not answer in time")
        message = waiting.answer
        if message is None:
            raise ExecutorFailed("broken", "the executor process ended")
        if "error" in message:
            raise ExecutorFailed(_KINDS.get(str(message["error"]), "broken"), str(message.get("why", "")))
        try:
            answer = RunAnswer.of(message.get("answer"))
        except (WireError, KeyError, TypeError) as error:
            raise ExecutorFailed("broken", "the answer is not of the shape") from error
        if answer.run_id != request.run_id:
            raise ExecutorFailed("broken", "the answer is of another run")
        return answer

    def _heard(self, process: Process, waiting: Waiting, request: RunRequest, output: Output | None) -> bool:
        """Wait for the end of a run and tell its output meanwhile; False where its time has passed before."""
        until = time.monotonic() + (request.limits.wall_ms + self._spare_ms) / 1000
        if output is None or waiting.pending is None:
            return waiting.done.wait(until - time.monotonic())
        try:
            while not waiting.done.is_set():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                waiting.news.wait(left)
                waiting.news.clear()
                waiting.pending.give(output)
            # What came between the last look and the end.
            waiting.pending.give(output)
        except BaseException:
            process.tell({"op": "cancel", "run_id": request.run_id})
            raise
        return True


def _is_health(health: object) -> bool:
    """Whether an executor's word on itself has the shape that is relied on."""
    if not isinstance(health, dict) or not isinstance(health.get("trouble"), str):
        return False
    tables = (health.get("languages"), {"present", "version", "packages"}), (health.get("layers"), {"active", "detail"})
    return all(
        isinstance(table, dict) and all(isinstance(row, dict) and members <= row.keys() for row in table.values())
        for table, members in tables
    )
