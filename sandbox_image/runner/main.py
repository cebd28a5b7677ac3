"""Starts the executor process: `python -m sandbox_image.runner --fd N --root R --jail J --work W`."""

from __future__ import annotations

import os
import resource
import socket

from sandbox_image.runner import probes, program, station
from sandbox_image.runner.holder import Holder
from sandbox_image.runner.jailed import LAYERS, Machine, find
from sandbox_image.runner.run import Runner
from sandbox_image.runner.server import Server

_HELD, _HELD_BYTES = 64, 8 << 30
_OPTIONS = ("fd", "root", "jail", "work", "off")


def main(arguments: list[str]) -> int:
    """Serve until the socket ends. `--off` names layers not to apply, for tests. Exit code 2: wrong arguments."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if len(arguments) % 2 or set(options) - {f"--{name}" for name in _OPTIONS} or "--fd" not in options:
        return 2
    sock = socket.socket(fileno=int(options["--fd"]))
    os.set_inheritable(sock.fileno(), False)
    os.umask(0o022)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    off = frozenset(options.get("--off", "").split(",")) - {""}
    runner, shown, trouble = None, dict[str, probes.Shown](), ""
    try:
        runner, shown = prepare(options["--root"], options["--jail"], options["--work"], off)
    except station.NoStation as error:
        trouble = str(error)
    except OSError as error:
        trouble = f"{type(error).__name__}: {error.strerror}"
    Server(sock, runner, shown, trouble).serve()
    # Threads of runs are not waited for: the supervisors end their programs as soon as this process is gone.
    os._exit(0)


def prepare(root: str, jail: str, work: str, off: frozenset[str]) -> tuple[Runner, dict[str, probes.Shown]]:
    """Take the place, remove what a dead runner left, probe the layers. Errors: NoStation, OSError."""
    for path, what in ((root, "the toolchain root"), (jail, "the jail")):
        if not os.path.exists(path):
            raise station.NoStation(f"{what} is not there")
    root, jail, work = (os.path.realpath(path) for path in (root, jail, work))
    first = None
    if os.geteuid() == 0:
        work = station.open_place(work)
        for path, what in ((root, "the toolchain root"), (os.path.dirname(jail), "the jail")):
            if station.closed_to_others(path):
                raise station.NoStation(f"{what} lies in a folder that other users may not pass through")
        first, _ = station.take_block()
    station.lock_work(work)
    if first is not None and not station.clear_users(first):
        raise station.NoStation("processes of a dead runner cannot be ended")
    bwrap = find("bwrap")
    cgroups = station.open_cgroups(first) if first is not None else None
    machine = Machine(root, jail, bwrap or "/usr/bin/bwrap", cgroups, os.cpu_count() or 1)
    holder = Holder(work, first, slots=station.BLOCK - 1, held_max=_HELD, bytes_max=_HELD_BYTES)
    shown = probes.probe_all(machine, holder)
    layers = frozenset(name for name in LAYERS if shown[name].usable and name not in off)
    shown |= {name: probes.Shown(False, False, "it is switched off") for name in off}
    return Runner(machine, holder, layers, program.Toolchains(root, inside="namespaces" in layers)), shown
