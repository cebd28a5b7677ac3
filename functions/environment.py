"""What one environment of a function keeps from call to call: its settings and its room, made with the first call.

Nothing is made at import. A snapshot of an initialised environment starts many times (SnapStart), and each has to
draw names and random bits of its own; a room that could not be opened is tried again with the next call.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from functions.room import open_room
from functions.telemetry import EmfMetrics
from shared.operations.room import Room
from shared.settings import BadSetting, Settings

_LOG = logging.getLogger("workroom.settings")


class Environment:
    """The room of this environment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: Settings | None = None
        self._room: Room | None = None

    @property
    def settings(self) -> Settings:
        """The settings. Errors: BadSetting."""
        with self._lock:
            if self._settings is None:
                try:
                    self._settings = Settings.read(os.environ)
                except BadSetting as error:
                    _LOG.error("%s", error)
                    raise
            return self._settings

    def room(self) -> Room:
        """The room. Errors: BadSetting, StoreUnavailable."""
        settings = self.settings
        with self._lock:
            if self._room is None:
                self._room = open_room(settings, metrics=EmfMetrics())
            return self._room

    @contextmanager
    def using(self, room: Room, settings: Settings) -> Iterator[None]:
        """Another room and other settings while the block runs: for tests."""
        with self._lock:
            before = self._settings, self._room
            self._settings, self._room = settings, room
        try:
            yield
        finally:
            with self._lock:
                self._settings, self._room = before


HERE = Environment()
"""This process's environment."""


def within(room: Room, left_ms: int | None) -> Room:
    """The room for one call of which `left_ms` are left: its answers have to be whole before that.

    None: as long as the room's own limits let it.
    """
    if left_ms is None:
        return room
    own = room.limits.answer_ms
    most = max(1, left_ms - MARGIN_MS)
    return replace(room, limits=replace(room.limits, answer_ms=min(own, most) if own else most))


MARGIN_MS = 3_000
"""Milliseconds of a call that are kept for storing the end and answering."""


def enough(room: Room, left_ms: int | None) -> bool:
    """Whether the longest wait and run fit into what is left of a call: one more of a batch is begun only then."""
    return left_ms is None or left_ms >= room.limits.run_ms_max + room.limits.lock_wait_ms + MARGIN_MS
