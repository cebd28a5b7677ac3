"""What a Turn needs of a real executor: variables, output while it comes, an end within two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversarial.runner_helpers import NAP, Bench, bench, processes_of

GREETING = "π \"$(id)\" 'q'\n=x"
SHOW = {
    "py": "import os; print(os.environ['GREETING'], end='')",
    "bash": 'printf %s "$GREETING"',
    "js": "process.stdout.write(process.env.GREETING)",
    "c": '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { fputs(getenv("GREETING"), stdout); }',
    "go": 'package main\nimport ("fmt"; "os")\nfunc main() { fmt.Print(os.Getenv("GREETING")) }',
}


@pytest.fixture(scope="module")
def room() -> Iterator[Bench]:
    with bench() as made:
        yield made


@pytest.mark.parametrize("lang", SHOW)
def test_a_programs_variables_reach_it_unchanged(room: Bench, lang: str) -> None:
    answer = room.run(lang, SHOW[lang], env={"GREETING": GREETING, "EMPTY": ""}, wall_ms=30_000)
    assert (answer.code, answer.stdout) == (0, GREETING)


def test_the_compiler_sees_them_too(room: Bench) -> None:
    header = room.file("x.h", b"#define X 42\n")
    answer = room.run(
        "c",
        '#include <stdio.h>\n#include <x.h>\nint main(void) { printf("%d", X); }',
        env={"C_INCLUDE_PATH": "/mnt/data"},
        manifest=[header],
    )
    assert answer.stdout == "42"


ONE = {
    "py": "print(1)",
    "bash": "echo 1",
    "c": 'int puts(const char *);\nint main(void) { puts("1"); }',
}


@pytest.mark.parametrize("lang", ONE)
def test_no_variable_decides_which_tool_is_started(room: Bench, lang: str) -> None:
    """The C compiler finds its own parts by PATH, so an empty folder there fails the compilation, not the sandbox."""
    answer = room.run(lang, ONE[lang], env={"PATH": "/mnt/data", "HOME": "/mnt/data", "TMPDIR": "/tmp"})
    assert answer.phase == ("compile" if answer.code else "run")
    assert answer.stdout == "1\n" or (lang, answer.phase) == ("c", "compile")


def test_a_variable_replaces_one_of_ours_and_the_others_stay(room: Bench) -> None:
    answer = room.bash('echo "$HOME $LANG"; env | grep -c ^HOME=', env={"HOME": "/mnt/data"})
    assert answer.stdout == "/mnt/data C.UTF-8\n1\n"


def test_a_preloaded_library_is_loaded_into_the_program_and_nothing_before_it(room: Bench) -> None:
    """A constructor that notes every process it is loaded into: the launcher is none of them."""
    made = room.bash(
        "cat >x.c <<'E'\n#include <stdio.h>\n#include <unistd.h>\n"
        "__attribute__((constructor)) static void note(void) {\n"
        ' char to[99]; snprintf(to, 99, "/mnt/data/loaded-%d-%d", getpid(), getppid()); fclose(fopen(to, "w"));\n}\nE\n'
        "gcc -shared -fPIC -o x.so x.c",
        "preload",
    )
    assert (made.code, made.stderr) == (0, "")
    answer = room.bash("echo $$; cat /proc/1/maps 2>&1 | grep -c x.so", "preload", env={"LD_PRELOAD": "/mnt/data/x.so"})
    me, launcher = answer.stdout.split()
    loaded = [entry.path for entry in answer.changes if entry.path.startswith("loaded-")]
    assert loaded
    assert any(name.startswith(f"loaded-{me}-") for name in loaded)
    assert not any(name.startswith("loaded-1-") for name in loaded)
    assert launcher == "0"


def test_a_variable_is_in_no_argument_list_or_environment_of_ours_and_in_no_later_run(room: Bench) -> None:
    secret = f"hidden-{NAP}"
    found: list[str] = []

    def look() -> None:
        time.sleep(0.8)
        pids = {*processes_of("supervise"), room.executor.pid or 0}
        found.append(f"looked {bool(processes_of(NAP))}")
        found.extend(f"cmdline {pid}" for pid in processes_of(secret))
        for pid in pids:
            try:
                if secret.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(f"environ {pid}")
            except OSError:
                continue

    watch = threading.Thread(target=look)
    watch.start()
    answer = room.bash(f'timeout 1.5 sleep {NAP}; test -n "$SECRET" && echo had it', "later", env={"SECRET": secret})
    watch.join(10)
    assert answer.stdout == "had it\n"
    assert found == ["looked True"]
    after = room.bash('echo "<$SECRET>"; ls -A /program', "later")
    assert after.stdout == "<>\nmain.sh\n"


def test_output_is_told_while_the_program_runs(room: Bench) -> None:
    told: list[tuple[float, str, str]] = []
    begun = time.monotonic()
    answer = room.bash(
        "echo one; sleep 0.6; echo two >&2; sleep 0.6; printf 'π' | head -c 1; sleep 0.2; printf 'π' | tail -c 1",
        output=lambda stream, text: told.append((time.monotonic() - begun, stream, text)),
    )
    took = time.monotonic() - begun
    assert [row[1:] for row in told] == [("stdout", "one\n"), ("stderr", "two\n"), ("stdout", "π")]
    assert told[0][0] < took - 1.0
    assert told[1][0] < took - 0.5
    assert (answer.stdout, answer.stderr) == ("one\nπ", "two\n")


def test_the_output_of_the_compiler_is_told(room: Bench) -> None:
    told: list[str] = []
    answer = room.run("c", "int main(void) { return nothing; }", output=lambda stream, text: told.append(text))
    assert answer.phase == "compile"
    assert "nothing" in "".join(told)
    assert answer.stderr.startswith("".join(told))


def test_no_more_is_told_than_the_answer_holds(room: Bench) -> None:
    told: list[str] = []
    answer = room.python("print('x' * 1_000_000)", stdout_bytes=50_000, output=lambda stream, text: told.append(text))
    assert answer.stdout_cut
    assert "".join(told) == "x" * 50_000


def test_a_taker_that_does_not_come_back_holds_no_other_run_up(room: Bench) -> None:
    go, told = threading.Event(), list[str]()

    def slow(stream: str, text: str) -> None:
        told.append(text)
        go.wait(20)

    answers = []
    code = "import sys\nfor _ in range(200): print('x' * 5_000, flush=True)"
    first = threading.Thread(target=lambda: answers.append(room.python(code, output=slow, stdout_bytes=2_000_000)))
    first.start()
    time.sleep(0.5)
    begun = time.monotonic()
    assert room.bash("echo other").stdout == "other\n"
    assert time.monotonic() - begun < 3
    time.sleep(1)
    go.set()
    first.join(10)
    assert len(answers[0].stdout) == 200 * 5_001
    assert answers[0].stdout.startswith("".join(told))
    assert sum(map(len, told)) < 600_000


def test_a_taker_that_fails_ends_its_run(room: Bench) -> None:
    def fail(stream: str, text: str) -> None:
        raise RuntimeError("gone")

    begun = time.monotonic()
    with pytest.raises(RuntimeError):
        room.bash(f"echo one; sleep {NAP}", output=fail)
    expect_gone(begun + 3)


TREES = {
    "a child in a session of its own": f"echo up; setsid sleep {NAP} & setsid -f setsid sleep {NAP}; sleep {NAP}",
    "a child that is deaf": f"trap '' TERM INT HUP; setsid sleep {NAP} & echo up; sleep {NAP}; sleep {NAP}",
    "a fork bomb": f"echo up; sleep {NAP} & :(){{ :|:& }};:; sleep {NAP}",
}


@pytest.mark.parametrize("kind", TREES)
def test_a_cancel_ends_the_whole_tree_within_two_seconds(room: Bench, kind: str) -> None:
    up, asked = threading.Event(), [0.0]

    def cancel() -> None:
        assert up.wait(10)
        time.sleep(0.5)
        asked[0] = time.monotonic()
        room.executor.cancel(f"run {kind}")

    thread = threading.Thread(target=cancel)
    thread.start()
    answer = room.bash(TREES[kind], run_id=f"run {kind}", output=lambda stream, text: up.set(), processes=128)
    ended = time.monotonic()
    thread.join(10)
    assert answer.reason == "stopped"
    assert ended - asked[0] < 2
    expect_gone(asked[0] + 2)


def expect_gone(until: float) -> None:
    """No process of these programs is left at that moment (monotonic clock)."""
    while processes_of(NAP):
        assert time.monotonic() < until, "a process lives on"
        time.sleep(0.02)
