"""Which texts are object keys. Nothing here does I/O."""

from __future__ import annotations

import re

MAX_KEY = 512
"""Characters of a key."""
_KEY = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*", re.ASCII)


def is_key(text: str) -> bool:
    """Whether the text is a key: segments of `[A-Za-z0-9_-]` joined by `/`, at most 512 characters."""
    return len(text) <= MAX_KEY and _KEY.fullmatch(text) is not None


def check_key(text: str) -> str:
    """The key. ValueError for what is none."""
    if not is_key(text):
        raise ValueError("not an object key")
    return text
