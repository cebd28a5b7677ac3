"""cases.md A: what a run may take (A10, A16, A17), and an executor that is cut off (A12)."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from pathlib import Path

import pytest

from sandbox_image.locate import build_jail, find_root
from shared.executor.local import LocalExecutor
from shared.executor.wire import RunAnswer, RunRequest
from shared.settings import Settings
from shared.store.local.objects import FileObjects
from tests.cases.door import Service, environment, plain_limits, until

BOMBS = {
    "bash": ("bash", ":(){ :|:& };:\nsleep 30"),
    "py": ("py", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"),
    "c": (
        "c",
        "#include <signal.h>\n#include <unistd.h>\nint main(void) {\n"
        "  for (int s = 1; s < 32; s++) signal(s, SIG_IGN);\n  for (;;) if (!fork()) setsid();\n}\n",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_A10_a_fork_bomb_is_bounded_and_gone(service: Service, bomb: str) -> None:
    lang, code = BOMBS[bomb]
    others: list[float] = []
    ended = threading.Event()

    def neighbour() -> None:
        while not ended.is_set():
            others.append(service.run("bash", "echo fine").expect("fine\n").seconds)

    thread = threading.Thread(target=neighbour)
    thread.start()
    try:
        ran = service.run(lang, code, timeout=2_000)
    finally:
        ended.set()
        thread.join()
    assert ran.status in ("TO", "OL", "SG"), ran
    assert ran.seconds < 15
    assert others, "no neighbour ran"
    service.run("bash", "echo /proc/[0-9]*", ran.session).expect("/proc/1 /proc/2\n")


def test_A10_without_name_spaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same executor with that layer off: bounded by the user's own limit, all gone, the next run normal."""
    settings = Settings.read({k: v for k, v in environment(Path("/")).items() if k.startswith("WORKROOM_")})
    folder = tmp_path_factory.mktemp("plain")
    work = settings.cache / "work" / folder.name
    executor = LocalExecutor(
        FileObjects(folder / "objects"),
        root=settings.root or find_root(settings.cache),
        jail=settings.jail or build_jail(settings.cache),
        work=work,
        required_layers=frozenset({"clean", "reap", "filter", "memory"}),
        off=frozenset({"namespaces"}),
    )

    def run(lang: str, code: str) -> RunAnswer:
        name = secrets.token_hex(8)
        return executor.run(
            RunRequest(run_id=name, workspace="w", lang=lang, code=code, args=(), limits=plain_limits())
        )

    try:
        assert not executor.health().layers["namespaces"].active
        uid = int(run("bash", "echo $UID").stdout)
        assert uid in range(40_000, 40_000 + 64 * 256)
        for bomb in ("bash", "py"):
            answer = run(*BOMBS[bomb])
            assert answer.reason in ("time", "memory"), answer
            assert _processes_of(uid) == {}
        left = run("bash", "echo $UID; (setsid bash -c '(trap \"\" TERM HUP; sleep 61) &' &); setsid sleep 61 &")
        assert (left.stdout, left.code) == (f"{uid}\n", 0)
        assert _processes_of(uid) == {}
    finally:
        executor.close()
        shutil.rmtree(work)


