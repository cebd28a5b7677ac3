"""Becomes the emulator in an environment like Lambda's: `python -m tests.sandbox.inside JSON`, as root.

    lowers      folders of the root, the topmost first: put over each other, read-only
    place       an empty folder, where the root is mounted
    tmp_bytes   size of /tmp
    shm         whether there is a /dev/shm
    uid         the user of the function
    above       whether the emulator is above that user, as the platform's own process is; else it has it too
    refused     "namespaces", or "everything": also no_new_privs, filters, and all that is newer than Linux 5.10
    command     the emulator's, in the root
    runtime     the function's
    env         the whole environment

A mount, process and IPC namespace of its own; the network is the machine's. When this process is killed, all ends.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import struct
import sys
from typing import Any, Final

_libc = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NEW_PROCESSES, _NEW_IPC = 0x20000, 0x20000000, 0x08000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_MS_REMOUNT: Final = 32
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 24, 22, 38
_X86_64 = 0xC000003E
_CLONE, _CLONE3, _PRCTL, _SECCOMP = 56, 435, 157, 317
_PRIVILEGED = {
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "umount2": 166,
    "chroot": 161,
    "pivot_root": 155,
    "ptrace": 101,
}
_LAST_OF_5_10 = 440
_PERHAPS = {"pidfd_send_signal": 424, "pidfd_open": 434, "close_range": 436}
"""Not known to be refused; what stands on them must also stand without."""
_NEW_ANY = 0x7E020000
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


def main() -> None:
    """Never returns."""
    how: dict[str, Any] = json.loads(sys.argv[1])
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_PROCESSES | _NEW_IPC), "unshare")
    child = os.fork()
    if child:
        # The first process of the name space: with it everything inside ends, and with us, it.
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    root = how["place"]
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", root, "tmpfs", 0)
    os.mkdir(f"{root}/r")
    root = f"{root}/r"
    _mount("overlay", root, "overlay", _MS_RDONLY | _MS_NODEV, f"lowerdir={':'.join(how['lowers'])}")
    _mount("proc", f"{root}/proc", "proc", _MS_NOSUID)
    _mount("tmpfs", f"{root}/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={how['tmp_bytes']},mode=1777")
    _devices(f"{root}/dev", shm=how["shm"])
    os.chroot(root)
    os.chdir("/tmp")
    command, runtime = how["command"], how["runtime"]
    _stay_first()
    _filter(everything=how["refused"] == "everything")
    if how["above"]:
        user = str(how["uid"])
        drop = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--bounding-set=-all", "--"]
        os.execve(command[0], [*command, *drop, *runtime], how["env"])
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(how["uid"], how["uid"], how["uid"])
    os.setresuid(how["uid"], how["uid"], how["uid"])
    os.execve(command[0], [*command, *runtime], how["env"])


def _stay_first() -> None:
    """Go on in a child; this process stays the first of its name space, buries the dead, and ends with the child."""
    child = os.fork()
    if child == 0:
        return
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _devices(dev: str, *, shm: bool) -> None:
    places = {name: os.open(f"/dev/{name}", os.O_PATH) for name in _DEVICES}
    _mount("tmpfs", dev, "tmpfs", _MS_NOSUID, "mode=755")
    for name, fd in places.items():
        os.close(os.open(f"{dev}/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        _mount(f"/proc/self/fd/{fd}", f"{dev}/{name}", None, _MS_BIND)
        os.close(fd)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{dev}/{name}")
    if shm:
        os.mkdir(f"{dev}/shm")
        _mount("tmpfs", f"{dev}/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "size=67108864,mode=1777")
    _mount("none", dev, None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None, flags, data.encode())
    _check(_libc.mount(*arguments), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _refuse(number: int, error: int) -> bytes:
    return _step(_EQUAL, number, 0, 1) + _step(_RETURN, _ERROR | error)


def _filter(*, everything: bool) -> None:
    """What the platform refuses. Loaded by root, so that no_new_privs stays as it is."""
    number, first = _step(_LOAD, 0), _step(_LOAD, 16)
    code = _step(_LOAD, 4) + _step(_EQUAL, _X86_64, 1, 0) + _step(_RETURN, _ERROR | errno.EPERM)
    code += number
    if everything:
        code += _step(_ABOVE, _LAST_OF_5_10, 0, 1) + _step(_RETURN, _ERROR | errno.ENOSYS)
        code += _refuse(_SECCOMP, errno.EPERM)
        code += b"".join(_refuse(call, errno.ENOSYS) for call in _PERHAPS.values())
        code += _step(_EQUAL, _PRCTL, 0, 5) + first
        code += _refuse(_PR_SET_NO_NEW_PRIVS, errno.EPERM)
        code += _step(_EQUAL, _PR_SET_SECCOMP, 0, 1) + _step(_RETURN, _ERROR | errno.EPERM)
        code += number
    code += b"".join(_refuse(call, errno.EPERM) for call in _PRIVILEGED.values())
    code += _refuse(_CLONE3, errno.ENOSYS)
    code += _step(_EQUAL, _CLONE, 0, 3) + first + _step(_ANY_BIT, _NEW_ANY, 0, 1) + _step(_RETURN, _ERROR | errno.EPERM)
    code += _step(_RETURN, _ALLOW)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    _check(_libc.prctl(_PR_SET_SECCOMP, 2, program, 0, 0), "seccomp")


if __name__ == "__main__":
    main()
