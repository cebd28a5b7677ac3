"""The chain of a run: supervise -> bubblewrap -> enter -> program. Every layer can be switched off alone, for probes.

A chain is an argument list; nothing of it passes a shell. A file name of a program never stands in it: only paths
of the runner's own making.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LAYERS = ("clean", "reap", "filter", "paths", "namespaces", "memory", "wipe")
INSIDE_JAIL = "/run/workroom/jail"
WORKSPACE, PROGRAM, SCRATCH = "/mnt/data", "/program", "/tmp"
_SHM_BYTES = 64 << 20
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc", "/opt", "/proc", "/dev", "/sys", "/run", "/var")


@dataclass(frozen=True, slots=True)
class Machine:
    """What the chain stands on: the toolchain root, the jail, bubblewrap, and where memory cgroups are made."""

    root: str
    jail: str
    bwrap: str
    cgroups: str | None = None
    cores: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What `enter` and `supervise` enforce; units as in RunLimits. 0 switches a watcher off."""

    wall_ms: int
    memory_bytes: int
    processes: int
    open_files: int
    file_bytes: int
    tmp_bytes: int
    workspace_bytes: int = 0
    workspace_entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One program to start. `compile` is empty for an interpreted one. Paths are the host's.

    `uid` is None where the runner is not root: the program then has the runner's own user, and `guarded` are the
    processes and threads that the filter guards from it. `sole`: /tmp and /dev/shm are this run's alone. `variables`
    is a file, as the program sees it, of more variables (`NAME=value`, each ended by a NUL) that replace those of
    `env`; "" is none. Only the program's and the compiler's exec gets them: neither finds its own file by them, nor is
    anything before it loaded with them.
    """

    name: str
    command: Sequence[str]
    compile: Sequence[str] = ()
    env: Mapping[str, str]
    workspace: str
    program: str
    scratch: str
    uid: int | None
    bounds: Bounds
    layers: frozenset[str]
    folders: Sequence[str] = field(default=())
    guarded: Sequence[int] = field(default=())
    sole: bool = False
    variables: str = ""


def chain(machine: Machine, job: Job, status_fd: int, control_fd: int) -> list[str]:
    """The whole argument list."""
    command = [*_supervise(machine, job, status_fd, control_fd), "--"]
    if "namespaces" in job.layers:
        command += _bubblewrap(machine, job)
    return [*command, *_enter(machine, job), "--", *job.compile, *job.command]


def _supervise(machine: Machine, job: Job, status_fd: int, control_fd: int) -> list[str]:
    bounds, layers = job.bounds, job.layers
    command = [machine.jail, "supervise", "--status-fd", str(status_fd), "--control-fd", str(control_fd)]
    command += ["--wall-ms", str(bounds.wall_ms)]
    if job.uid is not None:
        command += ["--uid", str(job.uid), "--gid", str(job.uid)]
    if "memory" in layers:
        command += ["--memory", str(bounds.memory_bytes)]
        if machine.cgroups is not None:
            command += ["--cgroup", f"{machine.cgroups}/{job.name}"]
        if "namespaces" in layers or job.sole:
            command += ["--tmpfs", "/tmp", "--tmpfs", "/dev/shm", "--sole", str(int(job.sole))]
    if bounds.workspace_bytes:
        command += ["--watch-dir", job.workspace, "--watch-bytes", str(bounds.workspace_bytes)]
        command += ["--watch-entries", str(bounds.workspace_entries)]
    if "reap" not in layers:
        command += ["--reap", "0"]
    elif job.sole:
        # Sooner than elsewhere: whoever waits for the supervisor ends what is left after it.
        command += ["--reap-ms", "5000"]
    if "clean" not in layers:
        command += ["--clean", "0", "--dumpable", "1"]
    return command


def _bubblewrap(machine: Machine, job: Job) -> list[str]:
    """The toolchain root read-only as `/`; nothing of the host. Everything writable is the run's own."""
    command = [machine.bwrap, "--unshare-all", "--die-with-parent", "--as-pid-1", "--new-session"]
    command += ["--hostname", "workroom", "--uid", "1000", "--gid", "1000"]
    command += ["--ro-bind", machine.root, "/", "--dev", "/dev", "--proc", "/proc"]
    command += ["--size", str(job.bounds.tmp_bytes), "--tmpfs", "/tmp"]
    command += ["--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm", "--size", "65536", "--tmpfs", "/run"]
    command += ["--ro-bind", machine.jail, INSIDE_JAIL, "--remount-ro", "/run", "--remount-ro", "/dev"]
    command += ["--bind", job.workspace, "/mnt/data", "--bind", job.workspace, "/workspace"]
    command += ["--ro-bind", job.program, PROGRAM, "--chdir", "/"]
    if "clean" in job.layers:
        command.append("--clearenv")
    return command


def _enter(machine: Machine, job: Job) -> list[str]:
    bounds, layers = job.bounds, job.layers
    inside = "namespaces" in layers
    command = [INSIDE_JAIL if inside else machine.jail, "enter"]
    command += ["--cwd", WORKSPACE if inside else job.workspace]
    for folder in job.folders:
        command += ["--mkdir", folder]
    for name, value in job.env.items():
        command += ["--env", f"{name}={value}"]
    if job.variables:
        command += ["--variables", job.variables]
    seconds = -(-bounds.wall_ms // 1000) * machine.cores + 1
    limits = {
        "nproc": bounds.processes, "nofile": bounds.open_files, "fsize": bounds.file_bytes,
        "cpu": seconds, "core": 0, "memlock": 0,
    }  # fmt: skip
    if not inside:
        limits["msgqueue"] = 0  # a queue would outlive the run
    for resource, most in limits.items():
        command += ["--rlimit", f"{resource}={most}"]
    if "filter" not in layers:
        command += ["--filter", "0"]
    elif not inside:
        for number in job.guarded:
            command += ["--protect", str(number)]
    if "clean" not in layers:
        command += ["--clean", "0"]
    if "paths" in layers:
        command += _landlock(machine, job, inside)
    if job.compile:
        command += ["--compile", str(len(job.compile))]
    return command


def _landlock(machine: Machine, job: Job, inside: bool) -> list[str]:
    if inside:
        readable, writable = ["/"], ["/mnt/data", "/workspace", "/tmp", "/dev"]
    elif job.sole:
        readable, writable = ["/"], [job.workspace, job.scratch, "/dev"]
    else:
        readable, writable = [*_SYSTEM, machine.jail, job.program], [job.workspace, job.scratch, "/dev/null"]
    command: list[str] = []
    for path in readable:
        command += ["--landlock-ro", path]
    for path in writable:
        command += ["--landlock-rw", path]
    return command


def find(name: str) -> str | None:
    """The path of a program of the host, in the system's own folders only."""
    for folder in ("/usr/bin", "/bin", "/usr/local/bin"):
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK):
            return path
    return None
