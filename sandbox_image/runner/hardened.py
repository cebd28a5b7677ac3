"""What the runner does to itself before the first program that has its user: it shows nothing and keeps nothing.

The C library is called directly; the standard library has no name for these.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Callable

_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_KEYCTL_CLEAR, _USER_KEYRING = 7, -4
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
    """What another process of this user can change of ours: rank, cores, limits."""
    limits = tuple(resource.getrlimit(number) for number in sorted({*_limits()}))
    return (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), frozenset(os.sched_getaffinity(0)), limits)


def _limits() -> list[int]:
    return [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def clear_ipc() -> bool:
    """Remove the System V objects and the keys of this user, which outlive their makers; whether none is left."""
    if number := _KEYCTL.get(os.uname().machine):
        _libc.syscall(number, _KEYCTL_CLEAR, ctypes.c_int(_USER_KEYRING), 0, 0, 0)
    for table in _IPC_TABLES:
        for key in _own(table):
            arguments = (key, 0, _IPC_RMID) if table == "sem" else (key, _IPC_RMID, None)
            getattr(_libc, f"{table}ctl")(*arguments)
    return not any(_own(table) for table in _IPC_TABLES)


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
