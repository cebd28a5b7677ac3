"""Listing one directory of a workspace, and the tokens of its pages (agents.md 3.2, 11.10, 11.18, 11.21).

A directory is looked up in the manifest by its own name, so that no link is ever followed: below a link there is
nothing, nor below a file. A page belongs to one listing: when a name or a size changes, its token is no longer taken.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shared.domain.agents.refusals import Reason, Refused
from shared.domain.ids import digest
from shared.domain.manifest import Entry, Manifest
from shared.domain.paths import sort_key

Order = Literal["asc", "desc"]
_MOST = 1_024
_VERSION = b"\x01"
_HASH = 16
_MAX_TOKEN = 1_024
_TOKEN = len(_VERSION) + 2 * _HASH + 4


@dataclass(frozen=True, slots=True)
class Request:
    """What a token is bound to; `directory` is relative to the workspace."""

    project: str
    environment: str
    directory: str
    limit: int
    order: Order

    def digest(self) -> bytes:
        """16 bytes that differ for another request."""
        parts = (self.project, self.environment, self.directory, str(self.limit), self.order)
        return bytes.fromhex(digest("files", *parts))[:_HASH]


@dataclass(frozen=True, slots=True)
class Token:
    """A page's beginning, and the listing that it belongs to."""

    listing: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class Page:
    """Regular files in the asked order, and the token of the next page or None."""

    files: tuple[Entry, ...]
    next: str | None


def children(manifest: Manifest, directory: str) -> list[Entry]:
    """The regular files right below a directory, in bytewise order; none where it is no directory.

    Errors: Refused(EXECUTION) where it holds more than 1,024 entries of any kind (row 11).
    """
    there = manifest.entries.get(directory)
    if directory and (there is None or there.kind != "dir"):
        return []
    start = f"{directory}/" if directory else ""
    below = [entry for entry in manifest if entry.path.startswith(start) and "/" not in entry.path[len(start) :]]
    if len(below) > _MOST:
        raise Refused(Reason.EXECUTION)
    return sorted((entry for entry in below if entry.listed), key=lambda entry: sort_key(entry.path))


def read_token(text: str, request: Request) -> Token:
    """The token that a caller sent, if it was made for this request (row 8). Errors: Refused(FILE_PAGE)."""
    if not 0 < len(text) <= _MAX_TOKEN:
        raise Refused(Reason.FILE_PAGE)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Refused(Reason.FILE_PAGE) from None
    offset = int.from_bytes(raw[-4:], "big")
    if (
        len(raw) != _TOKEN
        or _encoded(raw) != text
        or raw[:1] != _VERSION
        or raw[1 : 1 + _HASH] != request.digest()
        or offset == 0
        or offset % request.limit != 0
    ):
        raise Refused(Reason.FILE_PAGE)
    return Token(raw[1 + _HASH : 1 + 2 * _HASH], offset)


def page(files: Sequence[Entry], request: Request, token: Token | None) -> Page:
    """One page of a listing. Errors: Refused(FILE_PAGE) where the token is of another state of it (row 12)."""
    listing = _listing(files)
    offset = 0
    if token is not None:
        if token.listing != listing or token.offset >= len(files):
            raise Refused(Reason.FILE_PAGE)
        offset = token.offset
    ordered = files if request.order == "asc" else files[::-1]
    end = offset + request.limit
    following = None
    if end < len(files):
        following = _encoded(_VERSION + request.digest() + listing + end.to_bytes(4, "big"))
    return Page(tuple(ordered[offset:end]), following)


def _listing(files: Sequence[Entry]) -> bytes:
    """16 bytes over the names and sizes of all regular files, in bytewise order."""
    hasher = hashlib.sha256()
    for entry in files:
        name = sort_key(entry.path)
        hasher.update(len(name).to_bytes(4, "big") + name + entry.size.to_bytes(8, "big"))
    return hasher.digest()[:_HASH]


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
