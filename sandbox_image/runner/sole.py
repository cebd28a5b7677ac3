"""The runner where everything has one user and nothing is namespaced, as in AWS Lambda (DESIGN §7, platform.md).

Then the environment is the only boundary between tenants, and what is kept here is: one program at a time; no process
of one run lives on; no writable folder that served one session serves another. Each of these is looked for after the
fact, and where it does not hold the environment is given up (`Unclean`), never used again.

    /tmp/.workspace/  the files of the session; /mnt/data and /workspace of the image lead here, or to another name
                      in /tmp. Hidden: programs that empty /tmp do not mean it
    /tmp/program/     the source of the run that goes on; /program of the image leads here
    /tmp/…            the program's scratch space
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from sandbox_image.runner import hardened, probes, strangers
from sandbox_image.runner.holder import Held
from sandbox_image.runner.jailed import LAYERS, PROGRAM, SCRATCH, WORKSPACE, Machine, find
from sandbox_image.runner.program import Places, Toolchains
from sandbox_image.runner.run import RunFailed, Runner
from sandbox_image.runner.strangers import Named
from sandbox_image.runner.sync import empty
from sandbox_image.runner.tree import DIR_FLAGS, remove
from sandbox_image.runner.wipe import wipe

_PROBES, _HIDDEN = "probes", ".workspace"
_END_S = 6.0
_MOST_GUARDED = 40
"""Each id costs the filter some seventy instructions of the 4,096 that the kernel takes."""
_MACHINE_NAMESPACE = "pid:[4026531836]"


class Unclean(Exception):
    """Something of a run is left, or has touched the runner: the environment must go. The text says what."""


class NotAlone(Exception):
    """Others may have this user here: they would be ended as strangers."""


class SoleFolders:
    """Hands out the one workspace, to one run at a time. Not thread-safe. Errors of all: Unclean, OSError."""

    def __init__(self, spare: frozenset[Named], workspace: str) -> None:
        self._spare = spare
        self._name = workspace
        self._held: Held | None = None
        self._state = hardened.own_state()
        self._top = os.open(SCRATCH, DIR_FLAGS)

    def take(self, name: str) -> Held:
        """The folder of `name`; what another name had is removed first, and looked for."""
        held, self._held = self._held, None
        if held is not None and held.name == name:
            return held
        if held is not None:
            os.close(held.fd)
        self.clear(frozenset())
        fd = empty(self._top, self._name, None)
        return Held(name, 0, SCRATCH, f"{SCRATCH}/{self._name}", fd, None)

    def prepare(self, held: Held) -> None:
        """Make the folder of the source."""
        os.mkdir(held.program, 0o755)

    def settle(self, held: Held) -> None:
        """End every process, empty every folder but the workspace.

        A run that removed the workspace itself, or put it elsewhere, fails: nothing of that is believed to be meant.
        Errors: RunFailed too.
        """
        self.clear(frozenset({self._name}))
        if not _same(held):
            self.clear(frozenset())
            raise RunFailed("broken", "the workspace was removed or put elsewhere")

    def give_back(self, held: Held) -> None:
        """Keep it for the next run of its session, if its content is known."""
        if held.present is None or held.dirty_user:
            os.close(held.fd)
            remove(self._top, self._name)
            return
        held.used = 1
        self._held = held

    def clear(self, keep: frozenset[str]) -> None:
        """Nobody else lives, nothing else lies there, and nothing of ours was changed; or Unclean."""
        if not strangers.end_all(self._spare, _END_S):
            raise Unclean("a process lives on")
        me = os.geteuid()
        if not wipe(me, keep=keep):
            raise Unclean("a folder is not empty")
        if not hardened.clear_ipc():
            raise Unclean("shared memory is left")
        if hardened.own_state() != self._state:
            raise Unclean("the runner was given other limits")


def _same(held: Held) -> bool:
    """Whether the path still leads to the folder whose descriptor is held."""
    try:
        there = os.stat(held.path, follow_symlinks=False)
    except OSError:
        return False
    here = os.fstat(held.fd)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


class _ProbeFolders:
    """A folder for each attack; all go when the probing ends."""

    def __init__(self) -> None:
        self._top = f"{SCRATCH}/{_PROBES}"
        os.mkdir(self._top, 0o755)

    def take(self, name: str) -> Held:
        """A new one."""
        folder = f"{self._top}/{name}"
        os.mkdir(folder, 0o755)
        fd = os.open(folder, DIR_FLAGS)
        try:
            data = empty(fd, "data", None)
        finally:
            os.close(fd)
        return Held(name, 0, folder, f"{folder}/data", data, None)

    def prepare(self, held: Held) -> None:
        """Nothing."""

    def settle(self, held: Held) -> None:
        """Remove what an attack left for others to find."""
        if not wipe(os.geteuid(), keep=frozenset({_PROBES})):
            raise OSError("a folder is not empty")

    def give_back(self, held: Held) -> None:
        """End the use."""
        os.close(held.fd)


def refuse_company() -> None:
    """Refuse to work where strangers are likely to be a person's own processes. Errors: NotAlone."""
    with contextlib.suppress(OSError):
        if os.geteuid() == 0 and os.readlink("/proc/self/ns/pid") == _MACHINE_NAMESPACE:
            raise NotAlone("root of the machine is never alone")


def prepare(jail: str) -> tuple[Runner, dict[str, probes.Shown]]:
    """Take the environment over: end and empty what a predecessor left, probe the layers.

    Errors: NotAlone, Unclean, OSError.
    """
    refuse_company()
    if not os.access(jail, os.X_OK):
        raise OSError("the jail is not there")
    hardened.hide()
    spare = strangers.family()
    workspace = _led_to(WORKSPACE) or _HIDDEN
    folders = SoleFolders(spare, workspace)
    folders.clear(frozenset())
    machine = Machine("/", jail, find("bwrap") or "/usr/bin/bwrap", None, os.cpu_count() or 1)
    shown = probes.probe_all(machine, _ProbeFolders(), guarded=[str(os.getpid())])
    folders.clear(frozenset())
    layers = frozenset(name for name in LAYERS if shown[name].usable and name != "namespaces")
    runner = Runner(machine, folders, layers, Toolchains("", inside=False), _places(workspace), lambda: _guarded(spare))
    return runner, shown


def _led_to(name: str) -> str:
    """The name in /tmp that the image leads a fixed name to; "" where it does not."""
    folder, _, last = os.path.realpath(name).rpartition("/")
    return last if folder == SCRATCH else ""


def _places(workspace: str) -> Places:
    """Where a program sees its folders: by the fixed names where the image leads them there."""
    program = PROGRAM if _led_to(PROGRAM) == "program" else f"{SCRATCH}/program"
    return Places(program, SCRATCH, WORKSPACE if _led_to(WORKSPACE) else f"{SCRATCH}/{workspace}")


def _guarded(spare: frozenset[Named]) -> Sequence[int]:
    """This process and those above it, their groups, and their threads as far as they fit.

    A thread can be killed by its own id.
    """
    pids = sorted((pid for pid, _ in spare), reverse=True)
    groups = [group for pid in pids if (group := os.getpgid(pid)) > 0]
    threads = [thread for pid in pids for thread in _threads(pid)]
    return list(dict.fromkeys([*pids, *groups, *threads]))[:_MOST_GUARDED]


def _threads(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from map(int, os.listdir(f"/proc/{pid}/task"))
