"""Each layer's probe succeeds with the layer off and is stopped with it on; and what a program sees of the
supervisor and the host (K1, A14, E1)."""

import ctypes
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.adversarial.jail_helpers import (
    ENVIRONMENT,
    INSIDE,
    MIB,
    PYTHON,
    Chain,
    Run,
    as_user,
    jail,
    memory_cgroup,
    new_uid,
    python,
    run,
    shell,
    workspace,
)

BOTH = pytest.mark.parametrize("namespaces", [False, True])
SUCCEEDED, STOPPED = (0, None, None), (10, None, None)
OPEN_ENTER, OPEN_SUPERVISE = ["--clean", "0"], ["--clean", "0", "--dumpable", "1"]


def probe(name: str, *arguments: str, namespaces: bool = False, **options: Any) -> tuple[Any, ...]:
    binary = INSIDE if namespaces else jail()
    return run(binary, "probe", name, *arguments, namespaces=namespaces, **options).outcome


@BOTH
def test_clean(namespaces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKROOM_CANARY", "seen")
    assert probe("clean", namespaces=namespaces) == STOPPED
    off: dict[str, Any] = {"supervise": OPEN_SUPERVISE, "enter": OPEN_ENTER, "namespaces": namespaces}
    assert probe("clean", **off) == SUCCEEDED
    result = run(INSIDE if namespaces else jail(), "probe", "clean", **off)
    assert result.text.split() == ["environment", "descriptor", "parent"]


@BOTH
def test_filter(namespaces: bool) -> None:
    assert probe("filter", namespaces=namespaces) == STOPPED
    assert probe("filter", namespaces=namespaces, enter=["--filter", "0"]) == SUCCEEDED


@BOTH
def test_paths(namespaces: bool) -> None:
    uid = new_uid()
    with workspace(uid) as folder:
        os.mkdir(f"{folder}/inner")
        os.chown(f"{folder}/inner", uid, uid)
        seen = "/mnt/data" if namespaces else folder
        options: dict[str, Any] = {"namespaces": namespaces, "uid": uid, "folder": folder}
        assert probe("paths", seen, **options) == SUCCEEDED
        rules = ["--landlock-ro", "/", "--landlock-rw", f"{seen}/inner", "--landlock-rw", "/no/such/place"]
        assert probe("paths", seen, enter=rules, **options) == STOPPED
        assert probe("paths", f"{seen}/inner", enter=rules, **options) == SUCCEEDED


def test_namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    with workspace(new_uid()) as folder:
        host_file = Path(folder).parent / "host"
        host_file.write_text("of the host")
        host_process = subprocess.Popen(["sleep", "20"])
        try:
            pid = str(host_process.pid)
            assert probe("namespaces", pid) == SUCCEEDED
            assert probe("namespaces", "999999999", str(host_file)) == SUCCEEDED
            assert probe("namespaces", "999999999") == STOPPED
            assert probe("namespaces", pid, str(host_file), namespaces=True) == STOPPED
        finally:
            host_process.kill()
            host_process.wait()


@pytest.mark.parametrize("meter", ["cgroup", "watcher"])
def test_memory(meter: str) -> None:
    size = str(300 * MIB)
    assert probe("memory", size) == SUCCEEDED
    group = ["--cgroup", f"{memory_cgroup()}/jail-test-{os.getpid()}-{new_uid()}"] if meter == "cgroup" else []
    assert probe("memory", size, supervise=["--memory", str(100 * MIB), *group]) == (None, 9, "memory")
    assert probe("memory", str(50 * MIB), supervise=["--memory", str(100 * MIB), *group]) == SUCCEEDED


def test_network_is_closed_by_the_namespace_and_by_the_filter_each_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        off = ["--filter", "0"]
        assert probe("network", port, enter=off) == SUCCEEDED
        assert probe("network", port) == STOPPED
        assert probe("network", port, enter=off, namespaces=True) == STOPPED
        assert probe("network", port, enter=[*off, "--landlock-ro", "/"]) == STOPPED


def test_wipe() -> None:
    name = f"jail-marker-{new_uid()}"
    left = [Path("/tmp", name), Path("/dev/shm", name)]
    try:
        assert probe("wipe-leave", name) == SUCCEEDED
        assert [path.exists() for path in left] == [True, True]
        assert probe("wipe-look", name) == SUCCEEDED
        assert probe("wipe-look", name, namespaces=True) == STOPPED
    finally:
        for path in left:
            path.unlink(missing_ok=True)
    assert probe("wipe-look", name) == STOPPED
    assert probe("wipe-leave", name, namespaces=True) == SUCCEEDED
    assert probe("wipe-look", name, namespaces=True) == STOPPED
    assert [path.exists() for path in left] == [False, False]


STATE = """
import json, os, resource
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
wanted = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "SigBlk", "SigIgn")
print(json.dumps({key: status[key].split() for key in wanted} | {
    "environment": dict(os.environ), "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
    "session": os.getsid(0) == os.getpid(), "group": os.getpgrp() == os.getpid(), "umask": os.umask(0),
    "core": resource.getrlimit(resource.RLIMIT_CORE), "oom": open("/proc/self/oom_score_adj").read().strip(),
}))
"""


@contextmanager
def ignoring(number: int) -> Iterator[None]:
    """Ignore a signal by the system call, as no C library lets a program do it with its own two (32 and 33)."""
    call = {"x86_64": 13, "aarch64": 134}[os.uname().machine]
    libc, before = ctypes.CDLL(None, use_errno=True), (ctypes.c_ulong * 4)()
    assert libc.syscall(call, number, (ctypes.c_ulong * 4)(1), before, 8) == 0
    try:
        yield
    finally:
        assert libc.syscall(call, number, before, None, 8) == 0


@BOTH
def test_a14_state_in_which_a_program_starts(namespaces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    uid = new_uid()
    canaries = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(3)]
    for fd in canaries:
        os.set_inheritable(fd, True)
    with ignoring(32):
        result = python(STATE, namespaces=namespaces, uid=uid)
    for fd in canaries:
        os.close(fd)
    state = json.loads(result.stdout)
    who, none = [str(1000 if namespaces else uid)] * 4, ["0" * 16]
    # The bounding set of a namespace lets nothing through that the (empty) others could hold.
    assert state.pop("CapBnd") == none or namespaces
    assert state == {
        "Uid": who, "Gid": who, "Groups": [] if not namespaces else state["Groups"],
        "CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none, "NoNewPrivs": ["1"],
        "SigBlk": none, "SigIgn": ["0000000001001000"],  # PIPE and XFSZ, by Python itself
        "environment": ENVIRONMENT, "descriptors": [0, 1, 2], "session": True, "group": True, "umask": 0o22,
        "core": [0, 0], "oom": "1000",
    }  # fmt: skip
    assert b"canary" not in result.stdout


K1 = """
import os
found = []
def look(path):
    try: data = open(path, "rb").read(1)
    except OSError: return
    if data: found.append(path)
me = os.getpid()
for entry in os.listdir("/proc"):
    if entry.isdigit() and int(entry) != me:
        for name in ("environ", "mem", "maps", "fd/0", "fd/3", "cwd/.", "root/etc/passwd", "auxv", "io"):
            look(f"/proc/{entry}/{name}")
        try: found += [f"{entry} {fd}" for fd in os.listdir(f"/proc/{entry}/fd")]
        except OSError: pass
for path in PATHS:
    look(path)
    try: found += [f"{path}: {name}" for name in os.listdir(path)]
    except OSError: pass
print(found)
"""


@BOTH
def test_k1_no_process_and_no_secret_of_the_host_can_be_read(namespaces: bool) -> None:
    other, neighbour_uid = new_uid(), new_uid()
    with workspace(other) as foreign, workspace(new_uid()) as own:
        Path(foreign, "secret").write_text("of another session")
        paths = [
            "/etc/shadow",
            "/root",
            foreign,
            f"{foreign}/secret",
            own,
            str(Path(foreign).parent),
            "/proc/1/environ",
        ]
        neighbour = subprocess.Popen([*as_user(neighbour_uid), "sleep", "20"])
        try:
            result = python(f"PATHS = {paths!r}\n{K1}", namespaces=namespaces)
        finally:
            neighbour.kill()
            neighbour.wait()
    assert (result.text, result.outcome) == ("[]\n", (0, None, None)), result.stderr


def test_k1_supervisor_of_the_same_user_cannot_be_read() -> None:
    """One user for everything: what protects is that neither supervise nor enter is dumpable."""
    uid = new_uid()
    script = """
import os
enter = os.getppid(); supervise = int(open(f"/proc/{enter}/stat").read().rsplit(")")[1].split()[1])
for pid in (enter, supervise):
    for name in ("environ", "mem", "maps", "auxv", "fd/3"):
        try: os.read(os.open(f"/proc/{pid}/{name}", os.O_NONBLOCK), 1); print(name)
        except OSError: pass
    try: print(os.listdir(f"/proc/{pid}/fd"))
    except OSError: pass
"""
    chain = Chain([PYTHON, "-c", script], uid=None, prefix=as_user(uid), enter=["--filter", "0"])
    assert Run(chain).finish().text == ""
    chain.supervise, chain.enter = OPEN_SUPERVISE, [*OPEN_ENTER, "--filter", "0"]
    assert "environ" in Run(chain).finish().text


@BOTH
def test_e1_link_to_the_supervisor_s_files_shows_only_the_program_s_own(
    namespaces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "canary")
    uid = new_uid()
    with workspace(uid) as folder:
        result = shell("ln -s /proc/self/environ out; cat out", uid=uid, folder=folder, namespaces=namespaces)
        assert {"LANG=C.UTF-8", "PATH=/usr/bin:/bin"} <= set(result.text.split("\0"))
        assert "canary" not in result.text
        assert os.readlink(f"{folder}/out") == "/proc/self/environ"


def test_program_cannot_signal_or_read_outside_its_landlock_scope() -> None:
    uid = new_uid()
    bystander = subprocess.Popen([*as_user(uid), "sleep", "20"])
    try:
        time.sleep(0.05)
        script = f"import os\ntry: os.kill({bystander.pid}, 0); print('hit')\nexcept OSError as e: print(e.strerror)"
        options: dict[str, Any] = {"uid": None, "prefix": as_user(uid)}
        assert _text(script, ["--landlock-ro", "/"], options) == "Operation not permitted\n"
        assert _text(script, [], options) == "hit\n"
    finally:
        bystander.kill()
        bystander.wait()


def _text(script: str, enter: Sequence[str], options: dict[str, Any]) -> str:
    return Run(Chain([PYTHON, "-c", script], enter=enter, **options)).finish().text


def test_landlock_lets_programs_rename_across_folders_and_use_devices() -> None:
    uid = new_uid()
    with workspace(uid) as folder:
        rules = ["--landlock-ro", "/", "--landlock-rw", folder, "--landlock-rw", "/dev"]
        result = shell(
            "mkdir a b; echo x > a/f; mv a/f b/f; cat b/f > /dev/null; : > b/f; echo no > /tmp/x || echo kept out",
            uid=uid, folder=folder, enter=rules,
        )  # fmt: skip
    assert (result.text, result.outcome) == ("kept out\n", (0, None, None))
