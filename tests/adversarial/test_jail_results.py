"""The status line tells a run's result exactly, through every part of the chain (cases A11, A17, K21)."""

import json
import os
import signal
import subprocess

import pytest

from tests.adversarial.jail_helpers import Chain, Run, jail, new_uid, python, run, shell, workspace

BOTH = pytest.mark.parametrize("namespaces", [False, True])


@BOTH
@pytest.mark.parametrize("code", [0, 1, 3, 127, 128, 137, 255])
def test_exit_code_is_exact(code: int, namespaces: bool) -> None:
    result = shell(f"exit {code}", namespaces=namespaces)
    assert result.outcome == (code, None, None)
    assert result.status["phase"] == "run"
    assert result.status["clean"] is True


@BOTH
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGTERM, signal.SIGPIPE])
def test_signal_is_exact(number: int, namespaces: bool) -> None:
    assert shell(f"kill -{number:d} $$", namespaces=namespaces).outcome == (None, number, None)


@BOTH
def test_exit_code_above_128_is_not_taken_for_a_signal(namespaces: bool) -> None:
    assert python("import os; os._exit(139)", namespaces=namespaces).outcome == (139, None, None)


@BOTH
def test_streams_are_the_program_s_own_bytes(namespaces: bool) -> None:
    result = shell(r"printf 'a\0\xff'; printf 'err' >&2", namespaces=namespaces)
    assert (result.stdout, result.stderr) == (b"a\0\xff", b"err")


@BOTH
def test_compile_step_runs_before_the_program_and_prints_to_stderr(namespaces: bool) -> None:
    uid = new_uid()
    with workspace(uid) as folder:
        result = run(
            "bash", "-c", "cat made; echo program", compile=["bash", "-c", "echo kept > made; echo compiler"],
            namespaces=namespaces, uid=uid, folder=folder,
        )  # fmt: skip
    assert (result.text, result.stderr) == ("kept\nprogram\n", b"compiler\n")
    assert (result.outcome, result.status["phase"]) == ((0, None, None), "run")


@BOTH
@pytest.mark.parametrize(("compiler", "outcome"), [("exit 4", (4, None, None)), ("kill -11 $$", (None, 11, None))])
def test_failed_compile_step_is_the_result_and_the_program_does_not_run(
    compiler: str, outcome: tuple[int | None, int | None, None], namespaces: bool
) -> None:
    result = run("bash", "-c", "echo ran", compile=["bash", "-c", compiler], namespaces=namespaces)
    assert (result.outcome, result.status["phase"], result.stdout) == (outcome, "compile", b"")


def test_compile_step_counts_towards_the_wall_limit() -> None:
    result = run("true", compile=["sleep", "9"], wall_ms=300)
    assert (result.outcome, result.status["phase"]) == ((None, 9, "time"), "compile")


@BOTH
def test_what_the_compile_step_left_running_is_gone_at_the_end(namespaces: bool) -> None:
    result = run("true", compile=["bash", "-c", "setsid sleep 60 & exit 0"], namespaces=namespaces)
    assert result.outcome == (0, None, None)
    assert result.status["killed"] >= 1
    assert result.seconds < 5


@BOTH
def test_program_that_is_not_there_never_started(namespaces: bool) -> None:
    result = run("no-such-program", namespaces=namespaces)
    assert result.outcome == (None, None, "start")
    assert result.status["error"] == "exec: errno 2"


def test_chain_that_breaks_before_the_program_never_started() -> None:
    result = shell("echo ran", namespaces=True, bwrap=["--bind", "/no/such/folder", "/mnt/x"])
    assert result.outcome == (None, None, "start")
    assert result.status["error"] == "the sandbox did not start"
    assert result.stdout == b""


def test_missing_bubblewrap_never_started() -> None:
    status_r, status_w = os.pipe()
    argv = [jail(), "supervise", "--status-fd", str(status_w), "--", "/no/bwrap"]
    subprocess.run(argv, pass_fds=[status_w], check=True, timeout=10)
    os.close(status_w)
    with os.fdopen(status_r) as status:
        assert json.load(status)["error"] == "exec: errno 2"


@pytest.mark.parametrize(
    ("enter", "error"), [(["--cwd", "/no/such/folder"], "cwd: errno 2"), (["--mkdir", "/proc/made"], "mkdir: errno 2")]
)
def test_setup_that_fails_is_named(enter: list[str], error: str) -> None:
    result = shell("echo ran", enter=enter)
    assert (result.outcome, result.status["error"]) == ((None, None, "start"), error)
    assert result.stdout == b""


@pytest.mark.parametrize(
    "argv",
    [
        [], ["nonsense"], ["supervise"], ["supervise", "--"], ["supervise", "--wall-ms", "x", "--", "/bin/true"],
        ["supervise", "--wall-ms", "-1", "--", "/bin/true"], ["supervise", "--uid", "5", "--", "/bin/true"],
        ["supervise", "--nope", "1", "--", "/bin/true"], ["enter", "--rlimit", "nproc", "--", "true"],
        ["enter", "--rlimit", "proc=4", "--", "true"], ["enter", "--compile", "1", "--", "true"], ["probe", "nope"],
        ["supervise", "--wall-ms"],
    ],
)  # fmt: skip
def test_wrong_command_line_is_refused(argv: list[str]) -> None:
    done = subprocess.run([jail(), *argv], capture_output=True, timeout=10, check=False)
    assert done.returncode == 2
    assert done.stderr != b""
    assert done.stdout == b""


@BOTH
def test_k21_environment_of_a_request_reaches_only_the_program(namespaces: bool) -> None:
    hostile = {
        "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LD_PRELOAD": "/no/evil.so", "LD_AUDIT": "/no/evil.so",
        "BASH_ENV": "/no/rc", "PYTHONSTARTUP": "/no/py", "NODE_OPTIONS": "--no", "GLIBC_TUNABLES": "x=y",
        "A B": "c=d\n",
    }  # fmt: skip
    result = python("import os, json; print(json.dumps(dict(os.environ)))", env=hostile, namespaces=namespaces)
    assert result.outcome == (0, None, None)
    assert json.loads(result.stdout) == hostile
    # The dynamic loader of the program itself is the only one that complains.
    assert result.stderr.count(b"evil.so") <= 4


@BOTH
def test_arguments_reach_the_program_word_by_word(namespaces: bool) -> None:
    words = ["--", "--filter", "0", "a b", "", "$(id)", "'", "\n", "-c"]
    result = run("/usr/bin/printf", "[%s]", *words, namespaces=namespaces)
    assert result.text == "".join(f"[{word}]" for word in words)


def test_stdin_is_the_descriptor_that_was_given() -> None:
    assert shell("cat; echo end").text == "end\n"


def test_measures_are_plausible() -> None:
    result = python("import time\nx = bytearray(40 << 20)\nwhile time.process_time() < 0.3: pass")
    assert 300 <= result.status["wall_ms"] <= result.seconds * 1000 + 1
    assert 290 <= result.status["cpu_ms"] <= 2000
    assert (40 << 20) <= result.status["max_rss"] <= (200 << 20)
    assert result.status["peak_memory"] is None


def test_status_line_comes_although_nobody_reads_the_program_s_output() -> None:
    started = Run(Chain(["bash", "-c", "yes | head -c 100000"]))
    assert started.finish().outcome == (0, None, None)
