"""The kernel's keys outlive the processes that made them: none of a run's is found by the next (cases.md A15)."""

from __future__ import annotations

from tests.sandbox.rooms import Room

_KEYS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
number = lambda value: ctypes.c_int(value)
libc.syscall(250, 22, number(-1), number(-3))  # the persistent keyring, linked to the session's
persistent = libc.syscall(250, 22, number(-1), number(-4))
rings = {"session": -3, "user": -4, "user session": -5, "persistent": persistent}
for name, ring in rings.items():
    if sys.argv[1] == "put":
        done = libc.syscall(248, b"user", name.encode(), b"left by a run", 13, number(ring)) > 0
    else:
        done = libc.syscall(250, 10, number(ring), b"user", name.encode(), 0) > 0
    print(name, done)
"""
_NAMES = ("session", "user", "user session", "persistent")
_LOCK = """
import ctypes
libc = ctypes.CDLL(None)
libc.syscall(248, b"user", b"user session", b"left by a run", 13, ctypes.c_int(-5))
# Whoever has the user may look and search, and nothing else.
libc.syscall(250, 5, ctypes.c_int(-5), ctypes.c_uint(0x0B0B0000))
"""


def test_no_key_of_a_run_is_found_by_the_next(sole: Room) -> None:
    put = sole.python(_KEYS, "keeper", args=("put",))
    assert put.code == 0, put
    # Where the filter is, there are no keys at all.
    wanted = "False" if sole.filtered else "True"
    assert put.stdout == "".join(f"{name} {wanted}\n" for name in _NAMES), put
    for session in ("keeper", "other"):
        got = sole.python(_KEYS, session, args=("get",))
        assert got.stdout == "".join(f"{name} False\n" for name in _NAMES), got


def test_a_keyring_that_its_owner_may_not_empty_is_not_found_either(sole: Room) -> None:
    sole.python(_LOCK)
    got = sole.python(_KEYS, "other", args=("get",))
    assert got.stdout == "".join(f"{name} False\n" for name in _NAMES), got
    again = sole.python(_KEYS, "keeper", args=("put",))
    assert again.stdout.count("True") == (0 if sole.filtered else 4), again
    assert sole.python(_KEYS, "last", args=("get",)).stdout == got.stdout
