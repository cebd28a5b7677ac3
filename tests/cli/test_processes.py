"""The command as a process: a terminal, a redirect, a service beside it, and how it ends."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.wire.scripted import program
from tests.wire.service import Service

from .answering import answering
from .conftest import Workroom

PROJECT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "functions.cli.main"]

NO_TOOLCHAINS = {"WORKROOM_ROOT": "/nonexistent", "WORKROOM_JAIL": "/nonexistent"}


def environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), **more}


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, *_: Any) -> None:
        pass


def test_a_download_that_is_sent_elsewhere_goes_without_the_credential(local: Workroom, tmp_path: Path) -> None:
    at_store: list[dict[str, str]] = []
    at_door: list[dict[str, str]] = []

    class Store(Quiet):
        def do_GET(self) -> None:
            at_store.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"bytes")

    with answering(Store) as store:

        class Door(Quiet):
            def do_GET(self) -> None:
                at_door.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(302)
                self.send_header("Location", f"{store}/granted")
                self.send_header("Content-Length", "0")
                self.end_headers()

        with answering(Door) as door, pytest.MonkeyPatch.context() as patch:
            patch.setenv("WORKROOM_KEY", "wr_secret")
            ended = local("download", "A" * 21, "a", "-o", "a", "--url", door)
    assert (ended.code, ended.err) == (0, "")
    assert (tmp_path / "a").read_bytes() == b"bytes"
    assert at_door[0]["x-api-key"] == "wr_secret"
    assert len(at_store) == 1
    assert "wr_secret" not in json.dumps(at_store)


def test_a_plain_address_elsewhere_is_refused(local: Workroom, tmp_path: Path) -> None:
    class Door(Quiet):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", "http://elsewhere.invalid/granted")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with answering(Door) as door:
        ended = local("download", "A" * 21, "a", "-o", "a", "--url", door)
    assert ended.code == 1
    assert "not https" in ended.err
    assert not (tmp_path / "a").exists()


def test_a_download_that_breaks_off_leaves_nothing(local: Workroom, tmp_path: Path) -> None:
    class Door(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(b"half")

    with answering(Door) as door:
        ended = local("download", "A" * 21, "a", "-o", "a", "--url", door)
    assert ended.code == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "data"] == []


@pytest.mark.parametrize(
    ("address", "sent"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False), ("key@127.0.0.1", False)]
)
def test_the_development_key_goes_to_this_machine_only(tmp_path: Path, address: str, sent: bool) -> None:
    from functions.cli.client import service  # noqa: PLC0415
    from shared.settings import Settings  # noqa: PLC0415

    (tmp_path / "dev.key").write_text("wr_dev\n")
    _, headers = service(Settings(data=tmp_path, url=f"http://{address}:8080/v1/exec/"))
    assert headers == ({"X-API-Key": "wr_dev"} if sent else {})


def on_terminal(words: list[str], folder: Path, more: dict[str, str]) -> tuple[int, str]:
    """Run the command with standard error on a terminal; its exit code and what the terminal showed."""
    leader, follower = pty.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=follower,
        env=environ(**more),
        cwd=folder,
    )
    os.close(follower)
    shown = b""
    limit = time.monotonic() + 60
    try:
        while time.monotonic() < limit:
            if not select.select([leader], [], [], 1)[0]:
                continue
            try:
                shown += os.read(leader, 65536)
            except OSError:
                break
        return process.wait(10), shown.decode()
    finally:
        os.close(leader)
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("seconds", "barred"), [(2.5, True), (0.0, False)])
def test_a_transfer_above_a_second_has_a_bar_on_a_terminal(tmp_path: Path, seconds: float, barred: bool) -> None:
    class Door(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(5 * 300_000))
            self.end_headers()
            for _ in range(5):
                self.wfile.write(bytes(300_000))
                time.sleep(seconds / 5)

    with answering(Door) as door:
        code, shown = on_terminal(["download", "A" * 21, "big.bin", "--url", door], tmp_path, {})
    assert code == 0
    assert (tmp_path / "big.bin").stat().st_size == 1_500_000
    assert ("big.bin" in shown and "%" in shown) is barred


def test_on_a_terminal_a_run_names_its_session(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(program(stdout="x", write={"out/\x1b[31m": "y"}))
    code, shown = on_terminal(["run", "a.py"], tmp_path, {"WORKROOM_URL": service.url, "WORKROOM_KEY": service.key})
    assert code == 0
    assert re.search(r"session [A-Za-z0-9_-]{21}; exit code 0", shown)
    assert "\x1b[31m" not in shown


def test_ctrl_c_stops_the_program_and_says_nothing(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(program(wait=30))
    before = len(service.executor.stopped)
    more = environ(WORKROOM_URL=service.url, WORKROOM_KEY=service.key)
    process = subprocess.Popen(
        [*COMMAND, "run", "a.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=more, cwd=tmp_path
    )
    assert service.executor.begun.acquire(timeout=30)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")
    limit = time.monotonic() + 10
    while len(service.executor.stopped) == before:
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_whoever_stops_reading_ends_it_without_a_traceback(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(program(stdout="x" * 1_000_000))
    more = environ(WORKROOM_URL=service.url, WORKROOM_KEY=service.key)
    process = subprocess.Popen(
        [*COMMAND, "run", "a.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=more, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(30) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_service_and_commands_share_a_data_folder(tmp_path: Path) -> None:
    """`workroom serve` runs on the folder; a command works on the same folder beside it; both see the same files."""
    nowhere = str(tmp_path / "nowhere")
    more = environ(WORKROOM_DATA=str(tmp_path / "data"), WORKROOM_ROOT=nowhere, WORKROOM_JAIL=nowhere)
    (tmp_path / "a").write_text("shared")

    def workroom(*words: str, **others: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *words], capture_output=True, env={**more, **others}, cwd=tmp_path, timeout=60, check=False
        )

    serving = subprocess.Popen(
        [*COMMAND, "serve"], stdout=subprocess.PIPE, env={**more, "WORKROOM_PORT": "0"}, cwd=tmp_path
    )
    try:
        assert serving.stdout is not None
        ready = serving.stdout.readline().decode()
        while "Workroom is ready" not in ready:
            assert ready
            ready = serving.stdout.readline().decode()
        url = ready.split()[-1]
        stored = workroom("upload", "new", "a")
        assert stored.returncode == 0, stored.stderr
        session = stored.stdout.decode().strip()
        # The development key is found in the data folder, for an address of this machine.
        fetched = workroom("download", session, "a", "-o", "-", WORKROOM_URL=url)
        assert (fetched.returncode, fetched.stdout) == (0, b"shared")
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(20) == 0
    finally:
        serving.kill()
        serving.communicate()


def test_an_address_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = subprocess.run(
            [*COMMAND, "serve"],
            capture_output=True,
            env=environ(WORKROOM_PORT=str(taken.getsockname()[1]), **NO_TOOLCHAINS),
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (2, b"")
    (said,) = [row for row in ended.stderr.decode().splitlines() if not row.startswith("warning: ")]
    assert said.startswith("error: WORKROOM_HOST and WORKROOM_PORT ")
    assert "in use" in said


def test_a_service_without_toolchains_says_so(tmp_path: Path) -> None:
    serving = subprocess.Popen(
        [*COMMAND, "serve"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environ(WORKROOM_PORT="0", **NO_TOOLCHAINS),
        cwd=tmp_path,
    )
    watchdog = threading.Timer(60, serving.kill)
    watchdog.start()
    try:
        assert serving.stderr is not None
        said = serving.stderr.readline().decode()
        assert said.startswith("warning: no program can be run: "), said
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(20) == 0
    finally:
        watchdog.cancel()
        serving.kill()
        serving.communicate()
