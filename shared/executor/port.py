"""The port "run a program" (DESIGN §6). Adapters: `local` (a warm process on this machine), `aws` (a function)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from shared.executor.wire import RunAnswer, RunRequest

FailureKind = Literal["unavailable", "throttled", "broken", "timeout"]


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

    def run(self, request: RunRequest) -> RunAnswer:
        """Run one program, blocking. The adapter adds the grants for `request.reads` and `request.writes`.

        `request.reads` arrives with keys and empty grants, `request.writes` likewise. Never retried.
        Errors: ExecutorFailed.
        """

    def cancel(self, run_id: str) -> None:
        """Stop a run at once; its `run` call returns with reason "stopped". An unknown id is fine."""

    def health(self) -> ExecutorHealth:
        """Probes and versions, as taken at the executor's start. Errors: ExecutorFailed."""

    def close(self) -> None:
        """End the executor and every program of it."""
