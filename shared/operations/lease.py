"""Keeping the lock of a long run: one thread renews every lease that is held in this process (DESIGN §5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Heart:
    """Calls each registered `beat` every `pause` seconds until it is unregistered.

    The thread starts with the first lease and ends when none has been held for a pause. A beat that raises has lost
    its lease: it is dropped, and the fence refuses the commit later.
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
                except Exception:  # whatever it was, the lease is not renewed and the fence decides
                    with self._wake:
                        self._beats.pop(token, None)
