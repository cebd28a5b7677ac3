"""Keeping the lock of a long run: one thread renews every lease that is held in this process (DESIGN §5)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shared.domain.session import Fenced

_LOG = logging.getLogger("workroom.lease")


class Heart:
    """Calls each registered `beat` every `pause` seconds until it is unregistered.

    The thread starts with the first lease and ends when none has been held for a pause. A beat that raises Fenced has
    lost its lease and is dropped; after any other error it is tried again, since the lease outlasts two pauses.
    """

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._wake = threading.Condition()
        self._beats: dict[object, Callable[[], None]] = {}
        self._running = False

    @contextmanager
    def keep(self, beat: Callable[[], None]) -> Iterator[None]:
        """Renew by `beat` for as long as the block runs."""
        token = object()
        with self._wake:
            self._beats[token] = beat
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="leases", daemon=True).start()
        try:
            yield
        finally:
            with self._wake:
                self._beats.pop(token, None)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait(self._pause)
                if not self._beats:
                    self._running = False
                    return
                beats = list(self._beats.items())
            for token, beat in beats:
                try:
                    beat()
                except Fenced:
                    with self._wake:
                        self._beats.pop(token, None)
                except Exception as error:
                    _LOG.warning("a lease was not renewed: %s", type(error).__name__)
