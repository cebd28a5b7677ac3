"""Whether each layer holds: an attack that must fail with the layer on and succeed with it off (DESIGN §7).

An attack that fails both ways shows nothing, so such a layer counts as not active: it is the machine that stopped
it, or the probe that is broken. A layer with which no program starts is not applied.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Thread

from sandbox_image.runner import process
from sandbox_image.runner.holder import Folders, Held, NoFolder
from sandbox_image.runner.jailed import INSIDE_JAIL, LAYERS, Bounds, Job, Machine, chain
from sandbox_image.runner.output import Stream
from sandbox_image.runner.station import living
from sandbox_image.runner.wipe import wipe

_SUCCEEDED, _STOPPED = 0, 10
_MIB = 1 << 20
_LIMIT, _WANT = 48 * _MIB, 160 * _MIB
_DAEMON_S, _PATIENCE_S = 0.45, 10.0
_CANARY = {"WORKROOM_CANARY": "visible"}
_PLAIN = frozenset({"clean", "reap", "memory"})


@dataclass(frozen=True, slots=True)
class Shown:
    """What the probe of one layer showed. `usable`: a program starts with it."""

    active: bool
    usable: bool
    detail: str


class ProbeBroken(Exception):
    """A probe did not reach its attack."""


def probe_all(machine: Machine, holder: Folders, guarded: Sequence[str] = ()) -> dict[str, Shown]:
    """Probe every layer; about a second. Never raises: a broken probe is a layer that is not active.

    `guarded` are processes that no program may read, beside those of its chain.
    """
    bench = Bench(machine, holder, guarded)
    shown = {"namespaces": bench.show("namespaces")}
    if not shown["namespaces"].usable:
        bench.base = _PLAIN

    def one(name: str) -> None:
        shown[name] = bench.show(name)

    threads = [Thread(target=one, args=(name,), daemon=True) for name in LAYERS if name not in shown]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return {name: shown.get(name, Shown(False, False, "the probe did not end")) for name in LAYERS}


class Bench:
    """Runs attacks in chains of chosen layers, in a folder and under a user of their own. `base`: layers of all."""

    def __init__(self, machine: Machine, holder: Folders, guarded: Sequence[str] = ()) -> None:
        self._machine = machine
        self._holder = holder
        self._guarded = guarded
        self.base = _PLAIN | {"namespaces"}

    def show(self, name: str) -> Shown:
        """Attack with the layer on and with it off, at the same time unless one would wipe what the other left."""
        results: dict[bool, bool | str] = {}

        def arm(on: bool) -> None:
            try:
                with self._place() as held:
                    results[on] = self._succeeds(name, held, on=on)
            except (ProbeBroken, process.ChainFailed, NoFolder, OSError) as error:
                results[on] = str(error)[:200]

        other = Thread(target=arm, args=(False,), daemon=True)
        other.start()
        if name == "wipe" and "namespaces" not in self.base:
            other.join(30)
        arm(True)
        other.join(30)
        if results[True] is False and results.get(False) is False:
            arm(False)  # a machine that is busy can hold an attack up; alone it is tried once more
        through, without = results[True], results.get(False, "it did not end")
        if isinstance(through, str):
            return Shown(False, False, f"no program starts with it: {through}")
        if through:
            return Shown(False, True, "the attack succeeds with it")
        if isinstance(without, str):
            return Shown(False, True, f"the attack without it did not work: {without}")
        if not without:
            return Shown(False, True, "the attack fails without it too, so nothing is shown")
        return Shown(True, True, "the attack fails with it and succeeds without it")

    @contextlib.contextmanager
    def _place(self) -> Iterator[Held]:
        """A folder and a user for one attack; nothing of them stays."""
        held = self._holder.take(f"probe-{os.urandom(12).hex()}")
        held.present = None
        try:
            yield held
        finally:
            if held.owner is not None:
                _end(held.owner.uid)
            self._holder.give_back(held)

    def _succeeds(self, name: str, held: Held, *, on: bool) -> bool:
        """Whether the attack on one layer gets through."""
        plain = self.base - {"namespaces"}
        layers = (self.base | {name}) if on else (self.base - {name})
        bare = (plain | {name}) if on else (plain - {name})
        if name == "namespaces":
            file = _file(held, "marker")
            return self._attack(held, layers, "namespaces", str(os.getpid()), file) == _SUCCEEDED
        if name == "paths":
            return self._attack(held, bare, "paths", _folder(held, "beside")) == _SUCCEEDED
        if name == "memory":
            return self._attack(held, layers, "memory", str(_WANT), memory=_LIMIT) == _SUCCEEDED
        if name == "reap":
            return self._survives(held, bare, on=on)
        if name == "wipe":
            return self._left_behind(held, on=on)
        return self._attack(held, layers, name, *(self._guarded if name == "clean" else ())) == _SUCCEEDED

    def _survives(self, held: Held, layers: frozenset[str], *, on: bool) -> bool:
        """Whether a daemon lives on behind the answer: it is there at once, or does its work later."""
        touched = f"{held.path}/touched"
        self._attack(held, layers, "reap-daemon", touched)
        if on and held.owner is not None and living(held.owner.uid):
            return True
        until = time.monotonic() + (_DAEMON_S if on else _PATIENCE_S)
        while not os.path.lexists(touched) and time.monotonic() < until:
            time.sleep(0.01)
        return os.path.lexists(touched)

    def _left_behind(self, held: Held, *, on: bool) -> bool:
        """Whether a run sees what the one before left in /tmp and /dev/shm."""
        own = on and "namespaces" in self.base
        layers = self.base if own else self.base - {"namespaces"}
        name = f"workroom-{os.urandom(8).hex()}"
        self._attack(held, layers, "wipe-leave", name)
        if on and not own and held.owner is not None:
            wipe(held.owner.uid)
        elif on and not own:
            self._holder.settle(held)
        return self._attack(held, layers, "wipe-look", name) == _SUCCEEDED

    def _attack(self, held: Held, layers: frozenset[str], *arguments: str, memory: int = 1 << 30) -> int | None:
        """The exit code of `jail probe …`; None when it was killed. Errors: ProbeBroken, ChainFailed."""
        bounds = Bounds(
            wall_ms=10_000, memory_bytes=memory, processes=64, open_files=64, file_bytes=_MIB, tmp_bytes=_MIB
        )
        job = Job(
            name=os.urandom(12).hex(),
            command=[INSIDE_JAIL if "namespaces" in layers else self._machine.jail, "probe", *arguments],
            env={"PATH": "/usr/bin:/bin"},
            workspace=held.path,
            program=held.path,
            scratch=held.path,
            uid=None if held.owner is None else held.owner.uid,
            bounds=bounds,
            layers=layers,
        )
        argv = chain(self._machine, job, process.STATUS_FD, process.CONTROL_FD)
        status = process.listen(process.start(argv, _CANARY), Stream(4096), Stream(4096), _MIB)
        code = status.get("code")
        if status.get("reason") == "start":
            raise ProbeBroken(str(status.get("error")))
        if code not in (None, _SUCCEEDED, _STOPPED):
            raise ProbeBroken(f"the probe exits with {code}")
        return code if type(code) is int else None


def _file(held: Held, name: str) -> str:
    """A file of the host that the user may read: only a namespace hides it."""
    path = f"{held.folder}/{name}"
    with open(path, "wb"):
        os.chmod(path, 0o444)
    return path


def _folder(held: Held, name: str) -> str:
    """A folder outside the workspace that the user may write: only a layer forbids it."""
    path = f"{held.folder}/{name}"
    os.mkdir(path, 0o700)
    if held.owner is not None:
        os.chown(path, held.owner.uid, held.owner.gid)
    return path


def _end(uid: int) -> None:
    """Kill what an attack that succeeded left, and remove its files."""
    for pid in living(uid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    wipe(uid)
