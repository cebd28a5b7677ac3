"""The port "run a program" (DESIGN §6). Adapters: `local` (a warm process on this machine), `aws` (a function)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from shared.executor.wire import RunAnswer, RunRequest

FailureKind = Literal["unavailable", "throttled", "broken", "timeout"]
Output = Callable[[Literal["stdout", "stderr"], str], None]
"""Takes a piece of what a program prints, of one stream."""


@dataclass(frozen=True, slots=True)
class LanguageHealth:
    """One language: whether its toolchain is there, the version that the tool prints, what would install it."""

    present: bool
    version: str
    packages: str


@dataclass(frozen=True, slots=True)
class LayerHealth:
    """One sandbox layer. Active: an attack probe failed with it and succeeded without it."""

    active: bool
    required: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ExecutorHealth:
    """What an executor says of itself. When not `ready`, `why` says what is missing."""

    ready: bool
    why: str
    languages: dict[str, LanguageHealth]
    layers: dict[str, LayerHealth]
    running: int
    capacity: int


class ExecutorFailed(Exception):
    """The executor could not be reached, died, or broke its contract: nothing of the run is committed.

    `kind`: "unavailable" (no program was started), "throttled" (none was started, and the caller may come again
    after `retry_after` seconds), "broken" (it died or answered nonsense), "timeout".
    """

    def __init__(self, kind: FailureKind, why: str = "", retry_after: int | None = None) -> None:
        self.kind: FailureKind = kind
        self.why = why
        self.retry_after = retry_after
        super().__init__(kind)


class Executor(Protocol):
    """Runs programs. Thread-safe."""

    def run(self, request: RunRequest, output: Output | None = None) -> RunAnswer:
        """Run one program, blocking. The adapter adds the grants for `request.reads` and `request.writes`.

        `request.reads` arrives with keys and empty grants, `request.writes` likewise. Never retried.

        `output` is told what the program prints: on one machine as it comes, in the thread that calls, in order for
        each stream; on AWS once, at the run's end, all of stdout. Of each stream at most its `*_bytes` are told, as
        text that splits no character; while a stream is not cut, the answer's text begins with what was told of it.
        A taker that is too slow misses the rest of the run. It must not raise: what it raises ends the run.

        What the answer says of special files: a FIFO is in `changes` as kind "fifo"; a socket, a device or a mount
        point as kind "other" (their bytes are never read). Neither is in `lost`, unless a limit or a folder above it
        that is not kept has put it there. `lost` names at most 100 paths, and its last row counts those that are
        left out. `changed` has every path whose file was not the same while it was read; each was lost, so it may
        stand beyond the rows of `lost`. Errors: ExecutorFailed.
        """

    def place(self, share: str) -> AbstractContextManager[bool]:
        """Wait for one of the places in which programs run, and hold it for the runs of this thread meanwhile.

        Those of different shares are served in turn, as those of `RunRequest.share` are. False: the executor closes.
        """

    def cancel(self, run_id: str) -> None:
        """Stop a run at once; its `run` call returns with reason "stopped". An unknown id is fine."""

    def health(self) -> ExecutorHealth:
        """Probes and versions, as taken at the executor's start. Errors: ExecutorFailed."""

    def close(self) -> None:
        """End the executor and every program of it."""
