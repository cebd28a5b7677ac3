"""What an operation is handed: the ports, the limits and the clock. Nothing here knows a door or an adapter."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from shared.domain.manifest import Manifest
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

    def take(self) -> None:
        """Take a place, to be given back by `leave` from whatever thread. Errors: 429."""
        if not self._free.acquire(blocking=False):
            raise Failure(Code.RATE_LIMITED, retry_after=2)

    def leave(self) -> None:
        """Give a place back."""
        self._free.release()

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Hold a place while the block runs. Errors: 429."""
        self.take()
        try:
            yield
        finally:
            self.leave()


class Manifests:
    """Decoded manifests by the text or the object that holds them: neither ever changes, so neither do these.

    The least recently used go first; `entries` bounds the paths of all that are held together.
    """

    def __init__(self, entries: int) -> None:
        self._most = entries
        self._count = 0
        self._held: OrderedDict[str, Manifest] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, place: str) -> Manifest | None:
        """The manifest of an `inline` text or a `pointer`, if it is held."""
        with self._lock:
            found = self._held.get(place)
            if found is not None:
                self._held.move_to_end(place)
            return found

    def put(self, place: str, manifest: Manifest) -> None:
        """Hold a manifest."""
        with self._lock:
            if place in self._held or len(manifest) > self._most:
                return
            self._held[place] = manifest
            self._count += len(manifest)
            while self._count > self._most:
                self._count -= len(self._held.popitem(last=False)[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The ports of one deployment.

    `uploads` makes the upload grants of clients: the object store's own signature, or this service's. `secret` is the
    deployment's key for ids and signatures, born once in the store. `owner` names this process as a holder of locks.
    `dev_key` admits the development key. `closing` ends what was opened for the room. `runs` bounds the runs of this
    process, `background` runs what a caller does not wait for: a thread for each run that `runs` lets in, so that
    those that wait for one session hold up no other. `active` are the partitions of the records whose runs this
    process has in hand.
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
    closing: ExitStack = field(default_factory=ExitStack)
    runs: Gate = field(default_factory=lambda: Gate(Limits().run_queue))
    background: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(Limits().run_queue, "background"))
    active: set[str] = field(default_factory=set)
    manifests: Manifests = field(default_factory=lambda: Manifests(25_000))
