"""An executor whose programs are lists of file operations in JSON: what a run leaves is known beforehand.

[["write", path, text], ["append", path, text]]
"""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from shared.executor import filegrant
from shared.executor.port import ExecutorHealth, Output
from shared.executor.wire import Entry, RunAnswer, RunRequest
from shared.store.ports import Objects


class ScriptedExecutor:
    """The Executor port without a sandbox: deterministic, and with the same inline pack and write grants."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def run(self, request: RunRequest, output: Output | None = None) -> RunAnswer:
        """Do what the program says."""
        entries = {entry.path: entry for entry in request.manifest}
        contents: dict[str, bytes] = {}
        for verb, path, text in json.loads(request.code):
            before = contents.get(path, self._bytes(entries.get(path))) if verb == "append" else b""
            contents[path] = before + text.encode()
        if request.repack:
            for path, entry in entries.items():
                if entry.kind == "file" and entry.size <= request.limits.small_file_bytes:
                    contents.setdefault(path, self._bytes(entry))
        writes = [key for key, _ in request.writes]
        pack = bytearray()
        changes: list[Entry] = []
        for path, data in sorted(contents.items()):
            entry = Entry(path, "file", 0o644, len(data), 1_700_000_000_000_000_000, hashlib.sha256(data).hexdigest())
            old = entries.get(path)
            if old is not None and old.sha256 == entry.sha256:
                entry = replace(entry, mode=old.mode, mtime_ns=old.mtime_ns)
            if len(data) > request.limits.small_file_bytes:
                key = writes.pop(0)
                filegrant.create(self._objects.grant_write(key, seconds=60).url, [data])
                changes.append(replace(entry, blob=key))
            else:
                changes.append(replace(entry, offset=len(pack)))
                pack += data
        return RunAnswer(
            run_id=request.run_id,
            phase="run",
            code=0,
            signal=None,
            reason=None,
            stdout="done\n",
            stderr="",
            changes=tuple(changes),
            pack=bytes(pack),
        )

    def _bytes(self, entry: Entry | None) -> bytes:
        if entry is None or entry.size == 0:
            return b""
        return b"".join(self._objects.read(entry.blob, entry.offset, entry.size))

    def place(self, share: str) -> AbstractContextManager[bool]:
        """See Executor.place: there is always one."""
        return nullcontext(True)

    def cancel(self, run_id: str) -> None:
        """Nothing runs long enough to be cancelled."""

    def health(self) -> ExecutorHealth:
        """Always ready."""
        return ExecutorHealth(ready=True, why="", languages={}, layers={}, running=0, capacity=1)

    def close(self) -> None:
        """Nothing to end."""
