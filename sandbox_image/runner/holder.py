"""Workspace folders that stay between the runs of a session, each with a host user of its own.

A folder is used by one run at a time, and only programs of its session have its user meanwhile. Bounded in number
and bytes; the one used longest ago goes first, and one that nobody uses goes after a while. A folder after a run that
broke, or whose user may still have a process, is never used again.

    <work>/held/<slot>-<token>/        root, 0710, group = the slot's user: no other user gets in
        data/                          the workspace, of the slot's user
        program/                       root, 0755: the source of the run that goes on
        scratch/                       the slot's user, only where there is no mount namespace
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from sandbox_image.runner.snapshot import Snapshot
from sandbox_image.runner.sync import Owner, empty
from sandbox_image.runner.tree import DIR_FLAGS, remove
from sandbox_image.runner.wipe import wipe

_ENTRY_BYTES = 16 << 10
"""What one entry counts beside its bytes: it costs memory and an inode."""


class NoFolder(Exception):
    """Every user is in use or retired."""


@dataclass(slots=True, eq=False)
class Held:
    """A folder in use. `present` is what it holds; None once that is not known, which discards it at release.

    `used` orders the folders by their last use; 0 before the first.
    """

    name: str
    slot: int
    folder: str
    path: str
    fd: int
    owner: Owner | None
    present: Snapshot | None = field(default_factory=Snapshot)
    size: int = 0
    used: int = 0
    since: float = 0.0
    dirty_user: bool = False

    @property
    def program(self) -> str:
        """The folder of the program's source."""
        return f"{self.folder}/program"

    @property
    def scratch(self) -> str:
        """The folder that stands for /tmp where there is no mount namespace."""
        return f"{self.folder}/scratch"


class Folders(Protocol):
    """Hands out folders; thread-safe."""

    def take(self, name: str) -> Held:
        """The folder of `name`. Errors: NoFolder, OSError."""

    def prepare(self, held: Held) -> None:
        """Make what a program needs beside its workspace. Errors: OSError."""

    def settle(self, held: Held) -> None:
        """Take it away again with all that the program left elsewhere, before anything of the run is looked at."""

    def give_back(self, held: Held) -> None:
        """End the use."""


class Holder:
    """Hands out folders. Thread-safe. `uid_base` None: there is no user to give (the runner is not root)."""

    def __init__(
        self, work: str, uid_base: int | None, *, slots: int, held_max: int, bytes_max: int, idle_s: float = 900
    ) -> None:
        self._uid_base = uid_base
        self._held_max = held_max
        self._bytes_max = bytes_max
        self._idle_s = idle_s
        self._held: dict[str, Held] = {}
        self._free = list(range(slots, 0, -1))
        self._lock = threading.Lock()
        self._clock = itertools.count(1)
        self._fds = {name: _subfolder(work, name) for name in ("held", "trash")}
        self._paths = {name: f"{work}/{name}" for name in ("held", "trash")}
        self._full = threading.Event()
        for name, fd in self._fds.items():
            for left in os.listdir(fd):
                self._discard_name(name, left)
        threading.Thread(target=self._empty_trash, name="trash", daemon=True).start()

    def take(self, name: str) -> Held:
        """The folder of `name`, or a new one when it has none or another run has it.

        Errors: NoFolder, OSError.
        """
        with self._lock:
            held = self._held.pop(name, None)
            if held is not None:
                return held
            slot = self._slot()
        return self._new(name, slot)

    def prepare(self, held: Held) -> None:
        """Make the scratch folder, which a program without a mount namespace uses."""
        os.mkdir(held.scratch, 0o700)
        if held.owner is not None:
            os.chown(held.scratch, held.owner.uid, held.owner.gid)

    def settle(self, held: Held) -> None:
        """Remove it, and what the folder's user left in shared folders."""
        fd = os.open(held.folder, DIR_FLAGS)
        try:
            remove(fd, "scratch")
        finally:
            os.close(fd)
        if held.owner is not None and not wipe(held.owner.uid):
            held.dirty_user = True

    def give_back(self, held: Held) -> None:
        """End the use. Kept only if its content is known, its user clean, and no other has its name by now."""
        with self._lock:
            if held.present is None or held.dirty_user or held.name in self._held:
                self._drop(held)
                return
            held.size = held.present.size + _ENTRY_BYTES * len(held.present.records)
            held.used, held.since = next(self._clock), time.monotonic()
            self._held[held.name] = held
            total = sum(other.size for other in self._held.values())
            for other in sorted(self._held.values(), key=lambda other: other.used):
                if len(self._held) <= self._held_max and total <= self._bytes_max:
                    break
                total -= other.size
                del self._held[other.name]
                self._drop(other)

    def _slot(self) -> int:
        if not self._free:
            idle = min(self._held.values(), key=lambda held: held.used, default=None)
            if idle is None:
                raise NoFolder
            del self._held[idle.name]
            self._drop(idle)
        if not self._free:
            raise NoFolder
        return self._free.pop()

    def _new(self, name: str, slot: int) -> Held:
        folder = f"{slot}-{os.urandom(12).hex()}"
        path = f"{self._paths['held']}/{folder}"
        owner = None if self._uid_base is None else Owner(self._uid_base + slot, self._uid_base + slot)
        os.mkdir(folder, 0o700, dir_fd=self._fds["held"])
        fd = os.open(folder, DIR_FLAGS, dir_fd=self._fds["held"])
        try:
            data = empty(fd, "data", owner)
            os.mkdir("program", 0o755, dir_fd=fd)
            if owner is not None:
                os.fchown(fd, -1, owner.gid)
                os.fchmod(fd, 0o710)
        finally:
            os.close(fd)
        return Held(name, slot, path, f"{path}/data", data, owner)

    def _drop(self, held: Held) -> None:
        """Forget a folder; its user is free again unless something of it may still live."""
        os.close(held.fd)
        self._discard_name("held", os.path.basename(held.folder))
        if not held.dirty_user:
            self._free.append(held.slot)

    def _discard_name(self, place: str, name: str) -> None:
        if place == "held":
            os.rename(name, os.urandom(12).hex(), src_dir_fd=self._fds["held"], dst_dir_fd=self._fds["trash"])
        self._full.set()

    def drop_idle(self) -> None:
        """Drop what was not used for `idle_s`: a session that ended leaves no bytes here for long."""
        with self._lock:
            before = time.monotonic() - self._idle_s
            for held in [held for held in self._held.values() if held.since <= before]:
                del self._held[held.name]
                self._drop(held)

    def _empty_trash(self) -> None:
        while True:
            self._full.wait(min(60.0, self._idle_s))
            self._full.clear()
            self.drop_idle()
            for name in os.listdir(self._fds["trash"]):
                try:
                    remove(self._fds["trash"], name)
                except OSError:
                    continue


def _subfolder(work: str, name: str) -> int:
    """Make a folder of the runner's own, which others may pass through (0711) but not read."""
    path = f"{work}/{name}"
    os.makedirs(path, 0o711, exist_ok=True)
    fd = os.open(path, DIR_FLAGS)
    os.fchmod(fd, 0o711 if name == "held" else 0o700)
    return fd
