"""The port of an engine: what runs a Turn, and what it may do in one (agents.md 5.4, 11.32, DESIGN §8).

An engine never touches the store. It works through the Turn that it is handed, under that Turn's fence: each of its
calls raises `Fenced` once the Turn was taken away, and `Failure` (499) once it is to be cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from shared.domain.agents.turns import TurnError

Wire = dict[str, Any]
"""An item or a part of one as it stands on the wire."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of the caller's that a Turn calls. `arguments` is any JSON."""

    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class FunctionResult:
    """What came of a call."""

    call_id: str
    success: bool
    output: Any
    error: str | None


@dataclass(frozen=True, slots=True)
class Done:
    """The engine has no more to do: the Turn completes, unless input came meanwhile."""

    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """The Turn waits for the results of these calls; the engine is asked again when all are there."""

    calls: Sequence[FunctionCall]


@dataclass(frozen=True, slots=True)
class Failed:
    """The Turn fails."""

    error: TurnError


Outcome = Done | Waits | Failed


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a program. `ok` means exit code 0."""

    code: int | None
    stdout: str
    stderr: str
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a program's run is shown: always as a command; `speak` also tells its standard output as a message."""

    command: str
    speak: bool = False


class Turn(Protocol):
    """The Turn that an engine runs."""

    @property
    def agent(self) -> Mapping[str, Any]:
        """The agent's definition as it stands on the wire."""

    def input(self) -> Iterator[Sequence[Wire]]:
        """The user's messages that the engine has not seen: the items of one batch after the other, ever and ever
        again while new ones come in. It ends when there are none."""

    def results(self) -> Sequence[FunctionResult]:
        """The results that a Turn which waited goes on with, given once; none at its beginning."""

    def items(self) -> Iterator[Wire]:
        """Every finished item of the Session so far, in order."""

    def program(self, lang: str, code: str, said: Said) -> Ran:
        """Run a program in the Environment. What it changed is in the next program's files. Errors: Failure."""

    def message(self, text: str, *, phase: str | None = "final_answer") -> None:
        """An assistant's message."""

    def reasoning(self, summary: Sequence[str]) -> None:
        """What the model thought, in parts."""


class Engine(Protocol):
    """Runs Turns. Thread-safe."""

    @property
    def at_once(self) -> bool:
        """Whether its Turns begin with a program: such a one stays queued until there is a place for that."""

    def run(self, turn: Turn) -> Outcome:
        """Run a Turn until it is done, waits or fails. Whatever else it raises fails the Turn with `internal_error`."""


@dataclass(frozen=True, slots=True)
class EngineTable:
    """The engines of a deployment, by what a model's name begins with: the longest beginning wins.

    `models` are the names that an agent may have.
    """

    by_prefix: Mapping[str, Engine] = field(default_factory=dict)
    models: tuple[str, ...] = ()

    def of(self, model: str) -> Engine | None:
        """The engine of a model."""
        fitting = [prefix for prefix in self.by_prefix if model.startswith(prefix)]
        return self.by_prefix[max(fitting, key=len)] if fitting else None
