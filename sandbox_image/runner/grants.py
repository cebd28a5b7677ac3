"""Reading and creating objects by grant: `file:` and a path on one machine, an `https:` (or `http:`) address elsewhere.

Nothing else is taken. What a run has no grant for is not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class GrantFailed(Exception):
    """A grant could not be used: refused, missing, short, exists already. The text never holds the grant."""


def read(url: str, start: int, length: int) -> Iterator[bytes]:
    """The bytes of one range, exactly `length` of them. Errors: GrantFailed, at any piece."""
    left = length
    try:
        if url.startswith("file:"):
            from shared.executor import filegrant  # noqa: PLC0415

            found: Iterator[bytes] = filegrant.read(url, start, length)
        else:
            from sandbox_image.runner import httpgrant  # noqa: PLC0415

            found = httpgrant.read(url, start, length)
        for piece in found:
            left -= len(piece)
            yield piece
    except (OSError, ValueError) as error:
        raise GrantFailed(type(error).__name__) from error
    if left:
        raise GrantFailed("short read")


def create(url: str, pieces: Iterable[bytes]) -> tuple[int, str]:
    """Create the object; its size and hex SHA-256. Errors: GrantFailed; what else `pieces` raises comes through."""
    try:
        if url.startswith("file:"):
            from shared.executor import filegrant  # noqa: PLC0415

            return filegrant.create(url, pieces)
        from sandbox_image.runner import httpgrant  # noqa: PLC0415

        return httpgrant.create(url, pieces)
    except (OSError, ValueError) as error:
        raise GrantFailed(type(error).__name__) from error
