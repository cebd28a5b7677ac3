"""What a run leaves outside its workspace where it has no mount namespace: files of its user in shared folders.

With namespaces /tmp and /dev/shm are the run's own and vanish with it.
"""

from __future__ import annotations

import os

from sandbox_image.runner.tree import DIR_FLAGS, remove

SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")


def wipe(first: int, count: int = 1, keep: frozenset[str] = frozenset()) -> bool:
    """Remove everything of the users `first` to `first + count - 1`; whether a second look finds nothing.

    `keep` are names directly in /tmp.
    """
    users = range(first, first + count)
    left = [folder for folder in SHARED_FOLDERS if not _sweep(folder, users, keep if folder == "/tmp" else frozenset())]
    return not left


def _sweep(folder: str, users: range, keep: frozenset[str]) -> bool:
    try:
        fd = os.open(folder, DIR_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    try:
        for name in _owned(fd, users, keep):
            try:
                remove(fd, name)
            except OSError:
                return False
        return not _owned(fd, users, keep)
    finally:
        os.close(fd)


def _owned(fd: int, users: range, keep: frozenset[str]) -> list[str]:
    names = []
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_uid in users and entry.name not in keep:
                    names.append(entry.name)
            except OSError:
                continue
    return names
