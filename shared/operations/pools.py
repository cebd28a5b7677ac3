"""Handing work to a pool of threads so that whoever hands it over knows whether it will be done.

A pool that can start no thread for a piece of work says so, and keeps it: a thread that it gets later would do it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def handed(pool: ThreadPoolExecutor, work: Callable[[], object]) -> bool:
    """Have the pool do it. False where it has no thread for it, or is at its end: then it is never done."""
    once = threading.Lock()

    def do() -> None:
        if once.acquire(blocking=False):
            work()

    try:
        pool.submit(do)
    except RuntimeError:
        return not once.acquire(blocking=False)
    return True
