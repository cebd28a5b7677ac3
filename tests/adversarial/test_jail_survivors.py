"""Nothing of a run holds its answer up or survives it (cases A1, A2, A10, A15, K3), nor does a run harm others."""

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.adversarial.jail_helpers import (
    PYTHON,
    Chain,
    Run,
    as_user,
    compiled,
    jail,
    new_uid,
    processes_of,
    python,
    run,
    shell,
    workspace,
)

BOTH = pytest.mark.parametrize("namespaces", [False, True])

# Every way of getting out of sight that a program has: sessions, double forks, deafness, stopped, other names.
DAEMONS = {
    "background": "sleep 60 & echo hi",
    "setsid": "setsid nohup sleep 60 >/dev/null 2>&1 & echo hi",
    "double_fork": "(setsid bash -c 'sleep 60 & disown' &) ; echo hi",
    "deaf": "setsid bash -c 'trap \"\" TERM INT HUP QUIT; while :; do sleep 1; done' & echo hi",
    "stopped": "setsid bash -c 'kill -STOP $$' & sleep 0.05; echo hi",
    "reborn": "setsid bash -c 'f(){ (sleep 0.01; f) & }; f; wait' & sleep 0.05; echo hi",
}


@BOTH
@pytest.mark.parametrize("kind", DAEMONS)
def test_a2_a15_k3_daemon_neither_delays_nor_survives(kind: str, namespaces: bool) -> None:
    uid = new_uid()
    result = shell(DAEMONS[kind], namespaces=namespaces, uid=uid)
    assert processes_of(uid) == []
    assert (result.text, result.outcome) == ("hi\n", (0, None, None))
    assert result.status["clean"] is True
    assert result.status["killed"] >= 1
    assert result.seconds < 5


@BOTH
def test_a1_program_over_its_time_is_stopped_with_its_children(namespaces: bool) -> None:
    uid = new_uid()
    result = shell(f"{PYTHON} -c 'import time; time.sleep(99)'; :", namespaces=namespaces, uid=uid, wall_ms=400)
    assert result.outcome == (None, 9, "time")
    assert processes_of(uid) == []
    assert 0.4 <= result.seconds < 5


def test_partial_output_of_a_stopped_program_is_there() -> None:
    assert shell("echo step 1; sleep 99", wall_ms=300).text == "step 1\n"


_FOREVER = "import os\nwhile True:\n try: "
BOMBS = {
    "shell": ":(){ :|:& };: ; sleep 30",
    "fork": f"exec {PYTHON} -c '{_FOREVER}os.fork()\n except OSError: pass'",
    "orphans": f"exec {PYTHON} -c '{_FOREVER}\n  if os.fork(): os._exit(0)\n  os.fork()\n except OSError: pass'",
}


@BOTH
@pytest.mark.parametrize("kind", BOMBS)
def test_a10_fork_bomb_is_bounded_and_gone(kind: str, namespaces: bool) -> None:
    uid = new_uid()
    started = Run(Chain(["bash", "-c", BOMBS[kind]], namespaces=namespaces, uid=uid, wall_ms=500, nproc=100))
    time.sleep(0.3)
    most = len(processes_of(uid))
    result = started.finish()
    assert processes_of(uid) == []
    assert result.status["clean"] is True
    assert most <= 102  # with namespaces bubblewrap itself stands outside the bounded namespace
    assert result.seconds < 6


@pytest.mark.parametrize("kind", BOMBS)
def test_a10_fork_bomb_that_shares_the_supervisor_s_user_is_gone(kind: str) -> None:
    """As on a platform with one user for everything: stop all, then kill; no kill(-1) is possible."""
    uid = new_uid()
    prefix = as_user(uid)
    result = Run(Chain(["bash", "-c", BOMBS[kind]], uid=None, prefix=prefix, wall_ms=400, nproc=100)).finish()
    assert processes_of(uid) == []
    assert result.status["clean"] is True
    assert result.outcome[2] in ("time", None)
    assert result.seconds < 8


def test_daemons_that_wake_each_other_are_gone_without_a_user_of_their_own() -> None:
    uid = new_uid()
    prefix = as_user(uid)
    script = """
import os, signal
pids = []
for i in range(6):
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        me = os.getpid()
        while True:
            for other in range(me - 8, me + 8):
                try: os.kill(other, signal.SIGCONT)
                except OSError: pass
    pids.append(pid)
print("armed", flush=True)
"""
    chain = Chain([PYTHON, "-c", script], uid=None, prefix=prefix, wall_ms=3000, enter=["--filter", "0"])
    result = Run(chain).finish()
    assert result.text == "armed\n"
    assert processes_of(uid) == []
    assert result.status["clean"] is True


def test_a_run_leaves_other_processes_alone() -> None:
    """Of root, of another run's user, and of another run."""
    bystander_uid = new_uid()
    sleeper = ["sleep", "30"]
    root = subprocess.Popen(sleeper)
    other = subprocess.Popen([*as_user(bystander_uid), *sleeper])
    neighbour = Run(Chain(["bash", "-c", "echo up; sleep 0.5; echo done"]))
    try:
        neighbour.wait_for("up")
        assert shell("sleep 30 & kill -9 -1; echo no", enter=["--filter", "0"]).status["clean"] is True
        assert (root.poll(), other.poll()) == (None, None)
        result = neighbour.finish()
        assert (result.text, result.outcome) == ("up\ndone\n", (0, None, None))
    finally:
        for process in (root, other):
            process.kill()
            process.wait()


