"""What is measured. Each function times requests, asserts every answer, and returns rows of a table."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tests.bench.programs import HELLO
from tests.bench.service import Service

Row = Sequence[str]


def run(client: httpx.Client, body: dict[str, Any], stdout: str, files: Sequence[str] = ()) -> tuple[float, str]:
    """One timed run; milliseconds and its session. Asserts exit code, stdout and files."""
    begun = time.perf_counter()
    answer = client.post("/v1/exec", json=body)
    spent = (time.perf_counter() - begun) * 1000
    assert answer.status_code == 200, answer.text
    ran = answer.json()
    assert (ran["code"], ran["stdout"], ran["stderr"]) == (0, stdout, ""), ran
    assert sorted(row["name"] for row in ran["files"]) == sorted(files), ran["files"]
    return spent, ran["session_id"]


def languages(service: Service, root: str, langs: Sequence[str], rounds: int) -> list[Row]:
    """A warm hello over HTTP beside the bare command, in turn."""
    bare = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", "tests.bench.bare", root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert bare.stdin is not None
    assert bare.stdout is not None
    rows: list[Row] = []
    with service.client() as client:
        for lang in langs:
            ours, plain = [], []
            for _ in range(rounds + 1):
                bare.stdin.write(lang + "\n")
                bare.stdin.flush()
                plain.append(float(bare.stdout.readline()))
                ours.append(run(client, {"lang": lang, "code": HELLO[lang]}, "hello\n")[0])
            a, b = statistics.median(ours[1:]), statistics.median(plain[1:])
            over = statistics.median(x - y for x, y in zip(ours[1:], plain[1:], strict=True))
            rows.append([lang, f"{a:.0f}", f"{b:.0f}", f"{over:.0f}", f"{a / b:.2f}"])
    bare.stdin.close()
    bare.stdout.close()
    bare.wait(10)
    return rows


def clients(service: Service, counts: Sequence[int], seconds: float) -> list[Row]:
    """Python hellos a second from some clients at once; an error ends the measurement."""
    rows: list[Row] = []
    for count in counts:
        times: list[float] = []
        errors: list[BaseException] = []
        stop = time.monotonic() + seconds

        def work(until: float = stop, kept: list[float] = times, wrong: list[BaseException] = errors) -> None:
            try:
                with service.client() as client:
                    while time.monotonic() < until:
                        kept.append(run(client, {"lang": "py", "code": HELLO["py"]}, "hello\n")[0])
            except BaseException as error:  # shown in the table, whatever it is
                wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(count)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = len(times) / (time.monotonic() - begun)
        p99 = statistics.quantiles(times, n=100)[98]
        rows.append([str(count), f"{rate:.0f}", f"{statistics.median(times):.0f}", f"{p99:.0f}", str(len(errors))])
    return rows


def thousand_files(service: Service, rounds: int) -> list[Row]:
    """Runs in a session with 1,000 small files: unchanged, and with one changed."""
    make = 'import os\nfor i in range(1000):\n    open(f"f{i:04}.txt", "w").write(str(i))\n'
    with service.client() as client:
        body = {"lang": "py", "code": make}
        _, session = run(client, body, "", [f"f{n:04}.txt" for n in range(1000)])
        hello = {"lang": "bash", "code": "echo hello\n", "session_id": session}
        change = {"lang": "bash", "code": "echo $RANDOM$RANDOM > f0500.txt\n", "session_id": session}
        empty = {"lang": "bash", "code": "echo hello\n"}
        plain = [run(client, empty, "hello\n")[0] for _ in range(rounds + 1)][1:]
        same = [run(client, hello, "hello\n")[0] for _ in range(rounds + 1)][1:]
        one = [run(client, change, "", ["f0500.txt"])[0] for _ in range(rounds + 1)][1:]
    base = statistics.median(plain)
    return [
        [name, f"{statistics.median(times):.0f}", f"{statistics.median(times) - base:.0f}"]
        for name, times in (("no files", plain), ("1,000 files, unchanged", same), ("1,000 files, one changed", one))
    ]


def transfers(service: Service, sizes: Sequence[int], rounds: int) -> list[Row]:
    """Upload and download, with the service's peak memory above its memory before."""
    rows: list[Row] = []
    with service.client() as client:
        for size in sizes:
            data = bytes(range(256)) * (size // 256)
            up, down = [], []
            before = service.memory()
            service.reset_peak()
            for _ in range(rounds):
                begun = time.perf_counter()
                stored = client.post("/v1/upload", files={"file": ("data.bin", data)}).raise_for_status().json()
                up.append((time.perf_counter() - begun) * 1000)
                begun = time.perf_counter()
                got = client.get(f"/v1/download/{stored['session_id']}/{stored['files'][0]['fileId']}").content
                down.append((time.perf_counter() - begun) * 1000)
                assert got == data
            peak = service.memory("VmHWM") - before
            mib = f"{size >> 20} MiB"
            rows.append([mib, f"{statistics.median(up):.0f}", f"{statistics.median(down):.0f}", f"{peak:.1f}"])
    return rows


def phase(name: str, measure: Callable[[], list[Row]]) -> list[Row]:
    """Say what is measured and for how long it took."""
    print(f"bench: {name} …", file=sys.stderr, flush=True)
    begun = time.monotonic()
    rows = measure()
    print(f"bench: {name} took {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return rows
