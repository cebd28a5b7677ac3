# ruff: noqa: E501 (programs stand as they are written)
"""Each limit of a run bites while it runs, with a clear status and line: a service with those of `small.py`."""

from __future__ import annotations

import re

import pytest

from tests.cases.door import MIB, Service

KIB = 1024


def test_time(small: Service) -> None:
    ran = small.run("py", "print('partial')\nopen('f', 'w').write('x')\nwhile True: pass\n", timeout=1_000)
    assert (ran.stdout, ran.names) == ("partial\n", ["f"])
    assert (ran.code, ran.signal, ran.status, ran.message) == (None, "SIGKILL", "TO", "The program ran out of time.")
    assert ran.stderr == "timed out after 1 s\n"


def test_time_is_raised_by_a_request(small: Service) -> None:
    small.run("bash", "sleep 4.3; echo late", timeout=20_000).expect("late\n")


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(300 * 2**20)\nprint('never')\n",
        "import mmap\nm = mmap.mmap(-1, 300 * 2**20)\nfor i in range(0, len(m), 4096): m[i] = 1\nprint('never')\n",
        "for d in '/dev/shm', '/tmp':\n    for i in range(4): open(f'{d}/{i}', 'wb').write(bytes(7 * 2**20))\n"
        "x = bytearray(210 * 2**20)\nprint('never')\n",
    ],
)
def test_memory(small: Service, code: str) -> None:
    """256 MiB for all processes, /tmp and shared memory together."""
    ran = small.run("py", code)
    assert "never" not in ran.stdout
    assert (ran.status, ran.message) == ("SG", "The program was killed: out of memory."), ran
    assert ran.last_line() == "killed: out of memory (limit 268435456 bytes for all processes and /tmp together)"


def test_memory_below_the_limit_is_given(small: Service) -> None:
    small.run("py", "x = bytearray(180 * 2**20)\nprint(len(x))\n").expect(f"{180 * MIB}\n")


def test_tmp(small: Service) -> None:
    """32 MiB: the system says that it is full, and the workspace is not."""
    ran = small.run("bash", "for i in 1 2 3 4 5 6 7; do head -c 6M /dev/zero > /tmp/$i || echo full; done; echo ok > f")
    assert (ran.stdout, ran.code, ran.names) == ("full\nfull\n", 0, ["f"])
    assert "No space left on device" in ran.stderr


def test_output_flood(small: Service) -> None:
    """Stopped at 2 MiB of one stream; what was printed first is kept."""
    for code in ("echo first; yes", "echo first; yes >&2"):
        ran = small.run("bash", code)
        assert (ran.code, ran.signal, ran.status) == (None, "SIGKILL", "OL"), ran
        assert ran.message == "The program was stopped: too much output."
        assert ran.last_line() == "killed: output limit of 2097152 bytes of one stream"
        assert ran.stdout.startswith("first\n")
        assert ran.seconds < 15


@pytest.mark.parametrize("size", [64 * KIB, 64 * KIB + 1, 200_000, 2 * MIB - 1])
def test_output_is_cut_at_its_limit(small: Service, size: int) -> None:
    """64 KiB are whole; one more is cut, and the program still ends by itself with 0."""
    ran = small.run("py", f"import sys\nsys.stdout.write('x' * {size})\n")
    assert (ran.code, ran.signal) == (0, None)
    if size == 64 * KIB:
        assert (ran.status, ran.stdout, ran.stderr) == (None, "x" * size, "")
        return
    assert (ran.status, ran.stderr) == ("OL", "stdout was cut: it is longer than 65536 bytes\n")
    head, tail = re.fullmatch(r"(x+)\n\[\d+ bytes of output left out\]\n(x+)", ran.stdout).groups()  # type: ignore[union-attr]
    assert len(head) == len(tail) == 32 * KIB
    assert f"[{size - 64 * KIB} bytes" in ran.stdout


def test_file_size(small: Service) -> None:
    """8 MiB: the program is told by the system; the limit is named."""
    ran = small.run("c", '#include <stdio.h>\nint main(void) { FILE *f = fopen("big", "w"); static char b[1 << 20];\n'
                         ' puts("before"); fflush(stdout); for (int i = 0; i < 9; i++) fwrite(b, 1, sizeof b, f); puts("never"); }\n')  # fmt: skip
    assert (ran.stdout, ran.signal, ran.status) == ("before\n", "SIGXFSZ", "SG")
    assert ran.last_line() == "killed: a file reached the limit of 8388608 bytes"
    assert ran.message == "The program was stopped: a file is too large."
    assert all(row["size"] <= 8 * MIB for row in ran.files)
    ran = small.run(
        "py", "try:\n    open('big', 'wb').write(bytes(9 * 2**20))\nexcept OSError as e:\n    print(e.strerror)\n"
    )
    assert (ran.stdout, ran.code) == ("File too large\n", 0)


