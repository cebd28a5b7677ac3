"""An executor that does what the program's text tells it to: for tests of the door, which need no real program.

The text is a JSON object: `print` [text] (told as they come), `stdout` (default: all that was printed), `stderr`,
`write` {path: text}, `size` {path: bytes}, `link` {path: target}, `delete` [path], `lost` {path: why}, `changed`
[path], `code`, `signal`, `reason`, `wait` (until it is stopped, at most that many seconds), `fail` (a kind of
ExecutorFailed), `raise` (any other error with that text), `show` ("args" or "files": printed).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from shared.executor.port import ExecutorFailed, ExecutorHealth, LanguageHealth, LayerHealth, Output
from shared.executor.wire import Entry, RunAnswer, RunRequest


class Scripted:
    """The executor port."""

    def __init__(self) -> None:
        self.running: dict[str, threading.Event] = {}
        self.stopped: list[str] = []
        self.started = 0
        self.wall_ms = 0
        self.begun = threading.Semaphore(0)
        self._lock = threading.Lock()

    def run(self, request: RunRequest, output: Output | None = None) -> RunAnswer:
        with self._lock:
            self.started += 1
            self.wall_ms = request.limits.wall_ms
        script = json.loads(request.code)
        if "fail" in script:
            raise ExecutorFailed(script["fail"])
        if "raise" in script:
            raise RuntimeError(script["raise"])
        printed = [str(text) for text in script.get("print", ())]
        for text in printed:
            if output is not None:
                output("stdout", text)
        stopped = "wait" in script and self._wait(request.run_id, script["wait"])
        pack = bytearray()
        changes = tuple(_entries(script, pack))
        return RunAnswer(
            run_id=request.run_id,
            phase="run",
            code=None if stopped else script.get("code", None if "signal" in script else 0),
            signal=script.get("signal"),
            reason="stopped" if stopped else script.get("reason"),
            stdout=_shown(request, script) if "show" in script else script.get("stdout", "".join(printed)),
            stderr=script.get("stderr", ""),
            stdout_cut=script.get("cut", False),
            changes=() if stopped else changes,
            deleted=tuple(script.get("delete", ())),
            lost=tuple(script.get("lost", {}).items()),
            changed=tuple(script.get("changed", ())),
            pack=b"" if stopped else bytes(pack),
            wall_ms=7,
        )

    def _wait(self, run_id: str, seconds: float) -> bool:
        event = threading.Event()
        with self._lock:
            self.running[run_id] = event
        self.begun.release()
        try:
            return event.wait(seconds)
        finally:
            with self._lock:
                del self.running[run_id]

    def place(self, share: str) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def cancel(self, run_id: str) -> None:
        with self._lock:
            self.stopped.append(run_id)
            if event := self.running.get(run_id):
                event.set()

    def health(self) -> ExecutorHealth:
        return ExecutorHealth(
            ready=True,
            why="",
            languages={"py": LanguageHealth(True, "Python 3.13", "python3")},
            layers={"clean": LayerHealth(True, True, "shown")},
            running=len(self.running),
            capacity=4,
        )

    def close(self) -> None:
        for event in list(self.running.values()):
            event.set()


def _entries(script: Mapping[str, Any], pack: bytearray) -> Iterator[Entry]:
    bodies = {path: text.encode() for path, text in script.get("write", {}).items()}
    bodies |= {path: bytes(size) for path, size in script.get("size", {}).items()}
    for path, body in bodies.items():
        digest = hashlib.sha256(body).hexdigest()
        yield Entry(path, "file", 0o644, len(body), 1_700_000_000_000_000_000, digest, offset=len(pack) if body else 0)
        pack += body
    for path, target in script.get("link", {}).items():
        yield Entry(path, "link", 0o777, target=target)


def _shown(request: RunRequest, script: Mapping[str, Any]) -> str:
    shown = {"args": list(request.args), "files": [entry.path for entry in request.manifest if entry.kind == "file"]}[
        script["show"]
    ]
    return json.dumps(shown, ensure_ascii=False)


def program(**script: Any) -> str:
    """The text of a scripted program."""
    return json.dumps(script, ensure_ascii=False)
