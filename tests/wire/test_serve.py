"""`serve` in a process of its own: where it listens, what it says, how it ends (DESIGN §9)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from functions.api.serve import check_address, is_loopback, serve
from shared.limits import MIB, Limits
from shared.settings import BadSetting, Settings
from tests.wire.scripted import Scripted, program
from tests.wire.service import open_test_room

PROGRAM = """
import sys
from pathlib import Path
from functions.api.serve import serve
from shared.limits import MIB, Limits
from shared.settings import Settings
from tests.wire.scripted import Scripted
from tests.wire.service import make_key, open_test_room

folder = Path(sys.argv[1])
room = open_test_room(folder, Limits(), Scripted())
print(make_key(room, "first"), flush=True)
serve(Settings(port=0, dev_key=False, janitor_s=1), room, lambda: (folder / "swept").touch())
print("ended", flush=True)
room.background.shutdown()
"""


@contextmanager
def process(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A service in a process: the process, its key, its address."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env={"PATH": os.environ["PATH"]},
    )
    watchdog = threading.Timer(60, child.kill)
    watchdog.start()
    try:
        assert child.stdout is not None
        key = child.stdout.readline().strip()
        ready = re.fullmatch(r"Workroom is ready: (http://127\.0\.0\.1:\d+)\n", child.stdout.readline())
        assert ready, child.stderr.read() if child.stderr else ""
        yield child, key, ready[1]
    finally:
        watchdog.cancel()
        child.kill()
        child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_that_it_is_ready_and_ends_in_order_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path) as (child, key, url):
        headers = {"X-API-Key": key}
        with httpx.Client(base_url=url, headers=headers, timeout=20, trust_env=False) as client:
            answer = client.post("/v1/exec", json={"lang": "py", "code": program(stdout="hi")})
            assert answer.json()["stdout"] == "hi"
            assert "server" not in answer.headers
            done: list[httpx.Response] = []
            body = {"lang": "py", "code": program(wait=1.5, stdout="finished")}
            running = threading.Thread(
                target=lambda: done.append(httpx.post(url + "/v1/exec", json=body, headers=headers, timeout=20))
            )
            running.start()
            while client.get("/v1/health").json()["executor"]["running"] == 0:
                pass
            child.send_signal(number)
            running.join(20)
        out, err = child.communicate(timeout=30)
        assert child.returncode == 0, err
        assert done[0].json()["stdout"] == "finished", "what runs has a while to finish"
        lines = out.splitlines()
        assert lines[-1] == "ended"
        rows = [json.loads(line) for line in lines[:-1]]
        assert {row["route"] for row in rows} == {"/v1/exec", "/v1/health"}
        assert all(row["event"] == "request" for row in rows)
        assert key not in out + err
        assert (tmp_path / "swept").exists(), "the janitor sweeps by itself"


def test_what_does_not_finish_is_stopped_and_answered(tmp_path: Path) -> None:
    with process(tmp_path) as (child, key, url):
        headers = {"X-API-Key": key}
        done: list[httpx.Response] = []
        body = {"lang": "py", "code": program(wait=50)}
        running = threading.Thread(
            target=lambda: done.append(httpx.post(url + "/v1/exec", json=body, headers=headers, timeout=40))
        )
        running.start()
        while httpx.get(url + "/v1/health", headers=headers, trust_env=False).json()["executor"]["running"] == 0:
            pass
        child.terminate()
        running.join(30)
        child.communicate(timeout=30)
        assert child.returncode == 0
        assert done[0].status_code == 503
        assert done[0].json()["error"] == "executor_unavailable"


def peak(pid: int) -> int:
    """The highest resident memory of a process since `forget_peak`, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def big_form(mib: int) -> Iterator[bytes]:
    yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="big.bin"\r\n\r\n'
    for _ in range(mib):
        yield bytes(MIB)
    yield b"\r\n--b--\r\n"


def test_memory_does_not_grow_with_a_transfer(tmp_path: Path) -> None:
    """100 MiB take at most 20 MB more than 1 MiB."""
    peaks: dict[tuple[str, int], int] = {}
    with process(tmp_path) as (child, key, url):
        form = {"Content-Type": "multipart/form-data; boundary=b"}
        with httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=50, trust_env=False) as client:
            for mib in (1, 100):
                forget_peak(child.pid)
                made = client.post("/v1/upload", content=big_form(mib), headers=form)
                assert made.json()["files"][0]["size"] == mib * MIB
                peaks["up", mib] = peak(child.pid)
                forget_peak(child.pid)
                with client.stream("GET", f"/v1/download/{made.json()['session_id']}/big.bin") as answer:
                    assert sum(map(len, answer.iter_bytes(MIB))) == mib * MIB
                peaks["down", mib] = peak(child.pid)
    for way in ("up", "down"):
        assert peaks[way, 100] - peaks[way, 1] < 20_000_000, peaks


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.1", "example.org", "", "127.0.0.1.example.org"]
)
def test_it_refuses_another_address_with_the_development_key(tmp_path: Path, host: str) -> None:
    room = open_test_room(tmp_path, Limits(), Scripted())
    with pytest.raises(BadSetting, match="WORKROOM_HOST"):
        serve(Settings(host=host, port=0, dev_key=True), room)
    check_address(Settings(host=host, port=0, dev_key=False))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_a_loopback_address_is_this_machines_own(host: str) -> None:
    assert is_loopback(host)
    check_address(Settings(host=host, dev_key=True))
