"""Waiting for a place among the programs that run at once, and the answer of a run that was given up."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox_image.runner import stop_lines
from shared.executor.wire import RunAnswer, RunRequest


class Turns:
    """At most `places` at once; whoever waits is served by shares, none in another's way (cases.md K19). Thread-safe.

    The next place is for the share that holds the fewest, of equal ones for that which was served longest ago; within
    a share in order of arrival. A thread that has a place has it for whatever it asks for one again meanwhile.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._places = places
        self._waiting: OrderedDict[str, deque[object]] = OrderedDict()
        self._held: Counter[str] = Counter()
        self._moved = threading.Condition()
        self._mine = threading.local()
        self._closed = False

    @property
    def running(self) -> int:
        """How many places are taken."""
        return self._places - self._free

    @contextmanager
    def turn(
        self, share: str = "", over: Callable[[], bool] = lambda: False, seconds: float | None = None
    ) -> Iterator[bool]:
        """Wait for a turn and have it. False without one: `over` says so at a `look`, the seconds have passed, `close`.

        `over` is asked of a thread that has a place already, too.
        """
        if getattr(self._mine, "place", False):
            yield not over()
            return
        mine = self._mine.place = self._wait(share, over, seconds)
        try:
            yield mine
        finally:
            self._mine.place = False
            if mine:
                self._leave(share)

    def look(self) -> None:
        """Let everyone who waits ask again whether it is over."""
        with self._moved:
            self._moved.notify_all()

    def close(self) -> None:
        """Nobody gets a turn any more."""
        with self._moved:
            self._closed = True
            self._moved.notify_all()

    def _wait(self, share: str, over: Callable[[], bool], seconds: float | None) -> bool:
        me = object()

        def ended() -> bool:
            return self._closed or over()

        with self._moved:
            self._waiting.setdefault(share, deque()).append(me)
            self._moved.wait_for(lambda: ended() or self._is_next(share, me), seconds)
            mine = self._is_next(share, me) and not ended()
            queue = self._waiting[share]
            queue.remove(me)
            if not queue:
                del self._waiting[share]
            elif mine:
                self._waiting.move_to_end(share)
            if mine:
                self._free -= 1
                self._held[share] += 1
            self._moved.notify_all()
        return mine

    def _leave(self, share: str) -> None:
        with self._moved:
            self._free += 1
            self._held[share] -= 1
            if not self._held[share]:
                del self._held[share]
            self._moved.notify_all()

    def _is_next(self, share: str, me: object) -> bool:
        if self._free == 0 or self._waiting[share][0] is not me:
            return False
        return min(self._waiting, key=lambda one: self._held[one]) == share


def stopped(request: RunRequest) -> RunAnswer:
    """The answer of a run that was given up: nothing of it is known, so nothing is kept."""
    lines = "".join(f"{line}\n" for line in stop_lines.lines("stopped", 9, request.limits))
    return RunAnswer(run_id=request.run_id, phase="run", code=None, signal=9, reason="stopped", stdout="", stderr=lines)
