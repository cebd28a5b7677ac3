"""Reading many ranges in order, the next ones fetched meanwhile: a store far away costs a wait for each (DESIGN §6).

Memory stays flat: what is fetched and not taken yet is bounded in bytes, and a range above that is only read when its
turn comes, in pieces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sandbox_image.runner.grants import read

if TYPE_CHECKING:
    from concurrent.futures import Future

AT_ONCE = 16
"""Ranges that are fetched at the same time."""
AHEAD_BYTES = 16 << 20
"""What may be fetched and not taken."""
_LARGEST = 8 << 20


class Range(NamedTuple):
    """`length` bytes of an object from `start`, by a grant."""

    url: str
    start: int
    length: int

    @property
    def far(self) -> bool:
        """Whether fetching it ahead is worth a thread and fits."""
        return not self.url.startswith("file:") and self.length <= _LARGEST


def in_order(ranges: Sequence[Range]) -> Generator[Iterable[bytes], None, None]:
    """The bytes of each range in pieces, which are taken before the next range is asked for.

    Close it: its threads have ended then. Errors: GrantFailed, at any piece or range.
    """
    if sum(part.far for part in ranges) < 2:
        yield from (read(*part) for part in ranges)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (only objects far away need it)

    waiting: deque[Future[bytes] | None] = deque()
    begun, size = 0, 0
    with ThreadPoolExecutor(AT_ONCE, "ahead") as threads:
        try:
            for at, part in enumerate(ranges):
                while begun < len(ranges) and (
                    begun == at
                    or (len(waiting) < AT_ONCE and size + (ranges[begun].length * ranges[begun].far) <= AHEAD_BYTES)
                ):
                    far = ranges[begun].far
                    size += ranges[begun].length * far
                    waiting.append(threads.submit(_fetched, ranges[begun]) if far else None)
                    begun += 1
                fetched = waiting.popleft()
                if fetched is None:
                    yield read(*part)
                else:
                    yield (fetched.result(),)
                    size -= part.length
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _fetched(part: Range) -> bytes:
    return b"".join(read(*part))
