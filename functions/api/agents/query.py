"""A query as it was sent: nothing that a parser would repair is repaired unseen (agents.md 1.6, 10)."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from shared.agents_errors import Fault, Refusal

Pairs = list[tuple[str, str]]
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def pairs_of(query: bytes, *, strict: bool = False) -> Pairs:
    """The pairs in order. A malformed one (a wrong escape, `;`) is dropped; `strict` refuses it with 400.

    `+` is a space. A pair without `=` has an empty value. What is no UTF-8 has U+FFFD in its place; where `strict`
    it is kept as lone surrogates, for who reads it to refuse.
    """
    found: Pairs = []
    for part in query.decode("latin-1").split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        try:
            found.append((_decoded(name, strict), _decoded(value, strict)))
        except ValueError:
            if strict:
                raise Refusal(Fault.LOCAL) from None
    return found


def _decoded(text: str, strict: bool) -> str:
    if ";" in text or _ESCAPE.search(text):
        raise ValueError(text)
    raw = unquote_to_bytes(text.replace("+", " ").encode("latin-1"))
    return raw.decode("utf-8", "surrogateescape" if strict else "replace")
