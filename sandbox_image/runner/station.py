"""The runner's place on the machine: a block of host users of its own, cgroups, and what a dead one left.

Several runners may live on one machine. Each holds the lock of one block of users for as long as it lives, so what
still runs or lies there under those users when the lock is taken belongs to a dead runner and is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import signal
import time

from sandbox_image.runner.strangers import look
from sandbox_image.runner.wipe import wipe

UID_BASE, BLOCK, BLOCKS = 40_000, 256, 64
LOCKS = "/run/workroom"
PLACES = "/var/lib/workroom"
_CGROUP_PARENTS = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")
_KILL_S = 5.0


class NoStation(Exception):
    """The runner cannot work here; the text says why."""


def take_block(locks: str = LOCKS) -> tuple[int, int]:
    """Lock a block of users. Returns (first user of the block, descriptor that holds the lock). Errors: NoStation."""
    os.makedirs(locks, 0o755, exist_ok=True)
    for block in range(BLOCKS):
        fd = os.open(f"{locks}/users-{block}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            continue
        return UID_BASE + block * BLOCK, fd
    raise NoStation("every block of host users is taken by another runner")


def lock_work(work: str) -> int:
    """Take the work folder; a dead predecessor's is free at once. Errors: NoStation."""
    os.makedirs(work, 0o711, exist_ok=True)
    os.chmod(work, 0o711)
    fd = os.open(f"{work}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _KILL_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError:
            if time.monotonic() > until:
                os.close(fd)
                raise NoStation("another runner uses the work folder") from None
            time.sleep(0.02)


def closed_to_others(path: str) -> bool:
    """Whether a folder on the way to `path` (what exists of it) cannot be passed through by other users."""
    at = ""
    for name in os.path.realpath(path).split("/"):
        at = f"{at}{name}/"
        if not os.path.isdir(at):
            return False
        if not os.stat(at).st_mode & 0o001:
            return True
    return False


def open_place(work: str) -> str:
    """`work`, or where programs' users cannot reach it, as in root's home, a folder of /var/lib that stands for it.

    What is there is only a cache of workspaces, removed when the next runner starts.
    """
    above = os.path.dirname(work)
    if not closed_to_others(above):
        return work
    return f"{PLACES}/{hashlib.sha256(os.fsencode(work)).hexdigest()[:16]}"


def clear_users(first: int) -> bool:
    """Kill every process of the block and remove its files in shared folders; whether none is left."""
    until = time.monotonic() + _KILL_S
    while found := living(first, BLOCK):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return wipe(first, BLOCK)


def living(first: int, count: int = 1) -> list[int]:
    """Processes of the users `first` to `first + count - 1`. One that ended and waits for its parent is none."""
    users = range(first, first + count)
    seen = {int(name): look(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    return [pid for pid, process in seen.items() if process is not None and any(u in users for u in process.users)]


def open_cgroups(first: int) -> str | None:
    """The folder below which a run's memory cgroup is made, emptied of a dead runner's; None where none can be."""
    for parent in _CGROUP_PARENTS:
        v2 = not parent.endswith("memory")
        path = f"{parent}/workroom-{first}"
        if v2 and not os.path.exists(f"{parent}/cgroup.controllers"):
            continue
        try:
            os.makedirs(path, exist_ok=True)
            if v2:
                with open(f"{path}/cgroup.subtree_control", "w") as file:
                    file.write("+memory")
        except OSError:
            continue
        _remove_cgroups(path)
        return path
    return None


def _remove_cgroups(path: str) -> None:
    """Remove those of a dead runner. A supervisor that is still ending removes its own; names are never reused."""
    until = time.monotonic() + 1
    while names := [name for name in os.listdir(path) if os.path.isdir(f"{path}/{name}")]:
        for name in names:
            with contextlib.suppress(OSError):
                os.rmdir(f"{path}/{name}")
        if time.monotonic() > until:
            return
        time.sleep(0.01)
