"""The checks 2 and 3 of agents.md 1.1: `OpenAI-Beta`, the bearer key, and the scope that a client may name.

A gateway joins a header that came twice by a comma; no value with one is ever right here.
"""

from __future__ import annotations

from starlette.datastructures import Headers

from functions.api.agents.addresses import Family
from functions.api.workers import Workers
from shared.agents_errors import Fault, Refusal
from shared.errors import Code, Failure
from shared.identity import Caller
from shared.operations.admission import Credentials, admit
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

_BETA = "agents=v1"
_SCOPE = ("openai-organization", "openai-project")


def check_beta(headers: Headers) -> None:
    """Exactly one `OpenAI-Beta: agents=v1`. Errors: 400 invalid_beta."""
    if headers.getlist("openai-beta") != [_BETA]:
        raise Refusal(Fault.BETA)


async def admitted(room: Room, workers: Workers, headers: Headers, kind: Family) -> Caller:
    """The caller of the one bearer credential.

    `OpenAI-Project` and `OpenAI-Organization`, where sent, are the key's project: a project is its own organization.
    Errors: 401; 503 authentication_unavailable.
    """
    values = headers.getlist("authorization")
    scheme, _, key = values[0].strip().partition(" ") if len(values) == 1 else ("", "", "")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise Refusal(Fault.UNAUTHENTICATED)
    rejected = Refusal(Fault.BAD_KEY if kind == "files" else Fault.UNAUTHENTICATED)
    try:
        caller = await workers.quick(admit, room, Credentials(bearer=key))
    except StoreUnavailable:
        raise Refusal(Fault.AUTHENTICATION_UNAVAILABLE) from None
    except Failure as failure:
        if failure.code in (Code.UNAUTHORIZED, Code.NOT_CONFIGURED):
            raise rejected from None
        raise
    for name in _SCOPE:
        sent = headers.getlist(name)
        if sent and sent != [caller.project]:
            raise rejected
    return caller
