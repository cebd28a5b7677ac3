"""What of a run's output has come and is not taken yet. It comes from a process that programs may have taken over.

Whoever puts never waits for whoever takes: what does not fit, or is no sound frame, ends the run's live output, and
the answer has the text.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Literal

from shared.executor.port import Output
from shared.executor.wire import RunLimits

FRAME_CHARS = (16 << 10) + 4
"""What one frame may hold: each character comes from a byte at least; what was left of a character comes on top."""
PENDING_CHARS = 256 << 10
"""What may wait for a slow taker."""

Stream = Literal["stdout", "stderr"]


class Pending:
    """The frames of one run. Thread-safe; one thread takes."""

    def __init__(self, limits: RunLimits) -> None:
        self._lock = threading.Lock()
        self._left: dict[str, int] = {"stdout": limits.stdout_bytes, "stderr": limits.stderr_bytes}
        self._frames: list[tuple[Stream, str]] = []
        self._size = 0
        self._ended = False

    def put(self, frame: Mapping[str, Any]) -> None:
        """Take a frame in. Never blocks."""
        sound = _sound(frame.get("stream"), frame.get("data"))
        with self._lock:
            if self._ended:
                return
            if sound is None or len(sound[1]) > min(self._left[sound[0]], PENDING_CHARS - self._size):
                # What came later would not continue what was told.
                self._ended = True
                return
            stream, data = sound
            self._left[stream] -= len(data)
            self._size += len(data)
            self._frames.append(sound)

    def give(self, output: Output) -> None:
        """Tell what has come. Errors: whatever `output` raises."""
        with self._lock:
            frames, self._frames, self._size = self._frames, [], 0
        for stream, data in frames:
            output(stream, data)


def _sound(stream: object, data: object) -> tuple[Stream, str] | None:
    if stream not in ("stdout", "stderr") or type(data) is not str or not 0 < len(data) <= FRAME_CHARS:
        return None
    try:
        data.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return stream, data
