"""What an operation is handed: the ports, the limits and the clock. Nothing here knows a door or an adapter."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from shared.executor.port import Executor
from shared.limits import Limits
from shared.store.ports import Grant, Objects, State


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class UploadGrants(Protocol):
    """Who lets a client put the bytes of one key, of one size and digest, once, for a while."""

    def upload(self, key: str, *, size: int, sha256: str, expires_at: int) -> Grant:
        """The grant. `expires_at` is epoch seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The ports of one deployment.

    `owner` names this process as a holder of locks: a process that starts again under the same name frees its own.
    `uploads` makes the upload grants of clients: the object store's own signature, or this service's.
    """

    state: State
    objects: Objects
    executor: Executor
    uploads: UploadGrants
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], int] = now_ms
    owner: str = "local"
