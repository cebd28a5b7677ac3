"""cases.md A: processes, pipes, time-outs, signals, through HTTP."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from tests.cases.door import MIB, Service, at_once

# Names every process that a program can see but the first of its name space and itself; it starts none.
SEEN = 'for p in /proc/[0-9]*; do case $p in /proc/1|/proc/$$) ;; *) echo "$p" "$(<$p/comm)";; esac; done'

# Each form leaves the tree of the program in another way.
DAEMONS = {
    "background": "sleep 61 & echo hi",
    "nohup": "nohup sleep 61 >/dev/null 2>&1 & echo hi",
    "setsid": "setsid nohup sleep 61 >/dev/null 2>&1 & echo hi",
    "disowned": "(sleep 61 & disown); echo hi",
    "double fork": "(setsid bash -c '(trap \"\" TERM HUP INT QUIT; sleep 61) &' &) ; echo hi",
    "holds the pipes": "setsid bash -c 'exec -a held sleep 61' & echo hi",
}


SLEEPERS = [
    ("bash", 'python3 -c "import time; time.sleep(999)"; :'),
    ("bash", "trap '' TERM INT HUP; while :; do sleep 1; done"),
    ("py", "import subprocess\nsubprocess.run(['bash', '-c', 'sleep 999; :'])\n"),
    ("js", "require('child_process').execSync('sleep 999; :')"),
    (
        "c",
        "#include <signal.h>\n#include <unistd.h>\n"
        "int main(void) { sigset_t s; sigfillset(&s); sigprocmask(SIG_BLOCK, &s, 0);\n"
        "  fork(); for (;;) sleep(9); }\n",
    ),
]


def test_A1_nothing_survives_a_time_out(service: Service) -> None:
    """Whatever waits, ignores signals or has children."""
    runs = at_once([partial(service.run, lang, code, timeout=1_500) for lang, code in SLEEPERS])
    for ran in runs:
        assert (ran.code, ran.signal, ran.status) == (None, "SIGKILL", "TO"), ran
        assert ran.last_line() == "timed out after 1.5 s"
        assert ran.seconds < 15
        service.run("bash", SEEN, ran.session).expect("")


@pytest.mark.parametrize("how", DAEMONS)
def test_A2_background_child_does_not_hold_the_answer(service: Service, how: str) -> None:
    ran = service.run("bash", DAEMONS[how], timeout=20_000).expect("hi\n")
    assert ran.seconds < 15
    service.run("bash", SEEN, ran.session).expect("")


@pytest.mark.parametrize(
    ("lang", "code"),
    [
        ("py", "import subprocess\nsubprocess.Popen(['sleep', '61'])\nprint('hi')\n"),
        ("js", "require('child_process').spawn('sleep', ['61'], {detached: true, stdio: 'inherit'}).unref();"
               "console.log('hi');"),
        ("php", "<?php echo \"hi\\n\"; exec('sleep 61 > /dev/null 2>&1 &');"),
        ("c", "#include <stdio.h>\n#include <unistd.h>\n"
              "int main(void) { if (!fork()) { setsid(); sleep(61); } puts(\"hi\"); }\n"),
        ("go", 'package main\nimport ("fmt"; "os/exec")\n'
               'func main() { exec.Command("sleep", "61").Start(); fmt.Println("hi") }\n'),
    ],
)  # fmt: skip
def test_A2_a_child_of_any_language_does_not_hold_the_answer(service: Service, lang: str, code: str) -> None:
    ran = service.run(lang, code, timeout=20_000).expect("hi\n")
    assert ran.seconds < 15


def test_A2_what_a_child_prints_before_the_program_ends_is_there(service: Service) -> None:
    service.run("bash", "(echo child; sleep 61) & sleep 0.3; echo parent").expect("child\nparent\n")


@pytest.mark.parametrize(
    ("lang", "code"),
    [
        ("py", "import sys\nsys.stdout.write('x' * 1_000_000)\nsys.stderr.write('y' * 1_000_000)\n"),
        ("py", "import sys\nfor _ in range(1000):\n"
               "    sys.stdout.write('x' * 1000)\n    sys.stderr.write('y' * 1000)\n"),
        ("js", "process.stderr.write('y'.repeat(1e6)); process.stdout.write('x'.repeat(1e6));"),
        ("bash", "head -c 1000000 /dev/zero | tr '\\0' x & head -c 1000000 /dev/zero | tr '\\0' y >&2; wait"),
    ],
)  # fmt: skip
def test_A3_both_pipes_are_drained(service: Service, lang: str, code: str) -> None:
    ran = service.run(lang, code).expect_end(0)
    assert ran.stdout == "x" * 1_000_000
    assert ran.stderr == "y" * 1_000_000


@pytest.mark.parametrize(
    ("lang", "code", "total"),
    [
        ("py", "print('A' + 'a' * 10**7 + 'Z')", 10**7 + 3),
        ("js", "console.log('A' + 'a'.repeat(1e7) + 'Z')", 10**7 + 3),
        ("c", '#include <stdio.h>\nint main(void) { puts("A"); for (int i = 0; i < 1048577; i++) putchar(97);'
              ' puts("Z"); }\n', 1_048_577 + 4),
    ],
)  # fmt: skip
def test_A4_too_much_output_keeps_head_and_tail_and_the_exit_code(
    service: Service, lang: str, code: str, total: int
) -> None:
    ran = service.run(lang, code)
    assert (ran.code, ran.signal, ran.status) == (0, None, "OL")
    assert ran.stderr == "stdout was cut: it is longer than 1048576 bytes\n"
    assert ran.stdout.startswith("A")
    assert ran.stdout.endswith("aZ\n")
    (left_out,) = re.findall(r"\n\[(\d+) bytes of output left out\]\n", ran.stdout)
    marker = f"\n[{left_out} bytes of output left out]\n"
    kept = len(ran.stdout.encode()) - len(marker)
    assert kept + int(left_out) == total
    assert MIB - 8 <= kept <= MIB


def test_A4_standard_error_is_cut_by_itself(service: Service) -> None:
    ran = service.run("py", "import sys\nsys.stderr.write('E' * 3_000_000)\nprint('whole')\nsys.exit(4)\n").expect_end(
        4
    )
    assert ran.stdout == "whole\n"
    assert "bytes of output left out]" in ran.stderr
    assert len(ran.stderr) < MIB + 100


@pytest.mark.parametrize(
    ("lang", "code"),
    [("bash", "yes"), ("bash", "yes >&2"), ("py", "while True: print('y' * 99)"), ("bash", "yes & yes >&2")],
)
def test_A4_an_endless_flood_is_stopped_and_says_why(service: Service, lang: str, code: str) -> None:
    ran = service.run(lang, code)
    assert (ran.code, ran.signal, ran.status) == (None, "SIGKILL", "OL")
    assert ran.last_line() == "killed: output limit of 67108864 bytes of one stream"
    assert ran.message == "The program was stopped: too much output."
    assert ran.seconds < 20
    assert len(ran.stdout) <= MIB + 100
    assert len(ran.stderr) <= MIB + 200


STEPS = [
    ("py", "print('step 1')\nimport time\ntime.sleep(99)\n"),
    ("js", "console.log('step 1'); setInterval(() => 0, 1000);"),
    ("bash", "echo 'step 1'; sleep 99"),
    ("r", "cat('step 1\\n')\nSys.sleep(99)\n"),
    ("php", '<?php echo "step 1\\n"; sleep(99);'),
    ("c", '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("step 1"); fflush(stdout); pause(); }\n'),
]


def test_A5_partial_output_of_a_timed_out_program_is_kept(service: Service) -> None:
    """At the limit, with the line that says so, in any language that wrote its line out."""
    runs = at_once([partial(service.run, lang, code, timeout=2_500) for lang, code in STEPS])
    for ran in runs:
        assert (ran.stdout, ran.code, ran.signal, ran.status) == ("step 1\n", None, "SIGKILL", "TO"), ran
        assert ran.stderr == "timed out after 2.5 s\n"
        assert ran.message == "The program ran out of time."


def test_A5_files_of_a_timed_out_program_are_kept(service: Service) -> None:
    ran = service.run("bash", "echo kept > f; echo e >&2; while :; do :; done", timeout=1_000)
    assert (ran.names, ran.stderr, ran.status) == (["f"], "e\ntimed out after 1 s\n", "TO")
    service.run("bash", "cat f", ran.session).expect("kept\n")


@pytest.mark.parametrize(
    ("lang", "code", "exit_code", "stdout", "said"),
    [
        ("py", "input()", 1, "", "EOFError"),
        ("bash", "cat", 0, "", ""),
        ("bash", "read x; echo $?", 0, "1\n", ""),
        ("r", 'readLines("stdin")', 0, "character(0)\n", ""),
        ("js", "process.stdin.on('end', () => console.log('end')).resume()", 0, "end\n", ""),
    ],
)
def test_A7_reading_meets_the_end_at_once(
    service: Service, lang: str, code: str, exit_code: int, stdout: str, said: str
) -> None:
    ran = service.run(lang, code).expect_end(exit_code)
    assert ran.stdout == stdout
    assert said in ran.stderr
    assert ran.seconds < 15


def test_A8_the_program_is_not_fed_through_standard_input(service: Service) -> None:
    service.run("bash", "cat > f; wc -c < f; echo after").expect("0\nafter\n", ["f"])
    service.run("bash", "python3 -; node -; echo after").expect("after\n")
    service.run("py", "import subprocess as s\nprint(s.run(['cat'], capture_output=True).stdout)\n").expect("b''\n")


@pytest.mark.parametrize(
    "code", ["exit 3", "kill -KILL $$", "kill -SEGV $$", 'rm -rf "$PWD"/* "$HOME" /tmp/* 2>/dev/null; exit 5']
)
def test_A11_a_run_that_ends_badly_leaves_the_session_usable(service: Service, code: str) -> None:
    session = service.upload("kept", b"k")
    service.run("bash", f"cp kept other; {code}", session)
    service.run("bash", "echo ok; ls").expect_end(0)
    ran = service.run("bash", "echo ok $(ls | wc -l)", session)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("ok ")


def test_A11_each_run_is_a_process_of_its_own(service: Service) -> None:
    first = service.run("bash", "export LEFT=1; cd /tmp; umask 0; alias ls=false; echo $LEFT; exit 3").expect_end(3)
    service.run("bash", 'echo "<$LEFT>" $PWD $(umask)', first.session).expect("<> /mnt/data 0022\n")


@pytest.mark.parametrize(
    ("lang", "code"),
    [
        ("js", 'console.log(require("child_process").execSync("env")+"")'),
        ("py", "import os\nfor item in os.environ.items(): print('='.join(item))\n"),
        ("bash", "env; tr '\\0' '\\n' < /proc/self/environ"),
        ("php", "<?php foreach (getenv() as $name => $value) echo \"$name=$value\\n\";"),
        ("go", 'package main\nimport ("fmt"; "os")\n'
               "func main() { for _, e := range os.Environ() { fmt.Println(e) } }\n"),
        ("c", "#include <stdio.h>\nextern char **environ;\n"
              "int main(void) { for (char **e = environ; *e; e++) puts(*e); }\n"),
        ("r", 'for (n in names(Sys.getenv())) cat(n, "=", Sys.getenv(n), "\\n", sep = "")\n'),
    ],
)  # fmt: skip
def test_A14_the_environment_is_an_allow_list(service: Service, lang: str, code: str) -> None:
    """Nothing of ours, of a cloud's or of this machine's, in whatever language."""
    ran = service.run(lang, code).expect_end(0)
    lines = [line for line in ran.stdout.splitlines() if "=" in line]
    names = {line.partition("=")[0] for line in lines}
    assert {"HOME=/tmp/home", "TMPDIR=/tmp", "TZ=UTC", "LANG=C.UTF-8"} <= set(lines)
    for name in names:
        assert not name.startswith(("AWS_", "LAMBDA_", "_HANDLER", "_X_AMZN", "PYTHONPATH", "LD_", "PYTEST", "GITHUB"))
        assert name == "WORKROOM_R" or not name.startswith("WORKROOM"), name
    assert "canary" not in ran.stdout
    assert service.key not in ran.stdout
    assert str(service.folder) not in ran.stdout


def test_A15_a_process_out_of_our_group_is_dead_before_the_answer(service: Service) -> None:
    """Seen from outside: no process of any program's user is left once the answer is there."""
    token = "sleep 611.0625"
    code = f"setsid nohup {token} >/dev/null 2>&1 & (setsid bash -c 'trap \"\" HUP TERM; {token}; :' &) ; echo up"
    service.run("bash", code).expect("up\n")
    left = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and b"611.0625" in _cmdline(entry)]
    assert left == []


def _cmdline(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_A19_each_stream_keeps_its_order(service: Service) -> None:
    ran = service.run("py", "import sys\nprint(1)\nprint(2, file=sys.stderr)\nprint(3)\nprint(4, file=sys.stderr)\n")
    assert (ran.stdout, ran.stderr, ran.code) == ("1\n3\n", "2\n4\n", 0)


def test_twelve_runs_at_once_each_with_its_own_answer(service: Service) -> None:
    runs = at_once([partial(service.run, "bash", f"sleep 0.2; echo {i}; echo {i} > f; exit {i}") for i in range(12)])
    assert [(ran.stdout, ran.code) for ran in runs] == [(f"{i}\n", i) for i in range(12)]
    assert len({ran.session for ran in runs}) == 12
