"""A service to measure: the real command on a fresh data folder and a free port, with its default layers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.e2e.environments import free_port


@dataclass(frozen=True, slots=True)
class Service:
    """A running service: its address, key and process."""

    address: str
    key: str
    pid: int

    def client(self) -> httpx.Client:
        """A client with the key."""
        return httpx.Client(base_url=self.address, headers={"X-API-Key": self.key}, timeout=300, trust_env=False)

    def memory(self, field: str = "VmRSS") -> float:
        """MB of the service process: VmRSS now, VmHWM the peak since `reset_peak`."""
        return _memory(self.pid, field)

    def reset_peak(self) -> None:
        """Begin to measure the peak anew."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def all_memory(self) -> float:
        """MB of the service and its executor process."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
        return self.memory() + sum(_memory(int(child), "VmRSS") for child in children)


def _memory(pid: int, field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1000


@contextmanager
def service(address: str = "127.0.0.1") -> Iterator[Service]:
    """Start it, wait until it can run programs, end it."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        port = free_port()
        env = {**os.environ, "WORKROOM_DATA": str(data), "WORKROOM_PORT": str(port)}
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("workroom")), "serve"],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            url = f"http://{address}:{port}"
            deadline = time.monotonic() + 60
            while True:
                try:
                    key = (data / "dev.key").read_text().strip()
                    health = httpx.get(f"{url}/v1/health", headers={"X-API-Key": key}, trust_env=False, timeout=60)
                    if health.json()["executor"]["ready"]:
                        break
                except (OSError, httpx.TransportError):
                    pass
                assert time.monotonic() < deadline, "the service does not start"
                time.sleep(0.1)
            yield Service(url, key, process.pid)
        finally:
            process.terminate()
            process.wait(30)
