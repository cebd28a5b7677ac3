"""Telling of a program's output while it runs: at most twice a second, and no more than a record holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

_PAUSE_S = 0.5
_MOST = 65_536
"""Characters that one flush tells of. What comes faster is told at the end."""


class Live:
    """Collects what a program prints to standard output and flushes it in a thread of its own.

    `flush` gets the new text. What was told is always a beginning of the output: after a flush that could not take
    everything nothing more is told.
    """

    def __init__(self, flush: Callable[[str], None]) -> None:
        self._flush = flush
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._size = 0
        self._full = False
        self._news = threading.Event()
        self._over = threading.Event()
        self.told = ""

    def feed(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """Take a piece; called in order."""
        if stream != "stdout":
            return
        with self._lock:
            room = _MOST - self._size
            if self._full or room <= 0:
                self._full = True
                return
            self._waiting.append(text[:room])
            self._size += len(text[:room])
            self._full = len(text) > room
        self._news.set()

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Flush while the block runs; afterwards nothing is flushed any more."""
        thread = threading.Thread(target=self._run, name="live", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._news.set()
            thread.join()

    def _run(self) -> None:
        while True:
            self._news.wait()
            if self._over.is_set():
                return
            with self._lock:
                text, self._waiting, self._size = "".join(self._waiting), [], 0
                self._news.clear()
            if text:
                try:
                    self._flush(text)
                except Exception:
                    # The Turn was taken away, or the store is: its holder meets the same and deals with it.
                    return
                self.told += text
            if self._over.wait(_PAUSE_S):
                return
