"""Starting a chain and listening to it until everything of it is gone.

`start` is the seam for programs that are started otherwise, as in an interpreter that is kept warm: whatever gives
a `Started` can take its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox_image.runner.live import Live
from sandbox_image.runner.output import Stream

STATUS_FD, CONTROL_FD = 3, 4
STOP, FLOOD = b"k", b"o"
_PIECE = 1 << 16
_GRACE_S = 0.2
_STATUS_BYTES = 4096


class ChainFailed(Exception):
    """The chain did not start, or ended without its line of result."""


@dataclass(slots=True)
class Started:
    """A running chain. Descriptors are the runner's ends; closing `control` stops everything of it."""

    pid: int
    stdout: int
    stderr: int
    status: int
    control: int

    def tell(self, byte: bytes) -> None:
        """Ask the supervisor to stop; it may have ended already."""
        with contextlib.suppress(OSError):
            os.write(self.control, byte)


def start(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Started:
    """Start a chain: stdin is empty, every descriptor but five is closed (all of ours are close-on-exec).

    Errors: ChainFailed.
    """
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for reader in (True, True, True, False):
            read, write = os.pipe()
            ours.append(read if reader else write)
            theirs.append(write if reader else read)
        theirs.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        # A source that has the number of a target would be overwritten before its turn.
        for place, fd in enumerate(theirs):
            if fd <= CONTROL_FD:
                theirs[place] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, CONTROL_FD + 1)
                os.close(fd)
        out, err, status, control, null = theirs
        actions = [
            (os.POSIX_SPAWN_DUP2, null, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
            (os.POSIX_SPAWN_DUP2, status, STATUS_FD),
            (os.POSIX_SPAWN_DUP2, control, CONTROL_FD),
        ]
        pid = os.posix_spawn(argv[0], list(argv), dict(env or {}), file_actions=actions)
    except OSError as error:
        for fd in ours:
            os.close(fd)
        raise ChainFailed(f"the jail cannot be started: {error.strerror}") from error
    finally:
        for fd in theirs:
            os.close(fd)
    return Started(pid, ours[0], ours[1], ours[2], ours[3])


def listen(
    started: Started,
    out: Stream,
    err: Stream,
    flood_bytes: int,
    over: Callable[[], None] = lambda: None,
    patience_s: float | None = None,
    live: Live | None = None,
) -> dict[str, Any]:
    """Drain both streams and wait for the line of result; closes all descriptors and reaps the supervisor.

    `over` is called before the descriptors are closed: nobody may use `started` afterwards.

    A stream above `flood_bytes` stops the program. When the result is known every process is gone, so the streams
    are at their end; a short grace bounds the wait where the supervisor could not end them all.
    `patience_s` bounds it all where a program may stop its supervisor, which is then killed. `live`, which the streams
    feed, is flushed when it is due.
    Errors: ChainFailed, for a supervisor that ended without a line.
    """
    line = bytearray()
    streams = {started.stdout: out, started.stderr: err}
    waiting = {started.stdout, started.stderr, started.status}
    poll = select.poll()
    for fd in waiting:
        os.set_blocking(fd, False)
        poll.register(fd, select.POLLIN)
    flooded = False
    deadline = None if patience_s is None else time.monotonic() + patience_s
    try:
        while waiting and (ready := _ready(poll, deadline, None if live is None else live.due)) is not None:
            if live is not None:
                live.flush()
            for fd in ready:
                data = _read(fd)
                if data == b"":
                    poll.unregister(fd)
                    waiting.discard(fd)
                    if fd == started.status:
                        deadline = time.monotonic() + _GRACE_S
                elif data and fd == started.status:
                    line += data[: _STATUS_BYTES - len(line)]
                elif data:
                    streams[fd].feed(data)
                    if streams[fd].total > flood_bytes and not flooded:
                        flooded = True
                        started.tell(FLOOD)
    finally:
        over()
        if patience_s is not None and started.status in waiting:
            os.kill(started.pid, signal.SIGKILL)
        close(started)
    if live is not None:
        live.end()
    return _result(bytes(line))


def _ready(poll: select.poll, deadline: float | None, due: float | None) -> list[int] | None:
    """The descriptors that have something, none where something else is due first; None once the deadline passed."""
    now = time.monotonic()
    if deadline is not None and deadline <= now:
        return None
    moments = [moment for moment in (deadline, due) if moment is not None]
    return [fd for fd, _ in poll.poll(max(0.0, min(moments) - now) * 1000 if moments else None)]


def _read(fd: int) -> bytes | None:
    """What is there; None for nothing yet, empty at the end."""
    try:
        return os.read(fd, _PIECE)
    except BlockingIOError:
        return None


def _result(line: bytes) -> dict[str, Any]:
    try:
        result = json.loads(line)
    except ValueError as error:
        raise ChainFailed("the supervisor ended without a result") from error
    if type(result) is not dict:
        raise ChainFailed("the supervisor's result is not an object")
    return result


def close(started: Started) -> None:
    """Close the descriptors, which stops the chain, and reap the supervisor."""
    for fd in (started.control, started.status, started.stdout, started.stderr):
        os.close(fd)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(started.pid, 0)
