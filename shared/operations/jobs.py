"""Work that was admitted and waits for a place among this process's runs, one project not in another's way (K19).

    submit ── waiting (by project, each key once) ── a place is free ── a thread of the pool ── the place is given back

Each job holds its place while it runs, so that the pool never has more jobs than threads, and no thread only waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from shared.errors import Failure

_LOG = logging.getLogger("workroom.jobs")
_PAUSE_S = 0.02
_KEPT = 10_000


class Places(Protocol):
    """Who bounds what runs at once."""

    def take(self, project: str) -> None:
        """Take a place. Errors: 429."""

    def leave(self, project: str) -> None:
        """Give it back."""


class Jobs:
    """The jobs that wait. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, OrderedDict[str, Callable[[], None]]] = OrderedDict()
        self._pumping = False
        self._told: OrderedDict[str, float] = OrderedDict()

    def submit(self, places: Places, pool: ThreadPoolExecutor, project: str, key: str, job: Callable[[], None]) -> None:
        """Have a job run as soon as it has a place. One that waits under the same key already stands for it."""
        with self._lock:
            self._waiting.setdefault(project, OrderedDict()).setdefault(key, job)
        self._pump(places, pool)
        with self._lock:
            if self._waiting and not self._pumping:
                self._pumping = True
                threading.Thread(target=self._run, args=(places, pool), name="jobs", daemon=True).start()

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
            self._pump(places, pool)
            with self._lock:
                if not self._waiting:
                    self._pumping = False
                    return

    def _pump(self, places: Places, pool: ThreadPoolExecutor) -> None:
        """Begin what has a place, a job of each project in turn."""
        with self._lock:
            turn = list(self._waiting)
        while turn:
            turn = [project for project in turn if self._begin(places, pool, project)]

    def _begin(self, places: Places, pool: ThreadPoolExecutor, project: str) -> bool:
        """Begin a project's next job; whether there may be another one."""
        try:
            places.take(project)
        except Failure:
            return False
        with self._lock:
            queue = self._waiting.get(project)
            job = queue.popitem(last=False)[1] if queue else None
            if queue is not None and not queue:
                del self._waiting[project]
        if job is None:
            places.leave(project)
            return False

        def work() -> None:
            try:
                job()
            except Exception as error:
                _LOG.error("a job ended early: %s", type(error).__name__)
            finally:
                places.leave(project)

        # After the pool's end nothing is begun: what is due is found again at the next start.
        with suppress(RuntimeError):
            pool.submit(work)
            return True
        places.leave(project)
        return False
