"""The AWS stores behind the proxy of the fault suites."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from shared.store.aws import DynamoState, S3Objects
from tests.faults.proxy import CUT, DEAF, HALF, LATE, LOST, SILENT, Fault, Proxy

WAIT = 0.4
"""The clients' time-out for a part of an answer, in seconds."""
BUDGET = 2.0
"""What one call of a port may take, in seconds, but for its last request."""
BOUND = BUDGET + WAIT + 1.5
"""What a call may take in all, with what this machine adds."""

EVERY: dict[str, list[Fault]] = {
    "lost": [LOST],
    "lost thrice": [LOST, LOST, LOST],
    "cut": [CUT],
    "cut, then lost": [CUT, LOST],
    "late": [LATE],
    "after the time-out": [SILENT],
    "never delivered": [DEAF],
    "half": [HALF],
}
"""What can become of any request of either store."""


@dataclass(frozen=True, slots=True)
class Room:
    """The stores through the proxy, and the same ones without it."""

    proxy: Proxy
    state: DynamoState
    objects: S3Objects
    real: DynamoState
    kept: S3Objects


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What happens inside takes no longer."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds
