"""The executor process itself: its death, its stuckness, missing layers and toolchains, runs without namespaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox_image.languages import LANGUAGES
from sandbox_image.runner import station
from sandbox_image.runner.program import Places, Toolchains
from shared.executor.port import ExecutorFailed
from tests.adversarial.runner_helpers import NAP, PROJECT, Bench, bench, processes_of

WEAK = frozenset({"clean", "reap", "memory", "wipe"})


@pytest.fixture(scope="module")
def open_room() -> Iterator[Bench]:
    """Without namespaces: programs see the machine's own tools."""
    with bench(off=frozenset({"namespaces"}), required_layers=WEAK) as made:
        yield made


def _eventually(true: Callable[[], bool], seconds: float = 5) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_A12_a_killed_executor_fails_its_runs_and_the_next_run_works() -> None:
    with bench() as room:
        room.bash("echo kept > f", "s")
        pid = room.executor.pid
        assert pid is not None
        failures: list[str] = []

        def run() -> None:
            try:
                room.bash(f"echo lost > g; sleep {NAP}", "s")
            except ExecutorFailed as failed:
                failures.append(failed.kind)

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert _eventually(lambda: len(processes_of(NAP)) >= 3)
        os.kill(pid, signal.SIGKILL)
        for thread in threads:
            thread.join(10)
        assert failures == ["broken"] * 3
        assert _eventually(lambda: processes_of(NAP) == [])
        assert room.bash("ls; cat f", "s").stdout == "f\nkept\n"
        assert room.executor.pid != pid


