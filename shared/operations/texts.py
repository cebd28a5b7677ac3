"""Checks of the texts that a caller sends, each refusal naming the field and the limit."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.domain import paths
from shared.errors import invalid
from shared.limits import Limits

_EPOCH = datetime(1970, 1, 1)


def bounded(field: str, text: str, limit: int, *, empty: bool = False) -> str:
    """A text without NUL of at most `limit` UTF-8 bytes. Errors: 400."""
    if not text and not empty:
        raise invalid(field, "must not be empty")
    if "\0" in text:
        raise invalid(field, "must not contain NUL")
    if len(text) > limit or len(text.encode("utf-8", "surrogatepass")) > limit:
        raise invalid(field, f"must not be longer than {limit} bytes")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise invalid(field, "must be valid Unicode text") from None
    return text


def check_path(field: str, path: str, limits: Limits) -> str:
    """A canonical relative POSIX path. Errors: 400."""
    why = paths.refusal(path, max_bytes=limits.path_bytes, max_depth=limits.path_depth, max_name=limits.name_bytes)
    if why is not None:
        raise invalid(field, why)
    return path


def rfc3339(ms: int) -> str:
    """Epoch milliseconds as RFC 3339 in UTC, clamped to the years that every client can parse (1970 to 9999)."""
    moment = _EPOCH + timedelta(milliseconds=min(max(ms, 0), 253_402_300_799_999))
    return moment.isoformat(timespec="milliseconds") + "Z"
