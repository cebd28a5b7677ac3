"""The executor process: frames in, answers out, one thread for each run.

    {"op": "run", "request": …}     -> {"run_id", "answer"} or {"run_id", "error": kind, "why"}; with "live" before it
                                       {"op": "output", "run_id", "stream", "data"}, as the program prints
    {"op": "cancel", "run_id": …}
    {"op": "health"}                -> {"health": …}

It ends when its socket does, and with it every program: the supervisors see their control descriptor close. It
holds no key and no state, and writes no log: code, output and file names go nowhere but into the answer.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

from sandbox_image.runner import probes
from sandbox_image.runner.frames import FrameError, encode, receive
from sandbox_image.runner.run import Cancel, RunFailed, Runner
from shared.executor.wire import RunAnswer, RunRequest, WireError

_STACK = 256 << 10


class Server:
    """Serves one socket. `shown` is what the probes showed; `trouble` a sentence when no program can run."""

    def __init__(
        self, sock: socket.socket, runner: Runner | None, shown: dict[str, probes.Shown], trouble: str = ""
    ) -> None:
        self._sock = sock
        self._runner = runner
        self._shown = shown
        self._trouble = trouble
        self._send = threading.Lock()
        self._runs: dict[str, Cancel] = {}
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Serve until the socket ends or says what is no frame."""
        threading.stack_size(_STACK)
        try:
            while (message := receive(self._sock)) is not None:
                self._take(message)
        except (FrameError, OSError):
            return

    def _take(self, message: dict[str, Any]) -> None:
        operation = message.get("op")
        if operation == "run":
            # Registered before its thread starts, so a cancel that follows in the stream always meets it.
            data, cancel = message.get("request"), Cancel()
            run_id = str(data.get("run_id")) if isinstance(data, dict) else ""
            with self._lock:
                known = run_id in self._runs
                self._runs.setdefault(run_id, cancel)
            if known:
                self._answer({"run_id": run_id, "error": "broken", "why": "a run of this id goes on"})
                return
            threading.Thread(target=self._run, args=(run_id, data, cancel), daemon=True).start()
        elif operation == "cancel":
            with self._lock:
                known_run = self._runs.get(str(message.get("run_id")))
            if known_run is not None:
                known_run.ask()
        elif operation == "health":
            self._answer({"health": self._health()})

    def _run(self, run_id: str, data: Any, cancel: Cancel) -> None:
        try:
            message = {"run_id": run_id, "answer": self._outcome(data, cancel).to_json()}
        except RunFailed as error:
            message = {"run_id": run_id, "error": error.kind, "why": str(error)}
        except WireError as error:
            message = {"run_id": run_id, "error": "broken", "why": str(error)}
        except Exception as error:
            # A defect of ours fails this run only; the kind of the error is all that is told.
            message = {"run_id": run_id, "error": "broken", "why": type(error).__name__}
        with self._lock:
            self._runs.pop(run_id, None)
        self._answer(message)

    def _outcome(self, data: Any, cancel: Cancel) -> RunAnswer:
        if not isinstance(data, dict):
            raise WireError("request is not an object")
        request = RunRequest.of(data)
        if self._runner is None:
            raise RunFailed("unavailable", self._trouble)

        def send(stream: str, data: str) -> None:
            self._answer({"op": "output", "run_id": request.run_id, "stream": stream, "data": data})

        return self._runner.run(request, cancel, send=send if request.live else None)

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            frame = encode(message)
        except FrameError as error:
            frame = encode({"run_id": message.get("run_id"), "error": "broken", "why": str(error)})
        try:
            with self._send:
                self._sock.sendall(frame)
        except OSError:
            os._exit(0)

    def _health(self) -> dict[str, Any]:
        return {
            "trouble": self._trouble,
            "languages": {} if self._runner is None else self._runner.languages.health(),
            "layers": {name: {"active": layer.active, "detail": layer.detail} for name, layer in self._shown.items()},
        }
