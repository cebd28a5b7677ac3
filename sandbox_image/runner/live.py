"""What a program prints, sent while it runs: text in few frames, and of each stream no more than the answer may hold.

The bytes are those that the answer's text is made of, decoded in the same way: while a stream is not cut, what was
sent of it is the text's beginning.
"""

from __future__ import annotations

import codecs
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

FRAME = 16 << 10
"""Bytes of a program that one frame holds at most."""
PAUSE_S = 0.05
"""Between two frames of one stream that are not full."""
Send = Callable[[str, str], None]
"""Takes the name of a stream and text of it."""


@dataclass(slots=True)
class _Kept:
    """One stream. `left` is how many bytes of it may still be sent, `next` when the next frame may go."""

    left: int
    decoder: codecs.IncrementalDecoder
    waiting: bytearray = field(default_factory=bytearray)
    next: float = 0.0


class Live:
    """Sends by `send` what its streams are fed: a full frame at once, less after a pause. Not thread-safe."""

    def __init__(self, send: Send, clock: Callable[[], float] = time.monotonic) -> None:
        self._send = send
        self._clock = clock
        self._streams: dict[str, _Kept] = {}

    def stream(self, name: str, most: int) -> Callable[[bytes], None]:
        """What takes the bytes of a stream; only its first `most` bytes are sent."""
        self._streams[name] = _Kept(most, codecs.getincrementaldecoder("utf-8")("replace"))
        return functools.partial(self._feed, name)

    def _feed(self, name: str, data: bytes) -> None:
        kept = self._streams[name]
        taken = data[: kept.left]
        kept.left -= len(taken)
        kept.waiting += taken
        while len(kept.waiting) >= FRAME:
            self._frame(name, kept)
        if self._clock() >= kept.next:
            self._frame(name, kept)

    @property
    def due(self) -> float | None:
        """When `flush` has something to send (the clock's time), or None."""
        return min((kept.next for kept in self._streams.values() if kept.waiting), default=None)

    def flush(self) -> None:
        """Send what has waited for long enough."""
        now = self._clock()
        for name, kept in self._streams.items():
            if kept.waiting and now >= kept.next:
                self._frame(name, kept)

    def end(self) -> None:
        """Send the rest. Half a character at the end of a whole stream is what it is in the answer's text."""
        for name, kept in self._streams.items():
            self._frame(name, kept, last=kept.left > 0)

    def _frame(self, name: str, kept: _Kept, *, last: bool = False) -> None:
        text = kept.decoder.decode(bytes(kept.waiting[:FRAME]), last)
        del kept.waiting[:FRAME]
        if text:
            kept.next = self._clock() + PAUSE_S
            self._send(name, text)
