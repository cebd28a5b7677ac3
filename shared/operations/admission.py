"""Who is admitted: from the credentials of a request to a caller, by exec.md A8.7.

Several credentials at once are fine when they agree: clients send their own Bearer beside our key.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.errors import Code, Failure
from shared.identity import Caller
from shared.operations import names
from shared.operations.keys import is_key, sort_of
from shared.operations.room import Room


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets that a request carries, as sent: `basic` is the password of Basic, else its user name."""

    api_key: str | None = None
    bearer: str | None = None
    basic: str | None = None


def admit(room: Room, credentials: Credentials) -> Caller:
    """The caller that the credentials prove.

    A Bearer that is neither in our format nor a valid token is ignored; every other credential has to be valid, and
    all of one project. Of a key and a token the token is the caller: it also proves a user.
    Errors: 401; 503 when no credential can be valid at all.
    """
    sent = [secret for secret in (credentials.api_key, credentials.basic) if secret is not None]
    bearer = credentials.bearer
    token = None
    if bearer is not None and is_key(bearer):
        sent.append(bearer)
    elif bearer is not None and room.jwt is not None:
        token = room.jwt.caller(bearer, room.clock())
    callers = [_caller(room, secret) for secret in sent]
    valid = all(caller is not None for caller in callers)
    found = [caller for caller in (token, *callers) if caller is not None]
    if valid and len({caller.project for caller in found}) == 1:
        return found[0]
    if not found and not _configured(room):
        raise Failure(Code.NOT_CONFIGURED)
    raise Failure(Code.UNAUTHORIZED)


def _configured(room: Room) -> bool:
    """Whether any credential can be valid here. There is one development key at most."""
    if room.jwt is not None:
        return True
    rows = room.state.query(names.KEYS, limit=2)
    return len(rows) > 1 or any(room.dev_key or not row.attributes.get("development") for row in rows)


def _caller(room: Room, secret: str) -> Caller | None:
    """The caller of one key, or None where it is unknown, over, or the development key of a service that takes none."""
    if not is_key(secret):
        return None
    item = room.state.get(names.KEYS, sort_of(secret))
    if item is None:
        return None
    row = item.attributes
    if row["until"] is not None and room.clock() >= row["until"]:
        return None
    if row.get("development") and not room.dev_key:
        return None
    return Caller(row["project"], row["id"])
