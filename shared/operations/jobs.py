"""Work that was admitted and waits for a place among this process's runs, one project not in another's way (K19).

    submit ── waiting (by project, each key once) ── a place is free ── a thread of the pool ── the place is given back

Each job holds its place while it runs, so that the pool never has more jobs than threads, and no thread only waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from shared.errors import Failure
from shared.operations.pools import handed

_LOG = logging.getLogger("workroom.jobs")
_PAUSE_S = 0.02
_KEPT = 10_000


class Places(Protocol):
    """Who bounds what runs at once."""

    def take(self, project: str) -> None:
        """Take a place. Errors: 429."""

    def leave(self, project: str) -> None:
        """Give it back."""


class _NoThread(Exception):
    """The pool has no thread for a job now."""


class Jobs:
    """The jobs that wait. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, OrderedDict[str, Callable[[], None]]] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._pumping = False
        self._told: OrderedDict[str, float] = OrderedDict()

    def submit(self, places: Places, pool: ThreadPoolExecutor, project: str, key: str, job: Callable[[], None]) -> None:
        """Have a job run as soon as it has a place. One that waits under the same key already stands for it."""
        with self._lock:
            self._waiting.setdefault(project, OrderedDict()).setdefault(key, job)
        if not self._pump(places, pool):
            return
        with self._lock:
            if self._waiting and not self._pumping:
                # Where no thread is to be had the end of a job, or the next one, looks for places.
                with suppress(RuntimeError):
                    threading.Thread(target=self._run, args=(places, pool), name="jobs", daemon=True).start()
                    self._pumping = True

    def recently(self, key: str, seconds: float) -> bool:
        """Whether this was asked for the same key within so many seconds already; else it counts from now."""
        now = time.monotonic()
        with self._lock:
            last = self._told.pop(key, None)
            recent = last is not None and now < last + seconds
            self._told[key] = last if recent and last is not None else now
            while len(self._told) > _KEPT:
                self._told.popitem(last=False)
        return recent

    def _run(self, places: Places, pool: ThreadPoolExecutor) -> None:
        """Look for places, which others give back too, until nothing waits."""
        while True:
            time.sleep(_PAUSE_S)
            threads = self._pump(places, pool)
            with self._lock:
                if not self._waiting or not threads:
                    self._pumping = False
                    return

    def _pump(self, places: Places, pool: ThreadPoolExecutor) -> bool:
        """Begin what has a place; whether the pool had a thread for each.

        The next one is of the project with the fewest that run, of equal ones of that which was served longest ago.
        """
        full: set[str] = set()
        while True:
            with self._lock:
                waiting = (one for one in self._waiting if one not in full)
                project = min(waiting, key=self._running.__getitem__, default=None)
            if project is None:
                return True
            try:
                if not self._begin(places, pool, project):
                    full.add(project)
            except _NoThread:
                return False

    def _begin(self, places: Places, pool: ThreadPoolExecutor, project: str) -> bool:
        """Begin a project's next job; whether there may be another one. Errors: _NoThread, and the job waits on."""
        try:
            places.take(project)
        except Failure:
            return False
        with self._lock:
            queue = self._waiting.get(project)
            if queue:
                key, job = queue.popitem(last=False)
                self._running[project] += 1
                self._waiting.move_to_end(project)
                if not queue:
                    del self._waiting[project]
        if queue is None:
            places.leave(project)
            return False

        def end() -> None:
            with self._lock:
                self._running[project] -= 1
                if not self._running[project]:
                    del self._running[project]
            places.leave(project)

        def work() -> None:
            try:
                job()
            except Exception as error:
                _LOG.error("a job ended early: %s", type(error).__name__)
            finally:
                end()
                self._pump(places, pool)

        if not handed(pool, work):
            # It waits on. After the pool's end nobody looks for it here: what is due is found again at the next start.
            with self._lock:
                waiting = self._waiting.setdefault(project, OrderedDict())
                waiting.setdefault(key, job)
                waiting.move_to_end(key, last=False)
            end()
            raise _NoThread
        return True
