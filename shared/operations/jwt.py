"""LibreChat's tokens: from a signed JWT to a caller (exec.md A2). Whatever is not wholly as it says proves nobody."""

from __future__ import annotations

from shared.identity import Caller


class LibreChatTokens:
    """The port JwtVerifier for tokens that one key signs.

    `key` is a public key in PEM (Ed25519 or RSA), `project` the one of tokens without a `tenant_id`.
    Errors: ValueError, the key or the project cannot be used.
    """

    def __init__(self, key: str, *, issuer: str, audience: str, project: str) -> None:
        self._key = key
        self._issuer = issuer
        self._audience = audience
        self._project = project

    def caller(self, token: str, now: int) -> Caller | None:
        """See JwtVerifier.caller."""
        return None
