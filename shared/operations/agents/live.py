"""Telling of a program's output while it runs: at most twice a second, and no more at once than a record holds."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from shared.store.ports import StoreUnavailable

_FIRST_S = 0.1
"""A program that is over by then is told of at its end, in the transaction that ends it."""
_PAUSE_S = 0.5
_LOOK_S = 0.25
_MOST = 65_536
"""Characters that one flush tells of. What comes faster is told later, or at the end."""
_MOST_BYTES = 131_072
"""The same as JSON. A flush tells of them twice in one record."""


class Live:
    """Collects what a program prints to standard output and flushes it in a thread of its own.

    `flush` gets the new text. What was told is always a beginning of the output, of which an executor tells no more
    than a run keeps. `look` is called several times a second beside it. `unsure` is set where nobody knows whether the
    last flush was told.
    """

    def __init__(self, flush: Callable[[str], None], look: Callable[[], None] = lambda: None) -> None:
        self._flush = flush
        self._look = look
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._news = threading.Event()
        self._over = threading.Event()
        self.told = ""
        self.unsure: StoreUnavailable | None = None

    def feed(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """Take a piece; called in order."""
        if stream != "stdout":
            return
        with self._lock:
            self._waiting.append(text)
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
        telling = True
        if self._over.wait(_FIRST_S):
            return
        while True:
            self._news.wait(_LOOK_S)
            if self._over.is_set():
                return
            self._look()
            text = self._next()
            if not text or not telling:
                continue
            telling = self._tell(text)
            if self._over.wait(_PAUSE_S):
                return

    def _next(self) -> str:
        """What the next flush tells of; the rest waits on."""
        with self._lock:
            whole = "".join(self._waiting)
            text = whole[:_MOST]
            while (size := len(json.dumps(text))) > _MOST_BYTES:
                text = text[: len(text) * _MOST_BYTES // size]
            self._waiting = [whole[len(text) :]]
            if len(text) == len(whole):
                self._news.clear()
        return text

    def _tell(self, text: str) -> bool:
        """Flush; whether anything more may be told."""
        try:
            self._flush(text)
        except StoreUnavailable as error:
            self.unsure = error
            return False
        except Exception:
            # The Turn was taken away: its holder meets the same and deals with it.
            return False
        self.told += text
        return True
