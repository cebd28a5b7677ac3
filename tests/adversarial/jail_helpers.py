"""Builds the jail once a session and runs programs through its real chain, for the tests beside this file.

Everything here is outside the jail: it must not do any of the jail's work, only start it and read its one line.
"""

import atexit
import contextlib
import functools
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "sandbox_image" / "jail"
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or "/usr/bin/python3"
MIB = 1 << 20
INSIDE = "/run/workroom/jail"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

_uids = itertools.count(200_000 + os.getpid() % 10_000 * 100)


@functools.cache
def jail() -> str:
    """The path of the built binary, in a folder that every user may enter."""
    folder = tempfile.mkdtemp(prefix="jail-build-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    subprocess.run(["make", "-s", "-j2", "-C", str(SOURCE), f"OUT={folder}"], check=True, timeout=120)
    return f"{folder}/jail"


@functools.cache
def compiled(source: str) -> str:
    """The path of a C program, built static so that it runs in any root."""
    folder = tempfile.mkdtemp(prefix="jail-attack-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    subprocess.run(
        ["cc", "-D_GNU_SOURCE", "-O1", "-static", "-o", f"{folder}/attack", "-xc", "-"],
        input=source.encode(), check=True, timeout=60,
    )  # fmt: skip
    return f"{folder}/attack"


def new_uid() -> int:
    """A host uid that no other run of this machine uses: the jail kills every process of it."""
    return next(_uids)


def as_user(uid: int) -> list[str]:
    """The words before a command that make it an unprivileged user's."""
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]


@contextlib.contextmanager
def workspace(uid: int, place: str = "/dev/shm") -> Iterator[str]:
    """A folder owned by `uid`, below one that every user may enter but not list; in memory unless told otherwise."""
    above = tempfile.mkdtemp(prefix="jail-ws-", dir=place)
    try:
        os.chmod(above, 0o711)
        inner = f"{above}/w"
        os.mkdir(inner, 0o700)
        os.chown(inner, uid, uid)
        yield inner
    finally:
        # rm works by descriptors and takes trees that are deeper than a path can be.
        subprocess.run(["rm", "-rf", above], check=False, timeout=60)


def memory_cgroup() -> str:
    """A folder below which memory cgroups can be made."""
    for folder in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        probe = Path(folder, f"jail-test-{os.getpid()}")
        try:
            probe.mkdir()
        except OSError:
            continue
        usable = (probe / "memory.max").exists() or (probe / "memory.limit_in_bytes").exists()
        probe.rmdir()
        if usable:
            return folder
    raise AssertionError("no writable memory cgroup on this machine")


@dataclass
class Chain:
    """One run: what supervise, bubblewrap and enter are told. `argv` is the program."""

    argv: Sequence[str]
    namespaces: bool = False
    uid: int | None = field(default_factory=new_uid)
    folder: str | None = None
    supervise: Sequence[str] = ()
    enter: Sequence[str] = ()
    bwrap: Sequence[str] = ()
    env: dict[str, str] = field(default_factory=lambda: dict(ENVIRONMENT))
    compile: Sequence[str] = ()
    wall_ms: int = 10_000
    nproc: int = 64
    prefix: Sequence[str] = ()

    def inner(self) -> list[str]:
        place = "/mnt/data" if self.namespaces and self.folder else self.folder or "/"
        argv = [INSIDE if self.namespaces else jail(), "enter", "--cwd", place, "--rlimit", f"nproc={self.nproc}"]
        argv += [word for k, v in self.env.items() for word in ("--env", f"{k}={v}")]
        argv += ["--compile", str(len(self.compile)), *self.enter, "--", *self.compile, *self.argv]
        return argv

    def bubblewrap(self) -> list[str]:
        bind = ["--bind", self.folder, "/mnt/data"] if self.folder else []
        return [
            "/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1",
            "--hostname", "workroom", "--uid", "1000", "--gid", "1000",
            "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
            "--size", str(64 * MIB), "--tmpfs", "/dev/shm", "--size", str(256 * MIB), "--tmpfs", "/tmp",
            "--size", "65536", "--tmpfs", "/mnt", "--size", "65536", "--tmpfs", "/run",
            "--ro-bind", jail(), INSIDE, "--ro-bind-try", _attacks(self.argv), _attacks(self.argv),
            *bind, *self.bwrap, "--",
        ]  # fmt: skip

    def outer(self, status_fd: int) -> list[str]:
        argv = [*self.prefix, jail(), "supervise", "--status-fd", str(status_fd)]
        argv += ["--wall-ms", str(self.wall_ms)]
        if self.uid is not None:
            argv += ["--uid", str(self.uid), "--gid", str(self.uid)]
        argv += [*self.supervise, "--"]
        return argv + (self.bubblewrap() if self.namespaces else []) + self.inner()


def _attacks(argv: Sequence[str]) -> str:
    """The folder of a program under /tmp, which the namespace's own /tmp would hide."""
    return os.path.dirname(argv[0]) if argv[0].startswith("/tmp/jail-") else "/nonexistent"


@dataclass(frozen=True)
class Result:
    """What a run came to. `seconds` is what the caller waited."""

    status: dict[str, Any]
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def text(self) -> str:
        return self.stdout.decode()

    @property
    def outcome(self) -> tuple[int | None, int | None, str | None]:
        return self.status["code"], self.status["signal"], self.status["reason"]


class Run:
    """A started chain; `control` is the caller's end of the control pipe."""

    def __init__(self, chain: Chain) -> None:
        self._out, self._err = os.memfd_create("out"), os.memfd_create("err")
        self._status, status_w = os.pipe()
        control_r, self.control = os.pipe()
        argv = chain.outer(status_w)
        at = argv.index("supervise") + 1
        argv[at:at] = ["--control-fd", str(control_r)]
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err, pass_fds=(status_w, control_r)
        )
        os.close(status_w)
        os.close(control_r)

    def output(self) -> str:
        """What the program printed so far."""
        return os.pread(self._out, 1 << 20, 0).decode()

    def wait_for(self, text: str, seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while text not in self.output():
            assert time.monotonic() < end, "the program did not get there"
            time.sleep(0.005)

    def finish(self, seconds: float = 20) -> Result:
        ready, _, _ = select.select([self._status], [], [], seconds)
        took = time.monotonic() - self._began
        try:
            assert ready, "no status line in time"
            line = os.read(self._status, 4096)
            self.process.wait(timeout=5)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            os.close(self._status)
            if self.control >= 0:
                os.close(self.control)
        out, err = (os.pread(fd, 1 << 22, 0) for fd in (self._out, self._err))
        os.close(self._out)
        os.close(self._err)
        assert line.endswith(b"\n"), (line, out, err)
        return Result(json.loads(line), out, err, took)


def run(*argv: str, **options: Any) -> Result:
    """Runs one program to its end; options are Chain's."""
    return Run(Chain(argv, **options)).finish()


def shell(script: str, **options: Any) -> Result:
    return run("bash", "-c", script, **options)


def python(script: str, **options: Any) -> Result:
    return run(PYTHON, "-I", "-c", script, **options)


def processes_of(uid: int) -> list[int]:
    """The living processes of a host user, by /proc."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                text = Path("/proc", entry, "status").read_text()
                fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
                if int(fields["Uid"].split()[0]) == uid and not fields["State"].strip().startswith(("Z", "X")):
                    found.append(int(entry))
    return found
