"""What an operation is handed: the ports, the limits and the clock. Nothing here knows a door or an adapter."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from shared.domain.session import Owner
from shared.errors import Code, Failure
from shared.executor.port import Executor
from shared.limits import Limits
from shared.operations.lease import Heart
from shared.store.ports import Grant, Objects, State


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class UploadGrants(Protocol):
    """Who lets a client put the bytes of one key, of one size and digest, once, for a while."""

    def upload(self, key: str, *, size: int, sha256: str, expires_at: int) -> Grant:
        """The grant. `expires_at` is epoch seconds."""


class Gate:
    """At most `limit` runs wait or work at once; one more is refused at once, not queued without end."""

    def __init__(self, limit: int) -> None:
        self._free = threading.BoundedSemaphore(limit)

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Take a place. Errors: 429."""
        if not self._free.acquire(blocking=False):
            raise Failure(Code.RATE_LIMITED, retry_after=2)
        try:
            yield
        finally:
            self._free.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The ports of one deployment.

    `uploads` makes the upload grants of clients: the object store's own signature, or this service's. `secret` is the
    deployment's key for ids and signatures, born once in the store. `owner` names this process as a holder of locks.
    `dev_key` admits the development key. `runs` bounds the runs of this process, `background` runs what a caller
    does not wait for.
    """

    state: State
    objects: Objects
    executor: Executor
    uploads: UploadGrants
    secret: bytes
    owner: Owner
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], int] = now_ms
    dev_key: bool = False
    heart: Heart = field(default_factory=lambda: Heart(Limits().lease_ms / 3000))
    runs: Gate = field(default_factory=lambda: Gate(Limits().run_queue))
    background: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(16, "background"))
