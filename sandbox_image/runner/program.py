"""From a language's name and arguments to what the jail starts; what the toolchain root holds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start. `missing` is a sentence when the toolchain is not there; nothing is started then."""

    source: str
    command: Sequence[str] = ()
    compile: Sequence[str] = ()
    env: Mapping[str, str] = ()  # type: ignore[assignment]
    folders: Sequence[str] = ()
    missing: str = ""


class Languages(Protocol):
    """The languages of a toolchain root."""

    def plan(self, lang: str, args: Sequence[str]) -> Plan:
        """What to start for a program of `lang`."""

    def health(self) -> dict[str, dict[str, object]]:
        """Each language: present, version, packages."""
