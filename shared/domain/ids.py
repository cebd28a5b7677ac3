"""Identifiers. Session and file ids are 21 characters `[A-Za-z0-9_-]`: 126 bits (exec.md A8.2)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable

_SHORT = re.compile(r"[A-Za-z0-9_-]{21}", re.ASCII)
_FOREIGN = "file-"
"""How ids of the Agents API begin (exec.md A8.17)."""
_PROJECT = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)


def is_short_id(text: str) -> bool:
    """Whether a text can be a session, file, run or upload id of this contract."""
    return _SHORT.fullmatch(text) is not None and not text.startswith(_FOREIGN)


def is_project(text: str) -> bool:
    """Whether a text can be a project's id: it stands in partitions and object keys."""
    return _PROJECT.fullmatch(text) is not None


def short_id(random_bytes: Callable[[int], bytes]) -> str:
    """A new id from a source of random bytes. `file-…` belongs to the Agents API (exec.md A8.17): never made here."""
    while True:
        text = base64.urlsafe_b64encode(random_bytes(16)).decode("ascii")[:21]
        if is_short_id(text):
            return text


def timed_id(prefix: str, now: int, random_bytes: Callable[[int], bytes]) -> str:
    """A new id that sorts by `now` (epoch ms): 12 hexadecimal digits of it, then 120 random bits (agents.md 11.17)."""
    return f"{prefix}{now:012x}{base64.urlsafe_b64encode(random_bytes(15)).decode('ascii')}"


def file_id(key: bytes, session: str, path: str) -> str:
    """The id of one path in one session: a keyed hash, recomputable, with no table (exec.md A8.2).

    Keyed BLAKE2b: a listing computes one for every file, and this is several times as fast as an HMAC. `key` has at
    most 64 bytes.
    """
    message = session.encode("ascii") + b"\0" + path.encode("utf-8", "surrogateescape") + b"\0"
    for salt in range(256):
        mac = hashlib.blake2b(message + bytes([salt]), digest_size=16, key=key, person=b"workroom file id")
        text = base64.urlsafe_b64encode(mac.digest()).decode("ascii")[:21]
        if not text.startswith(_FOREIGN):
            return text
    raise AssertionError("256 keyed hashes in a row began with file-")


def digest(*parts: str) -> str:
    """Hex SHA-256 over length-prefixed parts: no two different lists of parts have one input."""
    hasher = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        hasher.update(len(raw).to_bytes(8, "big") + raw)
    return hasher.hexdigest()


def tenant_id(key: bytes, scope: str, project: str, value: str) -> str:
    """Who shares an environment: a keyed hash of 43 characters `[A-Za-z0-9_-]`, in which no caller's text stands.

    `scope` is what `value` names within the project, such as "session". `key` has at most 64 bytes.
    """
    message = bytes.fromhex(digest(scope, project, value))
    mac = hashlib.blake2b(message, digest_size=32, key=key, person=b"workroom tenant")
    return base64.urlsafe_b64encode(mac.digest()).decode("ascii").rstrip("=")
