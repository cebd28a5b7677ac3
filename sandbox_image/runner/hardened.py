"""What the runner does to itself before the first program that has its user: it shows nothing and keeps nothing.

The C library is called directly; the standard library has no name for these.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from collections.abc import Callable

_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_IOPRIO_GET = {"x86_64": 252, "aarch64": 31}
_IOPRIO_WHO_PROCESS = 1
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_KEYCTL_CLEAR, _KEYCTL_INVALIDATE, _KEYCTL_PERSISTENT = 7, 21, 22
_SESSION, _USER, _USER_SESSION = -3, -4, -5
_NO_CALL = frozenset({errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP})
"""There is no such call here, or it is refused: to a program no less."""
_NO_RING = _NO_CALL | {errno.ENOKEY, errno.EKEYREVOKED, errno.EKEYEXPIRED, errno.EDQUOT}
"""Or no process of this user has that keyring."""
_IPC_RMID = 0
_IPC_TABLES = {"shm": "shmid", "msg": "msqid", "sem": "semid"}
_libc = ctypes.CDLL(None, use_errno=True)


def hide() -> bool:
    """Not dumpable: no other process of this user reads our memory, environment or descriptors. Whether it was done.

    And next ancestor of all that is left below: so what loses its parent is buried here.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return bool(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def scrub(keeps: Callable[[str], bool]) -> None:
    """Remove every variable that is not kept, and its bytes from where the kernel put them for this process."""
    places: list[tuple[int, int]] = []
    at = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, "environ")
    index = 0
    while at and (place := at[index]):
        text = ctypes.string_at(place)
        name, _, _ = text.partition(b"=")
        if not keeps(os.fsdecode(name)):
            places.append((place, len(text)))
        index += 1
    for variable in [variable for variable in os.environ if not keeps(variable)]:
        del os.environ[variable]
    for place, length in places:
        ctypes.memset(place, 0, length)


def own_state() -> tuple[object, ...]:
    """What another process of this user can change of ours: rank, also at the disk, cores, limits."""
    limits = tuple(resource.getrlimit(number) for number in sorted({*_limits()}))
    rank = (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), _disk_rank())
    return (*rank, frozenset(os.sched_getaffinity(0)), limits)


def _disk_rank() -> int:
    number = _IOPRIO_GET.get(os.uname().machine)
    return 0 if number is None else int(_libc.syscall(number, _IOPRIO_WHO_PROCESS, 0))


def _limits() -> list[int]:
    return [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def clear_ipc() -> bool:
    """Remove the System V objects and the keys of this user, which outlive their makers; whether none is left."""
    keyless = _clear_keys()
    for table in _IPC_TABLES:
        for key in _own(table):
            arguments = (key, 0, _IPC_RMID) if table == "sem" else (key, _IPC_RMID, None)
            getattr(_libc, f"{table}ctl")(*arguments)
    return keyless and not any(_own(table) for table in _IPC_TABLES)


def _clear_keys() -> bool:
    """Empty the keyrings that a process of this user reaches without having made them; whether each could be.

    The one of the session is what a child inherits; the persistent one is reached by linking it there. A program may
    take from their owner the right to empty them: whoever may search one can still make it invalid.
    """
    number = _KEYCTL.get(os.uname().machine)
    if number is None:
        return True
    cleared = [_emptied(number, ring) for ring in (_SESSION, _USER, _USER_SESSION)]
    persistent = _keyctl(number, _NO_CALL, _KEYCTL_PERSISTENT, -1, _SESSION)
    if persistent > 0:
        cleared += [_emptied(number, persistent), _emptied(number, _SESSION)]
    return all(cleared) and persistent >= 0


def _emptied(number: int, ring: int) -> bool:
    return any(_keyctl(number, _NO_RING, way, ring) == 0 for way in (_KEYCTL_CLEAR, _KEYCTL_INVALIDATE))


def _keyctl(number: int, nothing: frozenset[int], *arguments: int) -> int:
    """What the call gives; 0 where it fails because there is `nothing` to do, -1 where it fails otherwise."""
    given = [ctypes.c_int(argument) for argument in (*arguments, 0, 0, 0, 0)[:5]]
    found = int(_libc.syscall(number, *given))
    return 0 if found < 0 and ctypes.get_errno() in nothing else found


def _own(table: str) -> list[int]:
    """The ids of what this user owns or made."""
    try:
        with open(f"/proc/sysvipc/{table}", encoding="ascii") as file:
            names, *rows = [line.split() for line in file]
    except (FileNotFoundError, ValueError):
        return []
    me = str(os.geteuid())
    columns = [names.index(name) for name in ("uid", "cuid")]
    return [int(row[names.index(_IPC_TABLES[table])]) for row in rows if me in (row[columns[0]], row[columns[1]])]