def _processes_of(uid: int) -> dict[int, str]:
    """Processes of this machine that live under a user, with what they run."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX":
                    found[int(entry.name)] = f"{state} {(entry / 'cmdline').read_text()}"
        except OSError:
            continue
    return found


def test_A12_an_executor_that_dies_is_an_error_and_nothing_is_committed(small: Service) -> None:
    session = small.run("bash", "echo one > f").session
    before = small.rows(session)
    body = {"lang": "bash", "code": "echo two > f; echo new > g; sleep 30", "session_id": session, "timeout": 30_000}
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(small.post(body).status_code))
    thread.start()
    try:
        assert until(lambda: bool(small.ask("GET", "/v1/health").json()["executor"]["running"] == 1))
        time.sleep(0.3)
    finally:
        small.kill_executor()
        thread.join(30)
    assert answers == [502]
    assert small.rows(session) == before
    small.run("bash", "cat f; ls", session).expect("one\nf\n")


def test_A16_the_time_of_a_request_is_honoured(service: Service) -> None:
    ran = service.run("bash", "sleep 5; echo never", timeout=1_000)
    assert (ran.status, ran.stdout, ran.stderr) == ("TO", "", "timed out after 1 s\n")
    assert ran.seconds < 15
    ran = service.run("bash", "sleep 0.2; echo never", timeout=1)
    assert (ran.status, ran.stdout) == ("TO", "")
    assert ran.last_line() == "timed out after 0.001 s"
    service.run("bash", "sleep 1.2; echo in time", timeout=300_000).expect("in time\n")


@pytest.mark.parametrize("value", [0, -1, "5", 10**9, 300_001, 1.5, True, [], {}, "1s", 10**30])
def test_A16_another_time_is_400_and_opens_nothing(service: Service, value: object) -> None:
    answer = service.post({"lang": "bash", "code": "echo ran", "timeout": value})
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
    assert "`timeout`" in answer.json()["message"]


def test_A16_the_default_time_is_the_setting(small: Service) -> None:
    """4 s in this service; compiling counts."""
    ran = small.run("bash", "sleep 30")
    assert (ran.status, ran.last_line()) == ("TO", "timed out after 4 s")
    assert 3.5 < ran.seconds < 15


@pytest.mark.parametrize(
    ("lang", "code"),
    [
        ("py", "x = bytearray(10**10)\nprint('never')\n"),
        ("py", "x = []\nwhile True: x.append(bytearray(10**6))\n"),
        ("js", "const x = []; for (;;) x.push(Buffer.alloc(1e6, 1));"),
        ("c", "#include <stdlib.h>\n#include <string.h>\n"
              "int main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }\n"),
        ("java", "import java.nio.*; import java.util.*;\nclass Main { public static void main(String[] a) {\n"
                 "  List<byte[]> x = new ArrayList<>(); for (;;) x.add(new byte[1 << 20]); } }\n"),
        ("go", 'package main\nfunc main() { var x [][]byte; for { b := make([]byte, 1<<20);'
               ' for i := range b { b[i] = 1 }; x = append(x, b) } }\n'),
        ("bash", "head -c 400M /dev/zero > /dev/shm/x; head -c 2G /dev/zero | tail -c 1900M > /dev/null; exit 9"),
    ],
)  # fmt: skip
def test_A17_a_program_that_takes_all_memory_fails_alone(service: Service, lang: str, code: str) -> None:
    """200; killed for memory, or the language's own out-of-memory error; the service and its neighbours go on."""
    ran = service.run(lang, code, timeout=20_000)
    assert ran.status in ("SG", None), ran
    assert ran.code != 0
    if ran.status == "SG":
        said = ran.stderr.lower()
        assert "out of memory" in said or "memory" in said or "heap" in said, ran
    else:
        assert "emory" in ran.stderr, ran
    service.run("py", "print(1)", ran.session).expect("1\n")


def test_A17_memory_of_many_processes_counts_together(service: Service) -> None:
    code = (
        "import os, sys\nfor _ in range(8):\n    if os.fork() == 0:\n"
        "        x = b'x' * (200 * 2**20)\n        __import__('time').sleep(3)\n        os._exit(0)\n"
        "sys.exit(any(os.wait()[1] for _ in range(8)))\n"
    )
    ran = service.run("py", code, timeout=15_000)
    assert (ran.status, ran.message) == ("SG", "The program was killed: out of memory."), ran
    assert ran.last_line().startswith("killed: out of memory (limit 1073741824 bytes")


def test_A17_eight_busy_threads_end_with_the_time(service: Service) -> None:
    code = (
        "#include <pthread.h>\nvoid *spin(void *x) { for (volatile long i = 0;; i++); }\n"
        "int main(void) { pthread_t t; for (int i = 0; i < 8; i++) pthread_create(&t, 0, spin, 0);\n"
        "  pthread_join(t, 0); }\n"
    )
    ran = service.run("c", code, timeout=2_000)
    assert ran.status in ("TO", "SG"), ran
    assert ran.seconds < 15
    service.run("py", "print(1)").expect("1\n")
