"""Environments of the functions that are no image: this Python behind the Lambda runtime emulator."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.tools import emulator

PROJECT = Path(__file__).resolve().parents[2]
_START_S = 30.0


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def python_environment(
    name: str, handler: str, environ: Mapping[str, str], *, seconds: int, log: Path
) -> Iterator[str]:
    """One environment of a function: its address, for as long as the context lasts.

    `environ` is all that the function sees of an environment, besides what Lambda sets itself. What it prints goes
    to the end of `log`.
    """
    port, runtime = free_port(), free_port()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(PROJECT),
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(seconds),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        **environ,
    }
    command = [
        str(emulator()), "--runtime-interface-emulator-address", f"127.0.0.1:{port}",
        "--runtime-api-address", f"127.0.0.1:{runtime}", "--log-level", "error",
        sys.executable, "-m", "awslambdaric", handler,
    ]  # fmt: skip
    with open(log, "ab") as out:
        process = subprocess.Popen(
            command, env=env, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        _listening(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def _listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert process.poll() is None, "the emulator ended"
        assert time.monotonic() < deadline, "the emulator does not listen"
        time.sleep(0.02)
