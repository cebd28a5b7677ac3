"""What runs a Turn, by the name that `agent.model` has (agents.md 11.32, 11.33)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.executor.wire import LANGS
from shared.operations.agents.requests.reading import as_text, may_echo, missing, refusal, unsupported

_PROGRAM = "program:"
PROGRAMS = tuple(_PROGRAM + lang for lang in LANGS)
"""The engines that need no provider: the input is a program of that language."""


@dataclass(frozen=True, slots=True)
class Engines:
    """The model names that a deployment takes, and the one that stands for none. Errors: ValueError."""

    names: tuple[str, ...] = PROGRAMS
    default: str | None = None

    def __post_init__(self) -> None:
        if self.default is not None and self.default not in self.names:
            raise ValueError("a default engine that is not among the engines")

    def read(self, value: object, path: str) -> str:
        """The model that a request names; null is as absent. Errors: 400 for none, and for one without an engine."""
        if value is None:
            if self.default is None:
                raise missing(path)
            return self.default
        name = as_text(value, path)
        if name not in self.names:
            shown = f" '{name}'" if may_echo(name) else ""
            raise refusal(f"The model{shown} is not available. Choose one of: {', '.join(self.names)}.", path)
        return name


def is_program(model: str) -> bool:
    """Whether the input of this model is a program."""
    return model.startswith(_PROGRAM)


def check_environment(model: str, kind: str) -> None:
    """A program needs somewhere to run. Errors: 400, at the creation of a Session (agents.md 11.32)."""
    if kind == "none" and is_program(model):
        raise refusal(f"The model '{model}' runs programs and needs an environment.", "environment.type")


def check_images(model: str, messages: Sequence[Mapping[str, Any]], path: str) -> None:
    """A program has no pictures. `path` is that of the array of `messages`. Errors: 400 (agents.md 11.32)."""
    if not is_program(model):
        return
    for index, message in enumerate(messages):
        for place, part in enumerate(message["content"]):
            if part["type"] == "input_image":
                where = f"{path}[{index}].content[{place}].type"
                raise unsupported(where, f"the model '{model}' takes text only.")
