"""Upload grants of one machine: this service takes the bytes itself, under a token that says what may be put.

The token is `payload.signature`: the payload names one key, its size, digest and expiry, the signature is made with
the deployment's key. It is a credential: whoever has it may put exactly these bytes, once (cases.md K7).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass

from shared.errors import Code, Failure, invalid
from shared.operations.room import Room
from shared.store.ports import Grant, ObjectExists, Stage

PATH = "/v1/exec/grants/"
_MAX_TOKEN = 2_048


@dataclass(frozen=True, slots=True)
class OpenGrant:
    """What a valid token allows."""

    key: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SelfGrants:
    """Grants whose address is relative to this service."""

    secret: bytes

    def upload(self, key: str, *, size: int, sha256: str, expires_at: int) -> Grant:
        """The grant of one key (`shared.operations.room.UploadGrants`)."""
        payload = _text(json.dumps([key, size, sha256, expires_at], separators=(",", ":")).encode("ascii"))
        return Grant(
            "PUT",
            PATH + payload + "." + _signature(self.secret, payload),
            expires_at,
            {"If-None-Match": "*", "Content-Length": str(size)},
        )


def open_grant(room: Room, token: str) -> OpenGrant:
    """Read a token. Errors: 403 when it is forged or over."""
    payload, _, signature = token.partition(".")
    if len(token) > _MAX_TOKEN or not hmac.compare_digest(
        _signature(room.secret, payload).encode(), signature.encode("utf-8", "surrogatepass")
    ):
        raise Failure(Code.FORBIDDEN, "The grant is not valid.")
    try:
        key, size, sha256, expires_at = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError) as error:
        raise Failure(Code.FORBIDDEN, "The grant is not valid.") from error
    if room.clock() >= expires_at * 1000:
        raise Failure(Code.FORBIDDEN, "The grant has expired.")
    return OpenGrant(key, size, sha256)


def finish_grant(room: Room, grant: OpenGrant, stage: Stage) -> None:
    """Store the bytes. Errors: 400 for another size or digest; 409 when the grant was used."""
    if stage.size != grant.size:
        raise invalid("body", f"must be {grant.size} bytes long")
    if stage.sha256 != grant.sha256:
        raise invalid("body", "does not have the digest of the grant")
    try:
        stage.commit(grant.key)
    except ObjectExists:
        raise Failure(Code.EXISTS, "The grant was used already.") from None


def _signature(secret: bytes, payload: str) -> str:
    return _text(hmac.digest(secret, b"grant\0" + payload.encode("utf-8", "surrogatepass"), hashlib.sha256))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
