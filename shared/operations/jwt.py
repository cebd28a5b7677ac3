"""LibreChat's tokens: from a signed JWT to a caller (exec.md A2). Whatever is not wholly as it says proves nobody.

header    alg, the one that belongs to the key's type; no critical extension
claims    iss, aud, sub, jti, iat, nbf, exp, principal_source, auth_context_hash; tenant_id where there are tenants
caller    project of the tenant_id, subject `sub`; the token itself is bound to nothing, a new one comes every 30 s
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from shared.domain.ids import digest, is_project
from shared.identity import Caller

KEY_ID = "jwt"
"""`Caller.key_id` of whoever came with a token."""
LONGEST_S = 300
"""Seconds between `iat` and `exp` at most."""
LEEWAY_S = 5
"""Seconds that the issuer's clock and ours may differ."""
MAX_PROJECT = 23
"""Characters of the configured project, so that `-` and a tenant's 16 digits still make a project's id."""

_MAX_TOKEN = 8_192
_MAX_CLAIM = 512
_MIN_RSA_BITS = 2_048
_ONE_TENANT = "legacy"
_SOURCES = ("librechat_jwt", "openid_reuse")
_CONTEXT = ("chc_user_id", "org_id", "principal_source", "role", "service_id", "sub", "tenant_id")
"""What `auth_context_hash` is made of, in its order."""


class LibreChatTokens:
    """The port JwtVerifier for tokens that one key signs. Thread-safe.

    `key` is a public key in PEM: Ed25519 takes EdDSA only, RSA of 2,048 bits or more takes RS256 only, so no token
    chooses how it is verified. `project` is the one of tokens without tenants, 1 to 23 characters of a project's id.
    Errors: ValueError, the key or the project cannot be used.
    """

    def __init__(self, key: str, *, issuer: str, audience: str, project: str) -> None:
        try:
            public = load_pem_public_key(key.encode())
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError("the key of the tokens is no public key in PEM") from None
        if isinstance(public, Ed25519PublicKey):
            self._algorithm = "EdDSA"
        elif isinstance(public, RSAPublicKey) and public.key_size >= _MIN_RSA_BITS:
            self._algorithm = "RS256"
        else:
            raise ValueError("the key of the tokens must be Ed25519, or RSA of 2,048 bits or more")
        if not is_project(project) or len(project) > MAX_PROJECT:
            raise ValueError(f"the project of the tokens must be 1 to {MAX_PROJECT} of a-z, 0-9 and inner hyphens")
        self._key = public
        self._issuer = issuer
        self._audience = audience
        self._project = project

    def caller(self, token: str, now: int) -> Caller | None:
        """See JwtVerifier.caller. `now` is epoch milliseconds."""
        claims = self._claims(token)
        if claims is None or not self._addressed(claims) or not _timely(claims, now) or not _sound(claims):
            return None
        tenant = claims.get("tenant_id")
        project = self._project
        if tenant is not None and tenant != _ONE_TENANT:
            project += "-" + digest("tenant", tenant)[:16]
        return Caller(project, KEY_ID, claims["sub"])

    def _claims(self, token: str) -> dict[str, Any] | None:
        """The claims of a token whose signature is the key's. Times and addresses are judged elsewhere."""
        if len(token) > _MAX_TOKEN or not token.isascii() or token.count(".") != 2:
            return None
        try:
            read = jwt.decode_complete(
                token,
                self._key,
                algorithms=[self._algorithm],
                options={
                    "verify_signature": True,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": False,
                    "verify_iss": False,
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        if "crit" in read["header"]:
            return None
        claims: dict[str, Any] = read["payload"]
        return claims

    def _addressed(self, claims: dict[str, Any]) -> bool:
        """Whether it is of this issuer and for this service."""
        audience = claims.get("aud")
        meant = audience if isinstance(audience, list) else [audience]
        return claims.get("iss") == self._issuer and self._audience in meant


def _timely(claims: dict[str, Any], now: int) -> bool:
    """Whether it is valid at `now` and was not made to last. Each time is required, in whole seconds."""
    times = [claims.get(name) for name in ("iat", "nbf", "exp")]
    if any(type(value) is not int for value in times):
        return False
    issued, begins, ends = (value * 1000 for value in times if value is not None)
    leeway = LEEWAY_S * 1000
    if not 0 < ends - issued <= LONGEST_S * 1000:
        return False
    return bool(issued <= now + leeway and begins <= now + leeway and now < ends + leeway)


def _sound(claims: dict[str, Any]) -> bool:
    """Whether it names a principal, and the digest of who that is agrees with its claims."""
    if not all(_text(claims.get(name)) for name in ("sub", "jti", "auth_context_hash")):
        return False
    if claims.get("principal_source") not in _SOURCES:
        return False
    context = {name: claims.get(name) for name in _CONTEXT}
    if any(value is not None and not isinstance(value, str) for value in context.values()):
        return False
    if context["tenant_id"] is not None and not _text(context["tenant_id"]):
        return False
    try:
        # As the issuer's JSON.stringify writes it.
        text = json.dumps(
            {name: value or "" for name, value in context.items()}, separators=(",", ":"), ensure_ascii=False
        )
        made = hashlib.sha256(text.encode("utf-8")).hexdigest()
    except UnicodeEncodeError:
        return False
    said: str = claims["auth_context_hash"]
    return hmac.compare_digest(made.encode(), said.encode("utf-8", "surrogatepass"))


def _text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_CLAIM
