"""One executor process and the talk with it: frames over a socket pair, one reader thread (see `local`)."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox_image.runner.frames import FrameError, encode, receive
from shared.executor.live import Pending
from shared.executor.port import ExecutorFailed
from shared.executor.wire import RunRequest

PROJECT = Path(__file__).resolve().parents[2]
_END_S = 5.0


@dataclass(slots=True)
class Waiting:
    """A run whose answer has not come. `news` is set when there is output to take or it is done."""

    done: threading.Event = field(default_factory=threading.Event)
    news: threading.Event = field(default_factory=threading.Event)
    answer: dict[str, Any] | None = None
    pending: Pending | None = None

    def end(self) -> None:
        """Nothing more comes."""
        self.done.set()
        self.news.set()


class Process:
    """One executor process and the thread that reads its answers. Thread-safe."""

    def __init__(self, arguments: list[str]) -> None:
        ours, theirs = socket.socketpair()
        self._sock = ours
        self._send = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: dict[str, Waiting] = {}
        self._health = Waiting()
        self.dead = threading.Event()
        self.started: dict[str, Any] = {}
        with theirs:
            # -S, -P: neither the packages of the service nor the working directory are ever imported from.
            self._child = subprocess.Popen(
                [sys.executable, "-S", "-P", "-m", "sandbox_image.runner", "--fd", str(theirs.fileno()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=_environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.pid = self._child.pid
        threading.Thread(target=self._read, name="executor", daemon=True).start()

    def health(self, seconds: float) -> dict[str, Any] | None:
        """Ask anew how it is; None when no answer comes in time or it is dead."""
        waiting = Waiting()
        with self._lock:
            self._health = waiting
        if not self.tell({"op": "health"}) or not waiting.done.wait(seconds):
            return None
        return waiting.answer

    def begin(self, request: RunRequest) -> Waiting | None:
        """Send a run; None where the process did not get it whole. Errors: ExecutorFailed."""
        try:
            frame = encode({"op": "run", "request": request.to_json()})
        except FrameError as error:
            raise ExecutorFailed("unavailable", str(error)) from error
        waiting = Waiting(pending=Pending(request.limits) if request.live else None)
        with self._lock:
            if self.dead.is_set():
                return None
            if request.run_id in self._waiting:
                raise ExecutorFailed("unavailable", "a run of this id goes on")
            self._waiting[request.run_id] = waiting
        if not self._put(frame):
            self.forget(request.run_id)
            return None
        return waiting

    def forget(self, run_id: str) -> None:
        """Wait no longer for a run."""
        with self._lock:
            self._waiting.pop(run_id, None)

    def tell(self, message: dict[str, Any]) -> bool:
        """Send a small message; whether it went out whole."""
        return self._put(encode(message))

    def _put(self, frame: bytes) -> bool:
        try:
            with self._send:
                self._sock.sendall(frame)
        except OSError:
            return False
        return True

    def end(self, seconds: float = _END_S) -> None:
        """End the process, which has so long to go by itself; its programs end with it."""
        self.dead.set()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self._child.send_signal(signal.SIGKILL)
            self._child.wait()

    def _read(self) -> None:
        try:
            while (message := receive(self._sock)) is not None:
                run_id = message.get("run_id")
                if message.get("op") == "output":
                    self._output(run_id, message)
                    continue
                with self._lock:
                    if "health" in message:
                        waiting: Waiting | None = self._health
                    else:
                        waiting = self._waiting.pop(run_id, None) if isinstance(run_id, str) else None
                if waiting is not None:
                    waiting.answer = message
                    waiting.end()
        except (OSError, FrameError):
            pass
        with self._lock:
            self.dead.set()
            left, self._waiting = list(self._waiting.values()), {}
            left.append(self._health)
        for waiting in left:
            waiting.end()
        self.end()
        self._sock.close()

    def _output(self, run_id: object, frame: dict[str, Any]) -> None:
        """A piece of a run's output; of a run that is not known, or did not ask for it, it is dropped."""
        with self._lock:
            waiting = self._waiting.get(run_id) if isinstance(run_id, str) else None
        if waiting is not None and waiting.pending is not None:
            waiting.pending.put(frame)
            waiting.news.set()


def _environment() -> dict[str, str]:
    """An allow-list: no credential of the service can be inherited."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONPATH": str(PROJECT),
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "2",
    }
