"""What a run leaves outside its workspace where it has no mount namespace: files of its user in shared folders.

With namespaces /tmp and /dev/shm are the run's own and vanish with it.
"""

from __future__ import annotations

import os

from sandbox_image.runner.tree import DIR_FLAGS, remove

SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")


def wipe(first: int, count: int = 1) -> bool:
    """Remove everything of the users `first` to `first + count - 1`; whether a second look finds nothing."""
    users = range(first, first + count)
    left = [folder for folder in SHARED_FOLDERS if not _sweep(folder, users)]
    return not left


def _sweep(folder: str, users: range) -> bool:
    try:
        fd = os.open(folder, DIR_FLAGS)
    except OSError:
        return True
    try:
        for name in _owned(fd, users):
            try:
                remove(fd, name)
            except OSError:
                return False
        return not _owned(fd, users)
    finally:
        os.close(fd)


def _owned(fd: int, users: range) -> list[str]:
    names = []
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_uid in users:
                    names.append(entry.name)
            except OSError:
                continue
    return names
