"""Ends what a program left, where it has the runner's own user: nothing but this process and those above it may live.

A process is named by id and start time together, for an id alone may be another's by now. What forks as fast as it is
killed is first stopped, again and again, until two looks find nothing new (cases.md A10).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import NamedTuple

Named = tuple[int, int]
"""Process id and start time in clock ticks after boot."""
_PAUSE_S = 0.002


class Seen(NamedTuple):
    """One look at a process."""

    parent: int
    start: int
    state: str
    users: frozenset[int]


def look(pid: int) -> Seen | None:
    """What the kernel shows of a process to everyone; None when it is gone.

    One that ended and waits for its parent counts as gone; one whose first thread ended and whose others live on does
    not. The owner of its folder under /proc says nothing: a process can make that root's.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in the second field is the program's to choose: everything counts from the last bracket.
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/status", "rb") as file:
            users = next(line for line in file if line.startswith(b"Uid:")).split()[1:]
    except (OSError, StopIteration):
        return None
    state = fields[0].decode("ascii")
    if state in "ZX" and int(fields[17]) <= 1:
        return None
    return Seen(int(fields[1]), int(fields[19]), state, frozenset(int(user) for user in users))


def family() -> frozenset[Named]:
    """This process and every one above it, as far as it can be seen."""
    found: set[Named] = set()
    pid = os.getpid()
    while pid > 0 and (seen := look(pid)) is not None:
        found.add((pid, seen.start))
        pid = seen.parent
    return frozenset(found)


def strangers(spare: frozenset[Named]) -> dict[Named, str]:
    """Living processes of this user that are not spared, with their states."""
    me, found = os.geteuid(), dict[Named, str]()
    for name in os.listdir("/proc"):
        if name.isdigit() and (seen := look(int(name))) is not None:
            named = (int(name), seen.start)
            if me in seen.users and named not in spare:
                found[named] = seen.state
    return found


def end_all(spare: frozenset[Named], seconds: float) -> bool:
    """End every stranger; whether two looks, one after the other, found none in that time."""
    until = time.monotonic() + seconds
    if not _stop(spare, until):
        return True
    quiet = 0
    while quiet < 2:
        found = strangers(spare)
        quiet = 0 if found else quiet + 1
        for pid, _ in found:
            _signal(pid, signal.SIGKILL)
        bury()
        if found:
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE_S)
    return True


def _stop(spare: frozenset[Named], until: float) -> bool:
    """Stop them until two looks find nothing new; whether there was any."""
    known: set[Named] = set()
    quiet = 0
    while quiet < 2 and time.monotonic() < until:
        found = strangers(spare)
        quiet = quiet + 1 if found.keys() <= known else 0
        known |= found.keys()
        for (pid, _), state in found.items():
            if state not in "Tt":
                quiet = 0 if state != "D" else quiet
                _signal(pid, signal.SIGSTOP)
    return bool(known)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def bury() -> None:
    """Take the dead ones whose parents went before them: this process is their next ancestor."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
