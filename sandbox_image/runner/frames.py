"""Frames between the service and its executor process: four bytes of length, big-endian, then JSON in UTF-8."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

MAX_FRAME = 64 << 20
"""Bytes of one frame: a manifest of 20,000 long paths and a packed answer fit."""
_HEAD = struct.Struct(">I")


class FrameError(Exception):
    """The stream is not of frames, or a frame is too large."""


def encode(message: dict[str, Any]) -> bytes:
    """The whole frame of a message. Errors: FrameError, when it is too large."""
    data = json.dumps(message, separators=(",", ":")).encode("ascii")
    if len(data) > MAX_FRAME:
        raise FrameError("the frame is too large")
    return _HEAD.pack(len(data)) + data


def receive(sock: socket.socket) -> dict[str, Any] | None:
    """The next message; None at the end of the stream. Errors: FrameError, OSError."""
    head = _exactly(sock, _HEAD.size)
    if head is None:
        return None
    (size,) = _HEAD.unpack(head)
    if size > MAX_FRAME:
        raise FrameError("the frame is too large")
    data = _exactly(sock, size)
    if data is None:
        raise FrameError("the stream ends inside a frame")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameError("the frame is not JSON") from error
    if type(message) is not dict:
        raise FrameError("the frame is not an object")
    return message


def _exactly(sock: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view = memoryview(data)
    at = 0
    while at < size:
        count = sock.recv_into(view[at:])
        if count == 0:
            if at == 0:
                return None
            raise FrameError("the stream ends inside a frame")
        at += count
    return data
