"""The whole service killed while a real program runs: the program ends with it, and the session is free at once."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.cases.door import environment, workroom

_READY = re.compile(r"^Workroom is ready: (http://127\.0\.0\.1:\d+)$", re.MULTILINE)


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """A service on the folder; killed at the end, if it still lives."""
    log = folder / f"log-{secrets.token_hex(4)}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [workroom(), "serve"], env=environment(folder), stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        deadline = time.monotonic() + 60
        while (ready := _READY.search(log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        key = (folder / "data" / "dev.key").read_text().strip()
        with httpx.Client(base_url=ready[1], headers={"X-API-Key": key}, timeout=60, trust_env=False) as client:
            yield process, client
    finally:
        process.kill()
        process.wait(10)


def run(client: httpx.Client, code: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/exec", json={"lang": "bash", "code": code, **more})
    assert answer.status_code == 200, answer.text
    ran: dict[str, Any] = answer.json()
    return ran


def marked(mark: str) -> list[int]:
    """Processes that have the mark in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(entry.name))
    return found


def until(what: str, true: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_D12_a_killed_service_takes_its_programs_along_and_leaves_the_session_free() -> None:
    folder = Path(tempfile.mkdtemp(prefix="workroom-kill-"))
    folder.chmod(0o711)
    mark = f"workroom-{secrets.token_hex(8)}"
    with running(folder) as (process, client):
        session = run(client, "echo kept > kept.txt")["session_id"]
        code = f"echo half > half.txt\nsetsid bash -c 'exec -a {mark} sleep 120' &\nexec -a {mark} sleep 120"
        lost: list[BaseException] = []

        def ask() -> None:
            try:
                run(client, code, session_id=session, timeout=100_000)
            except httpx.TransportError as error:
                lost.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        until("the program does not start", lambda: len(marked(mark)) == 2, 20)
        os.kill(process.pid, signal.SIGKILL)
        asking.join(20)
        assert len(lost) == 1
        until("a program outlives its service", lambda: not marked(mark), 10)
    with running(folder) as (_, client):
        begun = time.monotonic()
        ran = run(client, "ls", session_id=session)
        assert time.monotonic() - begun < 10, "the lock of the dead service blocks"
        assert (ran["stdout"], ran["stderr"], ran["code"]) == ("kept.txt\n", "", 0)
