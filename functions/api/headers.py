"""Request headers that mean something here. A header that is sent twice where one is needed is never guessed at.

Sources: exec.md A2 and A8.7 (credentials), A8.15 (Idempotency-Key), RFC 7240 (Prefer).
"""

from __future__ import annotations

import base64
import binascii
import re

from starlette.datastructures import Headers

from shared.errors import Code, Failure, invalid
from shared.operations.admission import Credentials

_KEY_BYTES = 255
_VISIBLE = re.compile(r"[\x21-\x7e]+(?: [\x21-\x7e]+)*")


def single(headers: Headers, name: str) -> str | None:
    """The value of a header that may be sent once. Errors: 400 naming it."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise invalid(name, "must not be sent more than once")
    return values[0] if values else None


def credentials(headers: Headers) -> Credentials | None:
    """The credentials of a request, None where it sends none. Malformed ones count as wrong, never as absent.

    Errors: 401 for a credential header that is sent twice: which of the two counts must not depend on a proxy.
    """
    keys, authorizations = headers.getlist("x-api-key"), headers.getlist("authorization")
    if len(keys) > 1 or len(authorizations) > 1:
        raise Failure(Code.UNAUTHORIZED)
    if not keys and not authorizations:
        return None
    scheme, _, value = authorizations[0].strip().partition(" ") if authorizations else ("", "", "")
    kind, value = scheme.lower(), value.strip()
    return Credentials(
        api_key=keys[0] if keys else None,
        bearer=value if kind == "bearer" and value else None,
        basic=_basic(value) if kind == "basic" else None,
    )


def _basic(value: str) -> str | None:
    """The password of a Basic credential, else its user name (exec.md A2)."""
    try:
        user, _, password = base64.b64decode(value, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return None
    return password or user or None


def idempotency_key(headers: Headers) -> str | None:
    """The `Idempotency-Key`, visible ASCII. Errors: 400 naming it and the limit."""
    key = single(headers, "Idempotency-Key")
    if key is None:
        return None
    if len(key) > _KEY_BYTES:
        raise invalid("Idempotency-Key", f"must not be longer than {_KEY_BYTES} bytes")
    if not _VISIBLE.fullmatch(key):
        raise invalid("Idempotency-Key", "must be visible ASCII text")
    return key


def prefers_async(headers: Headers) -> bool:
    """Whether `Prefer: respond-async` is among the preferences."""
    tokens = (
        token.partition(";")[0].strip().lower() for value in headers.getlist("prefer") for token in value.split(",")
    )
    return "respond-async" in tokens


def content_length(headers: Headers) -> int | None:
    """The announced size of the body, None where it comes in chunks."""
    value = headers.get("content-length")
    return int(value) if value is not None and value.isascii() and value.isdigit() else None
