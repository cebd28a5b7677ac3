"""Each limit bites with its own reason, for the whole run tree, whatever shape the program gives it (A17, K8)."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adversarial.jail_helpers import (
    MIB,
    PYTHON,
    Chain,
    Result,
    Run,
    memory_cgroup,
    new_uid,
    processes_of,
    python,
    shell,
    workspace,
)

BOTH = pytest.mark.parametrize("namespaces", [False, True])
METER = pytest.mark.parametrize("meter", ["cgroup", "watcher"])
LIMIT = 100 * MIB
HOLD = "import time, os, mmap\nx = bytearray({size}); time.sleep({hold})\n"


@contextlib.contextmanager
def metered(meter: str, limit: int = LIMIT) -> Iterator[list[str]]:
    """The options of supervise for a memory limit; the cgroup must be gone afterwards."""
    options = ["--memory", str(limit), "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]
    if meter == "watcher":
        yield options
        return
    group = Path(memory_cgroup(), f"jail-test-{os.getpid()}-{new_uid()}")
    yield [*options, "--cgroup", str(group)]
    assert not group.exists()


def limited(script: str, meter: str, namespaces: bool, limit: int = LIMIT) -> Result:
    with metered(meter, limit) as options:
        return python(script, namespaces=namespaces, supervise=options)


@METER
@BOTH
def test_a17_one_process_over_the_memory_limit(meter: str, namespaces: bool) -> None:
    result = limited("x = bytearray(10**10)\nimport time; time.sleep(5)", meter, namespaces)
    # Without a cgroup Python's own MemoryError may come first; then nothing was over the limit.
    if b"MemoryError" not in result.stderr:
        assert result.outcome == (None, 9, "memory")
    result = limited(HOLD.format(size=4 * LIMIT, hold=5), meter, namespaces)
    assert result.outcome == (None, 9, "memory")
    assert result.seconds < 4.5


@METER
@BOTH
def test_memory_of_a_tree_counts_together(meter: str, namespaces: bool) -> None:
    script = f"""
