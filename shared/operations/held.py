"""Decoded values that never change, by the text or the object that holds them: the least recently used go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T_ = TypeVar("T_")


class Held(Generic[T_]):
    """Holds values whose weights together are at most `most`; a heavier one is not held. Thread-safe."""

    def __init__(self, most: int, weigh: Callable[[T_], int]) -> None:
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._held: OrderedDict[str, tuple[T_, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, place: str) -> T_ | None:
        """The value of a place, if it is held."""
        with self._lock:
            found = self._held.get(place)
            if found is None:
                return None
            self._held.move_to_end(place)
            return found[0]

    def put(self, place: str, value: T_) -> None:
        """Hold a value. What a place holds never changes, so a second one is the same."""
        weight = self._weigh(value)
        with self._lock:
            if place in self._held or weight > self._most:
                return
            self._held[place] = (value, weight)
            self._weight += weight
            while self._weight > self._most:
                self._weight -= self._held.popitem(last=False)[1][1]
