"""LibreChat's tokens: each claim broken one at a time, and every way to choose how a token is verified (exec.md A2)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from shared.domain.ids import is_project
from shared.errors import Code, Failure
from shared.identity import Caller
from shared.operations.admission import Credentials, admit
from shared.operations.jwt import LibreChatTokens
from tests.fakes import EPOCH_MS, House

NOW_S = EPOCH_MS // 1000
EDWARDS = Ed25519PrivateKey.generate()
RIVEST = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
Signer = Callable[[bytes], bytes]


def pem(key: Any) -> str:
    text: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return text.decode()


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def by_rivest(data: bytes) -> bytes:
    return RIVEST.sign(data, padding.PKCS1v15(), hashes.SHA256())


def context_hash(claims: dict[str, Any]) -> str:
    """As exec.md A2 says, written out by hand."""
    members = ",".join(
        f'"{name}":{json.dumps(claims.get(name) or "", ensure_ascii=False)}'
        for name in ("chc_user_id", "org_id", "principal_source", "role", "service_id", "sub", "tenant_id")
    )
    return hashlib.sha256(("{" + members + "}").encode()).hexdigest()


def claims(**changes: Any) -> dict[str, Any]:
    """Good claims with changes, and the digest of who they name after these; None takes a claim out."""
    made = {
        "iss": "librechat",
        "aud": "codeapi",
        "sub": "user-1",
        "iat": NOW_S,
        "nbf": NOW_S,
        "exp": NOW_S + 300,
        "jti": "j-1",
        "tenant_id": "legacy",
        "role": "USER",
        "principal_source": "librechat_jwt",
    }
    made.update(changes)
    made = {name: value for name, value in made.items() if value is not None}
    return {"auth_context_hash": context_hash(made), **made}


def token(body: dict[str, Any] | None = None, *, sign: Signer = EDWARDS.sign, alg: str = "EdDSA", **header: Any) -> str:
    """A token as LibreChat makes it."""
    head = {"alg": alg, "typ": "JWT", "kid": "lc-codeapi-2026-05", **header}
    body = claims() if body is None else body
    signed = text(json.dumps(head).encode()) + "." + text(json.dumps(body, ensure_ascii=False).encode())
    return signed + "." + text(sign(signed.encode()))


def tokens(key: Any = EDWARDS, project: str = "librechat") -> LibreChatTokens:
    return LibreChatTokens(pem(key), issuer="librechat", audience="codeapi", project=project)


def verify(made: str, now: int = EPOCH_MS, key: Any = EDWARDS) -> Caller | None:
    return tokens(key).caller(made, now)


GOOD = Caller("librechat", "jwt", "user-1")


def test_a_token_proves_its_subject_in_the_configured_project() -> None:
    assert verify(token()) == GOOD
    assert verify(token(sign=by_rivest, alg="RS256"), key=RIVEST) == GOOD


def test_a_token_of_any_key_id_and_of_the_optional_claims_is_fine() -> None:
    assert verify(token(kid="another")) == GOOD
    more = claims(org_id="o", service_id="s", chc_user_id="c", plan_id="p", principal_source="openid_reuse")
    assert verify(token(more)) == GOOD
    assert verify(token(claims(aud=["other", "codeapi"]))) == GOOD
    assert verify(token(claims(role=None))) == GOOD


def test_the_digest_is_of_text_as_it_is_and_not_of_escapes() -> None:
    assert verify(token(claims(sub='é"\\\u2028\t\x01中'))) == Caller("librechat", "jwt", 'é"\\\u2028\t\x01中')


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "other"}, {"iss": None}, {"iss": ["librechat"]},
        {"aud": "other"}, {"aud": None}, {"aud": ["other"]}, {"aud": []}, {"aud": "codeapi2"},
        {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": "x" * 513},
        {"jti": None}, {"jti": ""}, {"jti": 7},
        {"iat": None}, {"nbf": None}, {"exp": None},
        {"iat": str(NOW_S)}, {"iat": True}, {"iat": NOW_S + 0.5}, {"exp": 10**400},
        {"exp": NOW_S + 301}, {"exp": NOW_S}, {"iat": NOW_S - 1}, {"iat": NOW_S + 6, "nbf": NOW_S},
        {"nbf": NOW_S + 6}, {"iat": NOW_S - 400, "nbf": NOW_S - 400, "exp": NOW_S - 100},
        {"principal_source": None}, {"principal_source": "other"}, {"principal_source": ["librechat_jwt"]},
        {"role": 7}, {"org_id": {}}, {"service_id": 1}, {"chc_user_id": False},
        {"tenant_id": ""}, {"tenant_id": 7}, {"tenant_id": "t" * 513},
        {"auth_context_hash": None}, {"auth_context_hash": ""}, {"auth_context_hash": 7},
        {"auth_context_hash": "0" * 64}, {"auth_context_hash": "\u00e9" * 64},
    ],
    ids=repr,
)  # fmt: skip
def test_each_claim_that_is_wrong_proves_nobody(wrong: dict[str, Any]) -> None:
    body = claims(**{name: value for name, value in wrong.items() if name != "auth_context_hash"})
    if "auth_context_hash" in wrong:
        body["auth_context_hash"] = wrong["auth_context_hash"]
        body = {name: value for name, value in body.items() if value is not None}
    assert verify(token(body)) is None


@pytest.mark.parametrize("name", ["chc_user_id", "org_id", "role", "service_id", "sub", "tenant_id"])
def test_a_claim_that_the_digest_does_not_know_of_proves_nobody(name: str) -> None:
    body = claims()
    body[name] = "another"
    assert verify(token(body)) is None
    body["auth_context_hash"] = context_hash(body)
    assert verify(token(body)) is not None


def test_the_digest_is_in_lower_case_and_whole() -> None:
    good = claims()["auth_context_hash"]
    for other in (good.upper(), good[:-1], good + " "):
        assert verify(token({**claims(), "auth_context_hash": other})) is None


@pytest.mark.parametrize(
    ("moved_ms", "valid"),
    [(-5_000, True), (-5_001, False), (0, True), (300_000, True), (304_999, True), (305_000, False)],
)
def test_a_token_begins_and_ends_to_the_millisecond(moved_ms: int, valid: bool) -> None:
    assert (verify(token(), EPOCH_MS + moved_ms) is not None) is valid


def confusions() -> Iterator[tuple[str, str, Any]]:
    """(what, token, key): tokens that would hold if they chose how they are verified."""

    def mac(secret: bytes) -> Signer:
        return lambda data: hmac.digest(secret, data, "sha256")

    for name, key in (("rsa", RIVEST), ("ed25519", EDWARDS)):
        secret = pem(key).encode()
        yield f"{name} PEM as a secret", token(sign=mac(secret), alg="HS256"), key
        yield f"{name} stripped PEM as a secret", token(sign=mac(secret.strip()), alg="HS256"), key
        raw = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        yield f"{name} DER as a secret", token(sign=mac(raw), alg="HS256"), key
        for none in ("none", "None", "NONE", "", "nOnE"):
            yield f"{name} {none!r} unsigned", token(sign=lambda data: b"", alg=none), key
            own = by_rivest if key is RIVEST else EDWARDS.sign
            yield f"{name} {none!r} signed", token(sign=own, alg=none), key
    yield "rsa says EdDSA", token(sign=by_rivest, alg="EdDSA"), RIVEST
    yield "ed25519 says RS256", token(alg="RS256"), EDWARDS
    yield "PS256", token(sign=_pss, alg="PS256"), RIVEST
    yield "PS256 says RS256", token(sign=_pss, alg="RS256"), RIVEST
    yield "RS512", token(sign=lambda data: RIVEST.sign(data, padding.PKCS1v15(), hashes.SHA512()), alg="RS512"), RIVEST
    stranger = Ed25519PrivateKey.generate()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": text(stranger.public_key().public_bytes_raw())}
    yield "a stranger's key", token(sign=stranger.sign), EDWARDS
    yield "a key of its own", token(sign=stranger.sign, jwk=jwk, x5c=["x"], jku="https://example.org"), EDWARDS
    yield "a critical extension", token(crit=["exp"], exp=NOW_S), EDWARDS
    yield "a known critical extension", token(b64=True, crit=["b64"]), EDWARDS
    yield "detached", token(b64=False, crit=["b64"]), EDWARDS


def _pss(data: bytes) -> bytes:
    return RIVEST.sign(data, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())


@pytest.mark.parametrize(("what", "made", "key"), [pytest.param(*row, id=row[0]) for row in confusions()])
def test_no_token_chooses_how_it_is_verified(what: str, made: str, key: Any) -> None:
    assert verify(made, key=key) is None, what


def test_a_changed_token_proves_nobody() -> None:
    head, body, signature = token().split(".")
    other = token(claims(sub="user-2")).split(".")
    flipped = bytearray(base64.urlsafe_b64decode(signature + "=="))
    flipped[0] ^= 1
    for wrong in (
        f"{head}.{other[1]}.{signature}",
        f"{head}.{body}.{other[2]}",
        f"{head}.{body}.{text(bytes(flipped))}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}..{signature}",
        f".{body}.{signature}",
        f"{head}.{body}.{signature}.x",
        f"{head}.{body}.{signature}\u00e9",
    ):
        assert verify(wrong) is None


@pytest.mark.parametrize(
    "made",
    ["", ".", "..", "a.b.c", "x" * 10_000, "\ud800", "\0", "wr_" + "x" * 42, "é.é.é", "W10.W10.", "e30.e30."],
)
def test_what_is_no_token_proves_nobody(made: str) -> None:
    assert verify(made) is None


def test_claims_that_are_no_object_and_texts_that_are_no_unicode_prove_nobody() -> None:
    for body in ("[]", "7", '"x"', "null", "[" * 5_000, json.dumps(claims(sub="x") | {"sub": "\ud800"})):
        signed = text(b'{"alg":"EdDSA"}') + "." + text(body.encode())
        assert verify(signed + "." + text(EDWARDS.sign(signed.encode()))) is None


def test_each_tenant_has_a_project_of_its_own() -> None:
    def project(tenant: str | None) -> str:
        caller = verify(token(claims(tenant_id=tenant)))
        assert caller is not None
        return caller.project

    names = {tenant: project(tenant) for tenant in (None, "legacy", "a", "b", "A", "legacy ", "é", "../x")}
    assert names[None] == names["legacy"] == "librechat"
    others = [name for tenant, name in names.items() if tenant not in (None, "legacy")]
    assert len(set(others)) == len(others)
    for name in others:
        assert name.startswith("librechat-")
        assert len(name) == len("librechat-") + 16
        assert is_project(name)
    assert project("a") == project("a")


def test_the_configured_project_leaves_room_for_a_tenant() -> None:
    longest = "p" * 23
    caller = tokens(project=longest).caller(token(claims(tenant_id="t")), EPOCH_MS)
    assert caller is not None
    assert is_project(caller.project)
    for wrong in ("p" * 24, "", "P", "-p", "p-", "a/b"):
        with pytest.raises(ValueError, match="project"):
            tokens(project=wrong)


def test_only_a_public_key_that_is_strong_enough_is_taken() -> None:
    private = EDWARDS.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    weak = pem(rsa.generate_private_key(public_exponent=65_537, key_size=1_024))
    others = [pem(ec.generate_private_key(ec.SECP256R1())), pem(ed448.Ed448PrivateKey.generate())]
    for wrong in (private, weak, *others, "", "secret", pem(EDWARDS)[:-40]):
        with pytest.raises(ValueError, match="key of the tokens"):
            LibreChatTokens(wrong, issuer="librechat", audience="codeapi", project="p")


def with_tokens(house: House) -> House:
    return replace(house, room=replace(house.room, jwt=tokens()))


def refused(house: House, **sent: str) -> Failure:
    with pytest.raises(Failure) as refusal:
        admit(house.room, Credentials(**sent))
    return refusal.value


def test_A8_7_a_token_admits_as_a_bearer_and_as_nothing_else(house: House) -> None:
    house = with_tokens(house)
    assert admit(house.room, Credentials(bearer=token())) == GOOD
    for name in ("api_key", "basic"):
        assert refused(house, **{name: token()}).code is Code.UNAUTHORIZED
        assert refused(house, **{name: token(), "bearer": token()}).code is Code.UNAUTHORIZED


def test_A8_7_a_bearer_that_proves_nobody_is_ignored_beside_a_key_and_401_alone(house: House) -> None:
    key = house.do("keys.create", {"project": "one"}).key
    house = with_tokens(house)
    stale = token(claims(iat=NOW_S - 400, nbf=NOW_S - 400, exp=NOW_S - 100))
    for bearer in (stale, "other", token(alg="none"), "\ud800"):
        assert admit(house.room, Credentials(api_key=key, bearer=bearer)).project == "one"
        assert refused(house, bearer=bearer).code is Code.UNAUTHORIZED


def test_A8_7_a_token_beside_a_key_agrees_with_it_or_is_401(house: House) -> None:
    other = house.do("keys.create", {"project": "one"}).key
    same = house.do("keys.create", {"project": "librechat"}).key
    house = with_tokens(house)
    for name in ("api_key", "basic"):
        assert refused(house, **{name: other, "bearer": token()}).code is Code.UNAUTHORIZED
        assert admit(house.room, Credentials(**{name: same, "bearer": token()})) == GOOD
        assert refused(house, **{name: "wr_" + "x" * 42, "bearer": token()}).code is Code.UNAUTHORIZED


def test_without_a_configured_key_a_token_is_a_foreign_bearer(house: House) -> None:
    assert refused(house, bearer=token()).code is Code.NOT_CONFIGURED
    house.do("keys.create", {"project": "one"})
    assert refused(house, bearer=token()).code is Code.UNAUTHORIZED


def test_a_service_of_tokens_alone_is_configured(house: House) -> None:
    house = with_tokens(house)
    assert refused(house).code is Code.UNAUTHORIZED
    assert refused(house, bearer="x").code is Code.UNAUTHORIZED


def test_the_clock_of_the_room_decides(house: House) -> None:
    house = with_tokens(house)
    made = token()
    assert admit(house.room, Credentials(bearer=made)) == GOOD
    house.clock.forward(305_000)
    assert refused(house, bearer=made).code is Code.UNAUTHORIZED