import os, time
for _ in range(5):
    if os.fork() == 0:
        x = bytearray({LIMIT // 3}); time.sleep(0.5); os._exit(0)
status = [os.wait()[1] for _ in range(5)]
raise SystemExit(1 if any(status) else 0)
"""
    assert limited(script, meter, namespaces).outcome[2] == "memory"


@METER
def test_memory_that_forked_processes_share_counts_once(meter: str) -> None:
    script = f"""
import os, time
x = bytes({LIMIT // 2})
for _ in range(5):
    if os.fork() == 0:
        time.sleep(0.4); os._exit(0)
for _ in range(5): os.wait()
"""
    assert limited(script, meter, False).outcome == (0, None, None)


@METER
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_tmpfs_counts_as_memory(meter: str, place: str) -> None:
    size = LIMIT // 2 if place == "/dev/shm" else 2 * LIMIT  # /dev/shm is 64 MiB here
    script = f"""
import time
f = open("{place}/x", "wb")
for _ in range({size} // {MIB}):
    f.write(bytes({MIB}))
f.flush(); time.sleep(1); raise SystemExit(1)
"""
    limit = LIMIT if place == "/tmp" else LIMIT // 3
    assert limited(script, meter, True, limit).outcome[2] == "memory"


@METER
@BOTH
def test_memory_below_the_limit_is_measured(meter: str, namespaces: bool) -> None:
    result = limited(HOLD.format(size=LIMIT // 2, hold=0.3), meter, namespaces)
    assert result.outcome == (0, None, None)
    assert LIMIT // 2 <= result.status["peak_memory"] <= LIMIT


def test_child_killed_for_memory_in_a_program_that_succeeds_is_no_limit_of_the_run() -> None:
    with metered("cgroup") as options:
        result = shell(f"{PYTHON} -c 'bytearray(4*{LIMIT})'; echo $?", supervise=options)
    assert (result.text, result.outcome) == ("137\n", (0, None, None))


def test_kept_cgroup_serves_the_next_run_with_its_own_limit_and_counters() -> None:
    group = Path(memory_cgroup(), f"jail-test-{os.getpid()}-{new_uid()}")
    try:
        outcomes = []
        for limit, size in ((LIMIT, 2 * LIMIT), (4 * LIMIT, 2 * LIMIT), (LIMIT // 2, LIMIT // 5)):
            options = ["--cgroup", str(group), "--keep-cgroup", "1", "--memory", str(limit)]
            result = python(HOLD.format(size=size, hold=0), supervise=options)
            outcomes.append(result.outcome)
            assert group.is_dir()
            assert result.status["peak_memory"] <= limit
        assert outcomes == [(None, 9, "memory"), (0, None, None), (0, None, None)]
    finally:
        group.rmdir()


def test_cgroup_that_cannot_be_made_refuses_to_run() -> None:
    result = shell("echo ran", supervise=["--memory", str(LIMIT), "--cgroup", "/sys/fs/cgroup/memory/no/such/place"])
    assert (result.outcome, result.status["error"], result.text) == ((None, None, "start"), "no memory cgroup", "")


@BOTH
def test_processes_and_threads_are_bounded_for_each_run_by_its_own(namespaces: bool) -> None:
    script = """
import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0: time.sleep(30); os._exit(0)
        n += 1
except OSError: pass
print(n, flush=True); time.sleep(0.5)
"""
    runs = [Run(Chain([PYTHON, "-c", script], namespaces=namespaces, nproc=40)) for _ in range(2)]
    for one in runs:
        result = one.finish()
        assert result.outcome == (0, None, None)
        assert 30 <= int(result.text) < 40


@BOTH
def test_file_size_open_files_and_core_are_bounded(namespaces: bool) -> None:
    uid = new_uid()
    script = """
import os, resource, signal
print(resource.getrlimit(resource.RLIMIT_CORE), flush=True)
fds = []
try:
    while True: fds.append(os.open("/dev/null", 0))
except OSError as error: print(error.strerror, len(fds) + 3, flush=True)
os.closerange(3, 100)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
f = open("big", "wb")
while True: f.write(bytes(65536))
"""
    with workspace(uid) as folder:
        limits = ["--rlimit", "nofile=50", "--rlimit", f"fsize={MIB}"]
        result = python(script, uid=uid, folder=folder, namespaces=namespaces, enter=limits)
        assert result.text == "(0, 0)\nToo many open files 50\n"
        assert result.outcome == (None, 25, None)
        assert Path(folder, "big").stat().st_size == MIB


def test_cpu_time_has_a_reason_also_for_a_program_that_ignores_the_signal() -> None:
    ignore = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
    scripts = {ignore + "while True: pass": 9, "while True: pass": 24}
    runs = {Run(Chain([PYTHON, "-c", text], enter=["--rlimit", "cpu=1"])): number for text, number in scripts.items()}
    assert [one.finish().outcome for one in runs] == [(None, number, "cpu") for number in runs.values()]


def test_a_limit_never_raises_what_is_set_outside() -> None:
    prefix = ["prlimit", "--nofile=20:20"]
    assert shell("ulimit -Hn", prefix=prefix, enter=["--rlimit", "nofile=1000"]).text == "20\n"


def watched(
    script: str, *, byte_limit: int = MIB, entries: int = 100, place: str = "/dev/shm", **options: Any
) -> Result:
    uid = new_uid()
    with workspace(uid, place) as folder:
        watch = ["--watch-dir", folder, "--watch-bytes", str(byte_limit), "--watch-entries", str(entries)]
        return python(script, uid=uid, folder=folder, supervise=watch, wall_ms=6000, **options)


BYTES, ENTRIES = (None, 9, "workspace_bytes"), (None, 9, "workspace_entries")
STAY = "\nimport time; time.sleep(5)\n"
OVER = {
    "one file": ("open('big', 'wb').write(bytes(2 << 20))", BYTES),
    "many files": ("for i in range(9): open(str(i), 'wb').write(bytes(200_000))", BYTES),
    "sparse": ("open('s', 'wb').truncate(1 << 30)", BYTES),
    "nested": ("import os\nos.makedirs('a/b/c'); open('a/b/c/d', 'wb').write(bytes(2 << 20))", BYTES),
    "deleted": ("import os\nf = open('gone', 'wb'); os.unlink('gone'); f.write(bytes(3 << 20)); f.flush()", BYTES),
    "hidden": ("import os\nos.mkdir('h'); open('h/x', 'wb').write(bytes(2 << 20)); os.chmod('h', 0)", BYTES),
    "entries": ("for i in range(101): open(str(i), 'w')", ENTRIES),
    "folders": ("import os\nfor i in range(101): os.mkdir(str(i))", ENTRIES),
    "links": ("import os\nfor i in range(101): os.symlink('/', str(i))", ENTRIES),
    "pipes": ("import os\nfor i in range(101): os.mkfifo(str(i))", ENTRIES),
    "hard links": ("import os\nopen('a', 'wb').write(bytes(300_000))\nfor i in range(4): os.link('a', str(i))", BYTES),
    "names of a link": (
        "import os\nos.symlink('x', 'l')\nfor i in range(101): os.link('l', str(i), follow_symlinks=False)",
        ENTRIES,
    ),
    "chain": ("import os\nfor i in range(101): os.mkdir('d'); os.chdir('d')", ENTRIES),
}


@pytest.mark.parametrize("kind", OVER)
def test_workspace_limit_bites_while_the_program_runs(kind: str) -> None:
    script, outcome = OVER[kind]
    result = watched(script + STAY)
    assert result.outcome == outcome
    assert result.seconds < 4.5


def test_workspace_limit_bites_with_namespaces_and_on_disk() -> None:
    for kind in ("one file", "deleted", "hidden"):
        assert watched(OVER[kind][0] + STAY, namespaces=True, place="/var/tmp").outcome == BYTES


AT_THE_LIMIT = {
    "bytes": "open('a', 'wb').write(bytes(1 << 20))",
    "entries": "for i in range(100): open(str(i), 'w')",
    "link to much": "import os\nos.symlink('/usr', 'u'); os.symlink('/', 'r'); os.symlink('.', 'self')",
    "moved about": """
import os, time
os.mkdir('a'); os.mkdir('b'); open('a/x', 'wb').write(bytes(700_000))
end = time.time() + 1
while time.time() < end: os.rename('a/x', 'b/x'); os.rename('b/x', 'a/x')
raise SystemExit
""",
}


@pytest.mark.parametrize("kind", AT_THE_LIMIT)
def test_workspace_at_its_limit_runs_on(kind: str) -> None:
    result = watched(AT_THE_LIMIT[kind] + "\nimport time; time.sleep(0.5)")
    assert result.outcome == (0, None, None), result.stderr


def test_twenty_thousand_small_files_bite_at_the_limit_of_the_issue() -> None:
    script = "import os\nfor i in range(10**6):\n f = os.open(str(i), os.O_CREAT); os.close(f)"
    result = watched(script, entries=20_000, byte_limit=1 << 30)
    assert result.outcome == ENTRIES
    assert result.seconds < 5


DEEP = """
import os
for i in range(3000):
    os.mkdir('d'); os.chdir('d')
open('bottom', 'wb').write(bytes(2 << 20))
"""


def test_tree_thousands_of_levels_deep_is_seen_to_its_bottom() -> None:
    assert watched(DEEP + STAY, entries=5000).outcome == BYTES
    assert watched(DEEP + STAY, entries=2000).outcome == ENTRIES


def test_tree_that_moves_below_the_walk_neither_stops_nor_misleads_it() -> None:
    script = """
import os, time
for i in range(400):
    os.mkdir('d'); os.mkdir('e'); os.chdir('d')
    if i == 300: at = os.open('.', 0)
end = time.time() + 1
while time.time() < end:
    os.rename('d', 'f', src_dir_fd=at, dst_dir_fd=at); os.rename('f', 'd', src_dir_fd=at, dst_dir_fd=at)
open('late', 'wb').write(bytes(2 << 20)); time.sleep(4)
"""
    assert watched(script, entries=1000).outcome == BYTES


def test_k8_folder_that_becomes_a_link_is_never_followed() -> None:
    """/usr has far more than the limit's entries; a walk that went through the link once would bite."""
    script = """
import os, time
os.mkdir('real'); os.symlink('/usr', 'link')
end = time.time() + 1
while time.time() < end:
    os.rename('real', 'x'); os.rename('link', 'real'); os.rename('real', 'link'); os.rename('x', 'real')
"""
    assert watched(script, entries=50).outcome == (0, None, None)


def test_watching_a_large_workspace_costs_a_fraction_of_a_core() -> None:
    uid = new_uid()
    with workspace(uid) as folder:
        for i in range(15_000):
            os.mknod(f"{folder}/{i}")
        watch = ["--watch-dir", folder, "--watch-bytes", str(1 << 30), "--watch-entries", "20000"]
        started = Run(Chain(["sleep", "1.2"], uid=uid, supervise=watch))
        time.sleep(1.0)
        ticks = Path(f"/proc/{started.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        assert started.finish().outcome == (0, None, None)
        assert sum(map(int, ticks)) <= 25  # of 100: 15 %, and some for the rounding of a busy machine
    assert processes_of(uid) == []


def test_missing_workspace_refuses_to_run() -> None:
    result = shell("echo ran", supervise=["--watch-dir", "/no/such", "--watch-bytes", "1"])
    assert (result.outcome, result.status["error"], result.text) == ((None, None, "start"), "no workspace", "")


def test_cgroup_of_the_second_version_is_set_joined_and_read() -> None:
    """By its files, on a stand-in folder: a limit, no swap, the child inside, the counter that tells a kill."""
    uid = new_uid()
    with workspace(uid) as folder:
        files = {"memory.max": "max", "memory.swap.max": "max", "memory.peak": "123456", "cgroup.procs": ""}
        files["memory.events"] = "low 0\nhigh 0\nmax 7\noom 1\noom_kill 3\noom_group_kill 0\n"
        for name, text in files.items():
            Path(folder, name).write_text(text)
            os.chmod(Path(folder, name), 0o666)
        options: dict[str, Any] = {
            "uid": uid, "folder": folder,
            "supervise": ["--memory", str(LIMIT), "--cgroup", folder, "--keep-cgroup", "1"],
        }  # fmt: skip
        assert shell("exit 5", **options).outcome == (5, None, None)
        result = shell("sed -i 's/oom_kill 3/oom_kill 4/' memory.events; exit 5", **options)
        assert result.outcome == (5, None, "memory")
        seen = {name: Path(folder, name).read_text() for name in files}
    assert (seen["memory.max"], seen["memory.swap.max"]) == (f"{LIMIT}", "0ax")  # written over, not truncated
    assert seen["cgroup.procs"] == "0"
    assert result.status["peak_memory"] is None  # of a folder that an earlier run may have used