def test_processes(small: Service) -> None:
    code = (
        "import os, time\nn = 0\ntry:\n    for _ in range(500):\n        if os.fork() == 0:\n            time.sleep(9); os._exit(0)\n"
        "        n += 1\nexcept BlockingIOError as e:\n    print(n < 64, n > 40, e.strerror)\n"
    )
    small.run("py", code).expect("True True Resource temporarily unavailable\n")
    threads = (
        "import threading, time\nn = 0\ntry:\n    for _ in range(500):\n"
        "        threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); n += 1\n"
        "except RuntimeError as e:\n    print(n < 64, n > 40)\n"
    )
    assert small.run("py", threads).expect_end(0).stdout == "True True\n"


def test_open_files(small: Service) -> None:
    code = "import os\nn = 0\ntry:\n    while True:\n        os.open('/dev/null', 0); n += 1\nexcept OSError as e:\n    print(n, e.strerror)\n"
    small.run("py", code).expect("61 Too many open files\n")


@pytest.mark.parametrize(
    "code",
    [
        "i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i+1)); done",
        "i=0; while :; do truncate -s 4M f$i; i=$((i+1)); sleep 0.01; done",
        "exec 3> x 4> y 5> z; rm x y z; for fd in 3 4 5; do head -c 7M /dev/zero >&$fd; done; while :; do :; done",
    ],
)
def test_workspace_bytes(small: Service, code: str) -> None:
    """16 MiB, sparse and deleted files too, while the program runs; what fits is kept."""
    ran = small.run("bash", f"echo early > a; {code}")
    assert (ran.code, ran.signal, ran.status) == (None, "SIGKILL", "SG"), ran
    assert ran.message == "The program was stopped: the workspace is too large."
    assert "killed: workspace limit of 16777216 bytes" in ran.stderr
    assert "a" in ran.names
    assert sum(row["size"] for row in small.rows(ran.session)) <= 16 * MIB
    assert ran.seconds < 15
    small.run("bash", "cat a", ran.session).expect("early\n")


@pytest.mark.parametrize("make", ["> f$i", "mkdir d$i", "ln -s x l$i", "mkfifo p$i"])
def test_workspace_entries(small: Service, make: str) -> None:
    """200 of any kind."""
    ran = small.run("bash", f"i=0; while :; do {make}; i=$((i+1)); done")
    assert (ran.code, ran.signal, ran.status) == (None, "SIGKILL", "SG"), ran
    assert ran.message == "The program was stopped: the workspace has too many entries."
    assert "killed: workspace limit of 200 entries" in ran.stderr
    assert len(small.rows(ran.session)) <= 200
    assert ran.seconds < 15
    count = int(small.run("bash", "find . -mindepth 1 | wc -l", ran.session).expect_end(0).stdout)
    assert count <= 200


def test_a_workspace_at_its_limits_still_works(small: Service) -> None:
    ran = small.run("bash", "for i in $(seq 200); do echo $i > f$i; done").expect_end(0)
    assert len(ran.files) == 200
    assert ran.stderr == ""
    again = small.run("bash", "rm f1; echo new > g; cat f200", ran.session)
    assert (again.stdout, again.names, again.deleted, again.stderr) == ("200\n", ["g"], ["f1"], "")
    full = small.run("bash", "truncate -s 8M x; truncate -s 8M y; echo ok").expect("ok\n", ["x", "y"])
    assert sum(row["size"] for row in small.rows(full.session)) == 16 * MIB
    refused = small.ask("POST", "/v1/upload", data={"session_id": full.session}, files={"file": ("z", b"1")})
    assert refused.status_code in (400, 413), refused.text
    assert small.names(full.session) == ["x", "y"]


def test_what_is_above_a_limit_at_the_end_is_named_and_the_rest_kept(small: Service) -> None:
    """More than fits, made within one look of the watcher: the answer is served, and never above the limit."""
    ran = small.run("py", "for i in range(260): open(f'f{i:03}', 'w').close()\nprint('end')\n")
    assert ran.status in ("SG", None)
    rows = small.rows(ran.session)
    assert len(rows) <= 200
    if ran.status is None:
        assert ran.stdout == "end\n"
        assert "was not kept: the workspace would hold more than 200 entries" in ran.stderr
        assert ran.stderr.splitlines()[-1].startswith("workroom: and ")
    assert ran.names == [row["metadata"]["original-filename"] for row in rows]


def test_depth_and_length_of_paths(small: Service) -> None:
    """80 segments and 5,000 bytes: what is deeper or longer is named and not kept; the run is answered."""
    deep = "import os\nfor i in range({n}):\n    os.mkdir('d'); os.chdir('d')\nopen('f', 'w').close()\nprint('ok')\n"
    fits = small.run("py", deep.format(n=79)).expect_end(0)
    assert fits.names == ["d/" * 79 + "f"]
    ran = small.run("py", deep.format(n=80)).expect_end(0)
    assert (ran.stdout, ran.names) == ("ok\n", [])
    assert "was not kept" in ran.stderr
    assert "80" in ran.stderr
    small.run("bash", "echo next", ran.session).expect("next\n")
    long = "import os\nfor i in range(25):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('f', 'w').close()\nprint('ok')\n"
    ran = small.run("py", long).expect_end(0)
    assert (ran.stdout, ran.names) == ("ok\n", [])
    assert "was not kept" in ran.stderr
    assert "5000" in ran.stderr
