"""Reading and creating objects by grant. On one machine a grant is `file:` and a path; nothing else is taken here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class GrantFailed(Exception):
    """A grant could not be used: refused, missing, short, exists already."""


def read(url: str, start: int, length: int) -> Iterator[bytes]:
    """The bytes of one range, exactly `length` of them. Errors: GrantFailed, at any piece."""
    from shared.executor import filegrant  # noqa: PLC0415  (not needed by a run without files)

    left = length
    try:
        for piece in filegrant.read(url, start, length):
            left -= len(piece)
            yield piece
    except (OSError, ValueError) as error:
        raise GrantFailed(type(error).__name__) from error
    if left:
        raise GrantFailed("short read")


def create(url: str, pieces: Iterable[bytes]) -> tuple[int, str]:
    """Create the object; its size and hex SHA-256. Errors: GrantFailed; what else `pieces` raises comes through."""
    from shared.executor import filegrant  # noqa: PLC0415

    try:
        return filegrant.create(url, pieces)
    except (OSError, ValueError) as error:
        raise GrantFailed(type(error).__name__) from error
