"""The memory that collected request bodies take: counted as they arrive, bounded for each project and in all.

A JSON body is collected whole before it is read, and one of an environment file has up to 67 MiB: connections without
end, each with a body that never ends, would take the process's memory. What is announced is not counted, so that
nobody holds room for bytes that he does not send. A body is held until its request was handled; its answer may stream
on. One project cannot take all the room, two can. A form is not collected: its parts go to a spool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Scope

from shared.errors import Code, Failure
from shared.limits import Limits

Take = Callable[[int], None]
"""Counts bytes that have arrived. Errors: 429 where there is no room for them."""
_RETRY_S = 2


class Bodies:
    """What is held. It belongs to one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._total = limits.held_bytes
        self._share = limits.project_held_bytes
        self._held: Counter[str] = Counter()
        self._taken = 0

    @property
    def taken(self) -> int:
        """Bytes that are held now."""
        return self._taken

    @contextmanager
    def of(self, project: str) -> Iterator[Take]:
        """Count the bytes of one request of a project, and give them back at the block's end."""
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            if self._taken + size > self._total or self._held[project] + size > self._share:
                raise Failure(Code.RATE_LIMITED, retry_after=_RETRY_S)
            mine += size
            self._taken += size
            self._held[project] += size

        try:
            yield take
        finally:
            self._taken -= mine
            self._held[project] -= mine
            if not self._held[project]:
                del self._held[project]


@contextmanager
def holding(scope: Scope) -> Iterator[Take]:
    """Count the body of a request that a door has let in, while the block runs."""
    state = scope["state"]
    caller = state["caller"]
    with state["bodies"].of("" if caller is None else caller.project) as take:
        yield take
