"""Which addresses are this contract's (agents.md 11.25; exec.md A8.17).

    beta     /v1/agents and /v1/vaults, with everything below
    files    /v1/files, file-… ids and everything below it that is no exec id; /v1/uploads, with everything below

`/v1/files/{21 characters}[/…]` is the exec contract's where the characters do not begin with `file-`.
"""

from __future__ import annotations

import re
from typing import Literal

from starlette.convertors import Convertor, register_url_convertor

Family = Literal["beta", "files"]

_BETA = re.compile(r"/v1/(?:agents|vaults)(?:/.*)?", re.DOTALL)
_FILES = re.compile(r"/v1/(?:files|uploads)(?:/.*)?", re.DOTALL)
_EXEC = re.compile(r"/v1/files/(?!file-)[A-Za-z0-9_-]{21}(?:/.*)?", re.DOTALL)


class _Source(Convertor[str]):
    """One segment below `/v1/files` that is no exec id: a malformed id is a missing one (agents.md 11.17)."""

    regex = r"(?!(?!file-)[A-Za-z0-9_-]{21}(?:/|\Z))[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Agent(_Source):
    """An agent's id: no word of the contract's own addresses, which have routes of their own or are none."""

    regex = r"(?!(?:sessions|environments|automations|traces)(?:/|\Z))[^/]+"


class _Environment(_Source):
    """An Environment's id, in the same way."""

    regex = r"(?!templates(?:/|\Z))[^/]+"


register_url_convertor("source", _Source())
register_url_convertor("agent", _Agent())
register_url_convertor("environment", _Environment())

_SERVED = {
    "/v1/files/{file_id}": "/v1/files/{file_id:source}",
    "/v1/agents/{agent_id}": "/v1/agents/{agent_id:agent}",
    "/v1/agents/environments/{environment_id}": "/v1/agents/environments/{environment_id:environment}",
}


def family(path: str) -> Family | None:
    """Whose rules a raw path, `//` collapsed, is under; None where it is the other contract's."""
    if _BETA.fullmatch(path):
        return "beta"
    if _FILES.fullmatch(path) and not _EXEC.fullmatch(path):
        return "files"
    return None


def served_path(template: str) -> str:
    """The route's path for a declared template."""
    for declared, served in _SERVED.items():
        if template == declared or template.startswith(declared + "/"):
            return served + template[len(declared) :]
    return template
