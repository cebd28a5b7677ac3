"""One stream of a program's output: capped in bytes, head and tail kept, decoded without ever failing (DESIGN §6.3)."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable


class Stream:
    """Takes bytes as they come. `total` counts them all. `also` is given them too."""

    def __init__(self, cap: int, also: Callable[[bytes], None] | None = None) -> None:
        self.total = 0
        self._also = also
        self._cap = cap
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def feed(self, data: bytes) -> None:
        """Add what was read."""
        self.total += len(data)
        if self._also is not None:
            self._also(data)
        room = self._cap - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        keep = self._cap // 2
        while self._tail_size - len(self._tail[0]) >= keep and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft())

    @property
    def cut(self) -> bool:
        """Whether bytes are left out."""
        return self.total > self._cap

    def text(self) -> str:
        """The text; when cut, head and tail of half the cap each, a line between them says how much is left out.

        A byte that is not UTF-8 becomes U+FFFD. A valid character is never split by the cut.
        """
        if not self.cut:
            return self._head.decode("utf-8", "replace")
        half = self._cap // 2
        head = bytes(self._head[: self._cap - half])
        tail = (bytes(self._head[self._cap - half :]) + b"".join(self._tail))[-half:] if half else b""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        start = decoder.decode(head)
        pending = len(decoder.getstate()[0])
        skip = 0
        while skip < min(3, len(tail)) and tail[skip] & 0xC0 == 0x80:
            skip += 1
        tail = tail[skip:]
        out = self.total - (len(head) - pending) - len(tail)
        end = tail.decode("utf-8", "replace")
        return f"{start}{_newline(start)}[{out} bytes of output left out]\n{end}"


def _newline(text: str) -> str:
    return "" if not text or text.endswith("\n") else "\n"


def with_lines(text: str, lines: list[str]) -> str:
    """`text` with lines of ours at its end, each on a line of its own, a newline last."""
    if not lines:
        return text
    return f"{text}{_newline(text)}" + "".join(f"{line}\n" for line in lines)
