"""Running one function in many threads that start at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
THREADS = 32


def race(pool: ThreadPoolExecutor, work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """What each of the threads got; the pool has at least as many. What one raised is raised."""
    barrier = threading.Barrier(threads)

    def one(index: int) -> T:
        barrier.wait(20)
        return work(index)

    return [future.result(60) for future in [pool.submit(one, index) for index in range(threads)]]