@BOTH
@pytest.mark.parametrize(("byte", "reason"), [(b"k", "stopped"), (b"o", "output"), (None, "stopped")])
def test_control_pipe_stops_the_run(byte: bytes | None, reason: str, namespaces: bool) -> None:
    uid = new_uid()
    started = Run(Chain(["bash", "-c", "echo up; sleep 60"], namespaces=namespaces, uid=uid))
    started.wait_for("up")
    if byte is None:
        os.close(started.control)  # the caller died
        started.control = -1
    else:
        os.write(started.control, byte)
    asked = time.monotonic()
    result = started.finish()
    assert time.monotonic() - asked < 5
    assert result.outcome == (None, 9, reason)
    assert processes_of(uid) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_to_the_supervisor_stops_the_run_cleanly(number: int) -> None:
    uid = new_uid()
    started = Run(Chain(["bash", "-c", "echo up; sleep 60"], uid=uid))
    started.wait_for("up")
    started.process.send_signal(number)
    assert started.finish().outcome == (None, 9, "stopped")
    assert processes_of(uid) == []


@BOTH
def test_killed_supervisor_takes_the_run_with_it(namespaces: bool) -> None:
    uid = new_uid()
    started = Run(Chain(["bash", "-c", "echo up; exec sleep 60"], namespaces=namespaces, uid=uid))
    started.wait_for("up")
    started.process.kill()
    started.process.wait()
    end = time.monotonic() + 10
    while processes_of(uid) and time.monotonic() < end:
        time.sleep(0.01)
    assert processes_of(uid) == []
    with pytest.raises(AssertionError):
        started.finish()


def test_leftovers_of_a_killed_supervisor_are_gone_when_the_next_run_starts() -> None:
    uid = new_uid()
    left = subprocess.Popen([*as_user(uid), "sleep", "60"])
    time.sleep(0.1)
    result = shell('ps -eo uid,stat,comm | grep -v Z | grep -c "^ *$UID .* sleep"', uid=uid)
    assert left.wait(timeout=2) == -signal.SIGKILL
    assert result.text == "0\n"


def appears(path: Path, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return path.exists()


def test_reap_probe_succeeds_with_the_layer_off_and_fails_with_it_on() -> None:
    seen = {}
    for on in ("0", "1"):
        uid = new_uid()
        with workspace(uid) as folder:
            options = {"uid": uid, "supervise": ["--reap", on]}
            result = run(jail(), "probe", "reap-daemon", f"{folder}/touched", **options)
            assert result.outcome == (0, None, None)
            seen[on] = appears(Path(folder, "touched"), 5 if on == "0" else 0.6)
            for pid in processes_of(uid):
                os.kill(pid, signal.SIGKILL)
    assert seen == {"0": True, "1": False}


def test_supervisor_sleeps_while_it_waits() -> None:
    result = Run(Chain(["sleep", "1"], supervise=["--memory", str(1 << 30)]))
    time.sleep(0.8)
    ticks = Path(f"/proc/{result.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    assert sum(map(int, ticks)) <= 5  # of 100 a second
    assert result.finish().outcome == (0, None, None)


def test_program_that_kills_its_own_init_is_still_the_end() -> None:
    """Without namespaces and filter a program can kill enter; the run ends and is swept all the same."""
    uid = new_uid()
    result = python("import os,time; os.kill(os.getppid(), 9); time.sleep(60)", uid=uid, enter=["--filter", "0"])
    assert result.status["signal"] == 9
    assert result.seconds < 5
    assert processes_of(uid) == []


def test_many_runs_at_once_end_each_with_its_own_result() -> None:
    """Supervisors sweep their users at the same moments; none may hit another or its run."""

    def outcome(number: int) -> tuple[int | None, int | None, str | None]:
        return shell(f"sleep 9 & exit {number}", namespaces=number % 2 == 0).outcome

    jail()  # built once, not by eight threads
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(outcome, range(1, 121))) == [(number, None, None) for number in range(1, 121)]


IMMORTAL = """
#define _GNU_SOURCE
#include <unistd.h>
int main(void) {
    if (setresuid(0, 0, 0) != 0) return 1;
    if (fork() == 0) { sleep(1); return 0; }
    return 0;
}
"""


def test_survivor_that_cannot_be_killed_is_told() -> None:
    """A process of root below an unprivileged supervisor: out of reach, so the environment is not clean."""
    uid, program = new_uid(), compiled(IMMORTAL)
    os.chmod(program, 0o4755)
    argv = [*as_user(uid), jail(), "supervise", "--status-fd", "1", "--reap-ms", "200", "--", program]
    done = subprocess.run(argv, capture_output=True, timeout=10, check=True)
    assert json.loads(done.stdout)["clean"] is False
