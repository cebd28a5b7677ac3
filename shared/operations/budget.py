"""The time of one answer: a front door ends the request after so long, whatever it is about (DESIGN §6).

0 ── wait for the lock ── restore, run ──┬── collect ──┬── store, answer ── answer_ms
                                         │             └ STORE_MS before the end: the run is stopped, 504
                                         └ RESERVE_MS before the end: the program's own time is over
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shared.errors import Code, Failure
from shared.limits import Limits

RESERVE_MS = 3_000
"""Kept behind the program's time for collecting, storing and answering."""
STORE_MS = 1_000
"""Kept behind the executor's answer for the commit and our own answer."""
LEAST_MS = 1_000
"""A program that asks for that much gets it, or is not run."""
_GRAIN_MS = 100


class Budget:
    """What is left of an answer's time. `answer_ms` 0 is no bound."""

    def __init__(self, answer_ms: int) -> None:
        self._end = None if answer_ms == 0 else time.monotonic() + answer_ms / 1000
        self.over = False

    def left_ms(self) -> int | None:
        """Milliseconds that are left, or None where nothing bounds them."""
        return None if self._end is None else int((self._end - time.monotonic()) * 1000)

    def enough(self, most: int) -> bool:
        """Whether a program may have `most` milliseconds of what is left."""
        left = self.left_ms()
        return left is None or most <= left - RESERVE_MS

    def wait_ms(self, limits: Limits) -> int:
        """How long the wait for a lock may take: the limit's, or what still leaves a run some time."""
        left = self.left_ms()
        return limits.lock_wait_ms if left is None else max(0, min(limits.lock_wait_ms, left - RESERVE_MS - LEAST_MS))

    def run_ms(self, asked: int) -> int:
        """The time that a program gets of `asked`. Errors: 504 where nothing useful is left."""
        left = self.left_ms()
        if left is None or asked <= left - RESERVE_MS:
            return asked
        given = (left - RESERVE_MS) // _GRAIN_MS * _GRAIN_MS
        if given < min(asked, LEAST_MS):
            raise Failure(Code.EXECUTOR_TIMEOUT, "No time was left to run the program; nothing of the run is kept.")
        return given

    @contextmanager
    def enforced(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` when an answer of the executor would come too late to be stored; `over` then says so."""
        left = self.left_ms()
        if left is None:
            yield
            return

        def end() -> None:
            self.over = True
            stop()

        timer = threading.Timer(max(0, left - STORE_MS) / 1000, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
