"""The members of an address of this contract: a malformed id is a missing one (agents.md 11.17)."""

from __future__ import annotations

from starlette.requests import Request

from functions.api.addresses import decoded
from shared.errors import Failure


def path_params(request: Request) -> dict[str, str]:
    """The members of the path. What no id can be stays a text that none is."""
    try:
        return decoded(request.path_params)
    except Failure:
        return dict.fromkeys(request.path_params, "")
