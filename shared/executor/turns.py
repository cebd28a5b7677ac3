"""Waiting for a place among the programs that run at once, and the answer of a run that was given up."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox_image.runner import stop_lines
from shared.executor.wire import RunAnswer, RunRequest


class Turns:
    """At most `places` at once, in order of arrival. Thread-safe."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._places = places
        self._queue: deque[object] = deque()
        self._moved = threading.Condition()

    @property
    def running(self) -> int:
        """How many have a turn."""
        return self._places - self._free

    @contextmanager
    def turn(self, over: Callable[[], bool] = lambda: False, seconds: float | None = None) -> Iterator[bool]:
        """Wait for a turn and have it; False without one: `over` says so at a `look`, or the seconds have passed."""
        me = object()
        with self._moved:
            self._queue.append(me)
            self._moved.wait_for(lambda: over() or self._mine(me), seconds)
            mine = self._mine(me) and not over()
            self._queue.remove(me)
            self._free -= mine
            self._moved.notify_all()
        try:
            yield mine
        finally:
            with self._moved:
                self._free += mine
                self._moved.notify_all()

    def look(self) -> None:
        """Let everyone who waits ask again whether it is over."""
        with self._moved:
            self._moved.notify_all()

    def _mine(self, me: object) -> bool:
        return self._free > 0 and self._queue[0] is me


def stopped(request: RunRequest) -> RunAnswer:
    """The answer of a run that was given up: nothing of it is known, so nothing is kept."""
    lines = "".join(f"{line}\n" for line in stop_lines.lines("stopped", 9, request.limits))
    return RunAnswer(run_id=request.run_id, phase="run", code=None, signal=9, reason="stopped", stdout="", stderr=lines)
