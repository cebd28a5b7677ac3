"""A client that remembers what it was told, and a service of the zygote's that it talks to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx


class Zygote:
    """The process that forks services. Ended by `close`, and by the end of its standard input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._services: list[Service] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kill.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def service(self, data: Path, kill: int | None) -> Service:
        """A service on `data` that dies at the `kill`-th step after it was armed."""
        count = len(self._services)
        control, answers = (self._folder / f"{count}.{name}" for name in ("control", "answers"))
        for pipe in (control, answers):
            os.mkfifo(pipe)
        command = {"data": str(data), "kill": kill, "control": str(control), "answers": str(answers)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        made = json.loads(self._process.stdout.readline())
        service = Service(made["pid"], made["port"], control, answers, (data / "dev.key"))
        self._services.append(service)
        return service

    def close(self) -> None:
        """End it, and every service of its that still lives."""
        for service in self._services:
            service.end()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


class Service:
    """One forked service."""

    def __init__(self, pid: int, port: int, control: Path, answers: Path, key: Path) -> None:
        self.pid = pid
        self.ended = False
        self._control = control.open("w")
        self._answers = answers.open()
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20, trust_env=False)
        self.http.get("/v1/health")
        self.http.headers["X-API-Key"] = key.read_text().strip()

    def arm(self) -> None:
        """From now on steps are counted."""
        self._ask("arm")

    def steps(self) -> list[str]:
        """The labels that were reached since it was armed."""
        labels: list[str] = json.loads(self._ask("steps"))
        return labels

    def _ask(self, line: str) -> str:
        self._control.write(line + "\n")
        self._control.flush()
        return self._answers.readline()

    def end(self) -> None:
        """Kill it, as a power cut would; once."""
        if self.ended:
            return
        self.ended = True
        self.http.close()
        for pipe in (self._control, self._answers):
            pipe.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
