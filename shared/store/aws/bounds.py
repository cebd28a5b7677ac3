"""What S3 may be asked for in a listing where a text is not a key. Nothing here does I/O."""

from __future__ import annotations

import re

from shared.store.names import MAX_KEY

_PREFIX = re.compile(r"[A-Za-z0-9_/-]*", re.ASCII)


def may_begin(prefix: str) -> bool:
    """Whether a key can begin so."""
    return len(prefix) <= MAX_KEY and _PREFIX.fullmatch(prefix) is not None


def start_after(text: str) -> str:
    """A text of printable ASCII that lies where `text` does among all keys.

    Each character of a key lies between `!` and `~`: one beyond either of them decides as that one does.
    """
    return "".join(min(max(character, "!"), "~") for character in text[: MAX_KEY + 1])