def test_a_killed_service_takes_its_executor_and_its_programs_along() -> None:
    code = (
        "from tests.adversarial.runner_helpers import bench\n"
        f"with bench() as room: room.executor.health(); print(room.executor.pid, flush=True); room.bash('sleep {NAP}')"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        pid = int(service.stdout.readline())
        assert _eventually(lambda: processes_of(f"sleep\0{NAP}") != [])
        service.kill()
        service.wait(10)
        assert _eventually(lambda: processes_of(f"sleep\0{NAP}") == [])
        assert _eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_a_closed_executor_leaves_no_process_and_runs_nothing() -> None:
    with bench() as room:
        room.bash("true")
        pid = room.executor.pid
        ended: list[str] = []

        def run() -> None:
            try:
                room.bash(f"sleep {NAP}")
            except ExecutorFailed as failed:
                ended.append(failed.kind)

        thread = threading.Thread(target=run)
        thread.start()
        assert _eventually(lambda: processes_of(NAP) != [])
        room.executor.close()
        thread.join(10)
        assert ended == ["broken"]
        assert _eventually(lambda: processes_of(NAP) == [])
        assert not Path(f"/proc/{pid}").exists()
        with pytest.raises(ExecutorFailed) as failed:
            room.bash("true")
        assert failed.value.kind == "unavailable"


def test_a_stuck_executor_is_a_timeout_and_is_replaced() -> None:
    with bench(spare_ms=500, stuck_ms=500) as room:
        assert room.bash("echo 1").stdout == "1\n"
        pid = room.executor.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(ExecutorFailed) as failed:
            room.bash("echo 2", wall_ms=300)
        assert failed.value.kind == "timeout"
        assert room.bash("echo 3").stdout == "3\n"
        assert room.executor.pid != pid
        assert not Path(f"/proc/{pid}").exists()


def test_a_run_waits_for_its_turn_and_can_be_cancelled_meanwhile() -> None:
    with bench(capacity=1) as room:
        order: list[str] = []

        def run(name: str, code: str) -> None:
            order.append(f"{name} {room.bash(code, run_id=name).reason}")

        threads = []
        for name, code in (("first", "sleep 0.8"), ("second", f"sleep {NAP}"), ("third", "true")):
            threads.append(threading.Thread(target=run, args=(name, code)))
            threads[-1].start()
            time.sleep(0.15)
        assert room.executor.health().running == 1
        room.executor.cancel("second")
        for thread in threads:
            thread.join(20)
        assert order == ["second stopped", "first None", "third None"]


def test_a_required_layer_that_is_not_active_refuses_to_run() -> None:
    with bench(off=frozenset({"filter"})) as room:
        health = room.executor.health()
        assert not health.ready
        assert "filter" in health.why
        assert not health.layers["filter"].active
        with pytest.raises(ExecutorFailed) as failed:
            room.bash("echo never")
        assert failed.value.kind == "unavailable"
        assert "filter" in failed.value.why


def test_a_missing_root_is_said_and_nothing_runs(tmp_path: Path) -> None:
    with bench(root=tmp_path / "none") as room:
        health = room.executor.health()
        assert (health.ready, health.why) == (False, "the toolchain root is not there")
        with pytest.raises(ExecutorFailed) as failed:
            room.bash("echo never")
        assert failed.value.kind == "unavailable"


def test_a_work_folder_that_others_cannot_reach_gets_a_place_of_its_own(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with bench(work=tmp_path / "work") as room:
        assert room.bash("pwd").stdout == "/mnt/data\n"
    assert not (tmp_path / "work").exists()
    place = Path(station.open_place(str(tmp_path / "work")))
    assert place.parent == Path(station.PLACES)
    os.system(f"rm -rf {place}")


def test_a_missing_toolchain_is_named_with_what_would_install_it(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/bash").touch()
    (tmp_path / "usr/bin/php").touch()
    (tmp_path / "usr/lib/workroom").mkdir(parents=True)
    rows = {"bash": {"present": True, "version": "GNU bash 5"}, "php": {"present": False, "reason": "php does not run"}}
    (tmp_path / "usr/lib/workroom/toolchains.json").write_text(json.dumps(rows))
    chains = Toolchains(str(tmp_path), inside=True)
    assert chains.missing("bash") == ""
    for lang, what in (("rs", "rustc"), ("php", "php does not run"), ("py", "python3")):
        sentence = chains.missing(lang)
        assert what in sentence
        assert all(package in sentence for package in LANGUAGES[lang].packages)
    health = chains.health()
    assert health["bash"] == {"present": True, "version": "GNU bash 5", "packages": "bash"}
    assert {name for name, row in health.items() if row["present"]} == {"bash"}


def test_without_namespaces_the_scratch_space_is_the_runs_own() -> None:
    plan = Toolchains("/nowhere", inside=False).plan("c", ["a"], Places("/w/program", "/w/scratch", "/w/data"))
    assert plan.env["HOME"] == "/w/scratch/home"
    assert plan.env["TMPDIR"] == "/w/scratch"
    assert "/w/scratch/build/main" in plan.compile
    assert plan.command == ("/w/scratch/build/main", "a")
    assert plan.folders == ["/w/scratch/home", "/w/scratch/build"]


def test_a_toolchain_that_is_not_there_answers_127_and_keeps_the_workspace(open_room: Bench) -> None:
    absent = [name for name, row in open_room.executor.health().languages.items() if not row.present]
    assert absent, "this machine has every toolchain outside the root"
    answer = open_room.run(absent[0], "")
    assert (answer.code, answer.stdout, answer.signal) == (127, "", None)
    assert "install the Debian packages" in answer.stderr


def test_A10_A15_without_namespaces_nothing_survives_either(open_room: Bench) -> None:
    bomb = open_room.bash(":(){ :|:& };:; sleep 99", wall_ms=1_500, processes=64)
    assert bomb.reason in ("time", None)
    answer = open_room.bash(f"setsid nohup sleep {NAP} >/dev/null 2>&1 & echo started")
    assert answer.stdout == "started\n"
    assert processes_of(NAP) == []
    assert open_room.bash("echo normal").stdout == "normal\n"


def test_without_namespaces_shared_folders_are_wiped(open_room: Bench) -> None:
    name = f"left-{os.urandom(6).hex()}"
    left = open_room.bash(f"mkdir /tmp/{name}; echo x > /tmp/{name}/f; echo x > /dev/shm/{name}; echo $TMPDIR > f", "w")
    assert left.code == 0, left.stderr
    assert [path for path in (f"/tmp/{name}", f"/dev/shm/{name}") if os.path.lexists(path)] == []
    assert open_room.bash(f"ls -d /tmp/{name} /dev/shm/{name} $(cat f)/*; ls", "w").stdout.endswith("f\n")


def test_a_new_runner_removes_what_a_dead_one_left(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    first, lock = station.take_block(str(locks))
    second, other = station.take_block(str(locks))
    assert second == first + station.BLOCK
    os.close(other)
    os.close(lock)
    assert station.take_block(str(locks))[0] == first
    uid = 3_000_000_100
    pid = os.posix_spawn(
        "/usr/bin/setpriv", ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sleep", NAP], {}
    )
    assert _eventually(lambda: os.stat(f"/proc/{pid}").st_uid == uid)
    assert station.clear_users(uid - 100)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
