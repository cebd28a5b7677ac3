"""From a language's name and arguments to what the jail starts; what the toolchain root holds of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox_image.languages import BASE_ENV, LANGUAGES, Language, compile_argv, run_argv

TABLE = "usr/lib/workroom/toolchains.json"
"""What was installed, written at the end of making the root: per language present, version, packages, reason."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a run as the program sees them: its source, its scratch space, its workspace."""

    program: str
    scratch: str
    workspace: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start, and the folders to make before."""

    command: Sequence[str]
    compile: Sequence[str]
    env: Mapping[str, str]
    folders: Sequence[str]


class Toolchains:
    """The languages of a root. `inside`: programs see the root as `/`; else they see the machine's own tools."""

    def __init__(self, root: str, *, inside: bool) -> None:
        self._root = root if inside else ""
        self._rows = _table(f"{root}/{TABLE}")
        self._absent = {name: self._absence(language) for name, language in LANGUAGES.items()}

    def missing(self, lang: str) -> str:
        """A sentence that names what is missing and what would install it; "" when programs of `lang` run."""
        return self._absent.get(lang, f"{lang}: not a language of this server")

    def plan(self, lang: str, args: Sequence[str], places: Places) -> Plan:
        """What to start for a program of `lang` that is not missing."""
        language = LANGUAGES[lang]
        source, build = f"{places.program}/{language.source}", f"{places.scratch}/build"
        home = f"{places.scratch}/home"
        env = {name: _moved(value, places.scratch) for name, value in (*BASE_ENV.items(), *language.env)}
        return Plan(
            run_argv(language, source, build, places.workspace, args),
            compile_argv(language, source, build, places.workspace),
            env,
            [home, build] if language.compile else [home],
        )

    def source(self, lang: str) -> str:
        """The file name of a program."""
        return LANGUAGES[lang].source

    def health(self) -> dict[str, dict[str, object]]:
        """Each language: present, the version that its tool printed, the packages that it is made of."""
        return {
            name: {
                "present": not self._absent[name],
                "version": "" if self._absent[name] else str(self._rows.get(name, {}).get("version", "")),
                "packages": " ".join(language.packages),
            }
            for name, language in LANGUAGES.items()
        }

    def _absence(self, language: Language) -> str:
        row = self._rows.get(language.name)
        install = f"install the Debian packages {' '.join(language.packages)} into the toolchain root"
        if row is not None and not row.get("present"):
            reason = str(row.get("reason") or "its toolchain did not install")
            return f"{language.title} is not available here: {reason}; {install}"
        for command in (language.compile, language.run):
            if command and not command[0].startswith("{") and not self._there(command[0]):
                return f"{language.title} is not available here: {command[0]} is missing; {install}"
        return ""

    def _there(self, tool: str) -> bool:
        folders = [""] if "/" in tool else [f"{folder}/" for folder in BASE_ENV["PATH"].split(":")]
        return any(os.path.lexists(f"{self._root}{folder}{tool}") for folder in folders)


def _moved(value: str, scratch: str) -> str:
    """A value of the table's, whose scratch space is /tmp, for the scratch space of the run."""
    inside = value == "/tmp" or value.startswith("/tmp/")
    return scratch + value.removeprefix("/tmp") if inside else value


def _table(path: str) -> dict[str, dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
    except (OSError, ValueError):
        return {}
    return rows if isinstance(rows, dict) else {}
