"""Folders by descriptor: every step is openat with O_NOFOLLOW, so a link that a program left is never followed.

A path never reaches the kernel whole: a workspace path may be longer than PATH_MAX. A runner without root's
powers shares its user with the programs, and is kept out of a folder or file by its mode as they are: it opens the mode
for the time of its look. No program runs meanwhile.
"""

from __future__ import annotations

import functools
import os
import stat
from types import TracebackType

DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FLAT = 64


class Climber:
    """Opens the parent folders of paths below `root`, keeping the chain of the last one.

    Meant for paths in sorted order; at most `path_depth` descriptors are open. A context manager. Any folder of the
    chain that is a link or not a folder raises OSError.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._names: list[str] = []
        self._fds: list[int] = []
        self._modes: list[int | None] = []

    def parent(self, path: str) -> tuple[int, str]:
        """The descriptor of the folder that holds `path` (valid until the next call) and its last name."""
        *names, last = path.split("/")
        same = 0
        for ours, theirs in zip(self._names, names, strict=False):
            if ours != theirs:
                break
            same += 1
        self._cut(same)
        for name in names[same:]:
            fd, mode = open_folder(self._fds[-1] if self._fds else self._root, name)
            self._fds.append(fd)
            self._modes.append(mode)
            self._names.append(name)
        return (self._fds[-1] if self._fds else self._root), last

    def _cut(self, keep: int) -> None:
        while len(self._fds) > keep:
            close_folder(self._fds.pop(), self._modes.pop())
            self._names.pop()

    def __enter__(self) -> Climber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cut(0)


def open_folder(parent: int, name: str) -> tuple[int, int | None]:
    """Open a folder for whatever is done below it. What comes with it is for `close_folder`. Errors: OSError."""
    if _overrides():
        return os.open(name, DIR_FLAGS, dir_fd=parent), None
    try:
        fd = os.open(name, DIR_FLAGS, dir_fd=parent)
    except PermissionError:
        mode = _mode(os.stat(name, dir_fd=parent, follow_symlinks=False), stat.S_IFDIR)
        os.chmod(name, mode | 0o700, dir_fd=parent)
        return os.open(name, DIR_FLAGS, dir_fd=parent), mode
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & 0o700 == 0o700:
        return fd, None
    try:
        os.fchmod(fd, mode | 0o700)
    except OSError:
        os.close(fd)
        raise
    return fd, mode


def close_folder(fd: int, mode: int | None) -> None:
    """Close it, with the mode that it had."""
    if mode is not None:
        os.fchmod(fd, mode)
    os.close(fd)


def open_to_read(parent: int, name: str, flags: int) -> tuple[int, bool]:
    """Open a file that the program may have closed to its own user. True: that has moved its ctime. Errors: OSError."""
    try:
        return os.open(name, flags, dir_fd=parent), False
    except PermissionError:
        if _overrides():
            raise
    mode = _mode(os.stat(name, dir_fd=parent, follow_symlinks=False), stat.S_IFREG)
    os.chmod(name, mode | 0o400, dir_fd=parent)
    fd = os.open(name, flags, dir_fd=parent)
    os.fchmod(fd, mode)
    return fd, True


@functools.cache
def _overrides() -> bool:
    """Whether modes do not bar this process (CAP_DAC_OVERRIDE)."""
    with open("/proc/self/status", "rb") as file:
        powers = next(line for line in file if line.startswith(b"CapEff:")).split()[1]
    return bool(int(powers, 16) & 1 << 1)


def _mode(status: os.stat_result, kind: int) -> int:
    """The mode of what is of that kind. Errors: PermissionError: changing a mode by name would follow a link."""
    if stat.S_IFMT(status.st_mode) != kind:
        raise PermissionError("of another kind")
    return stat.S_IMODE(status.st_mode)


def remove(parent: int, name: str) -> None:
    """Remove `name` below `parent` with all that it holds; nothing there is fine. Any depth, few descriptors.

    Only for trees that no program can reach any more. A folder deeper than a bound is first moved up, so neither
    the stack nor the number of open descriptors follows what a program nested. Errors: OSError.
    """
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    top, _ = open_folder(parent, name)
    try:
        moved, token = 0, os.urandom(12).hex()
        while True:
            moved = _empty(top, top, 0, moved, token)
            with os.scandir(top) as left:
                if next(left, None) is None:
                    break
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _empty(top: int, here: int, depth: int, moved: int, token: str) -> int:
    with os.scandir(here) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, folder in found:
        if not folder:
            os.unlink(name, dir_fd=here)
            continue
        if depth >= _FLAT:
            moved += 1
            # A folder that is given another parent is written to itself.
            os.close(open_folder(here, name)[0])
            os.rename(name, f".moved-{token}-{moved}", src_dir_fd=here, dst_dir_fd=top)
            continue
        inner, _ = open_folder(here, name)
        try:
            moved = _empty(top, inner, depth + 1, moved, token)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=here)
    return moved
