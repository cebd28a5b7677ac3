"""An executor of this machine with the toolchain root, for the tests beside this file. Without the root they fail."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox_image.locate import build_jail, find_root
from shared.executor.local import LocalExecutor
from shared.executor.wire import Entry, RunAnswer, RunLimits, RunRequest
from shared.store.local.objects import FileObjects
from tests.unit.runner_trees import limits as contract_limits

MIB = 1 << 20
REQUIRED = frozenset({"clean", "reap", "filter", "namespaces", "memory", "wipe"})
PROJECT = Path(__file__).resolve().parents[2]
NAP = f"77.{int.from_bytes(os.urandom(6))}"
"""Seconds of a sleep that no other test run of this machine has: it names the process."""
_numbers = itertools.count(1)


CACHE = Path(os.environ.get("WORKROOM_CACHE", "/var/cache/workroom"))


@functools.cache
def root() -> Path:
    """The toolchain root of this machine. Errors: NotInstalled."""
    return find_root(CACHE)


@functools.cache
def jail() -> Path:
    """The jail of the present sources."""
    return build_jail(CACHE)


def limits(**changed: int) -> RunLimits:
    """The default limits of the contract with a short wall time, some changed."""
    return contract_limits(**{"wall_ms": 10_000} | changed)


class Bench:
    """An executor, its objects, and sessions whose manifest follows what the answers say."""

    def __init__(self, executor: LocalExecutor, objects: FileObjects) -> None:
        self.executor = executor
        self.objects = objects
        self.manifests: dict[str, list[Entry]] = {}

    def request(self, lang: str, code: str, session: str = "", **how: Any) -> RunRequest:
        """A request in a session, or in one of its own."""
        number = next(_numbers)
        session = session or f"session-{number}"
        manifest = how.pop("manifest", self.manifests.get(session, []))
        writes = tuple((f"out/{number}-{index}", "") for index in range(how.pop("writes", 4)))
        env = how.pop("env", {})
        args, repack, run_id = how.pop("args", ()), how.pop("repack", False), how.pop("run_id", f"run-{number}")
        return RunRequest(
            run_id=run_id,
            workspace=session,
            lang=lang,
            code=code,
            args=tuple(args),
            limits=limits(**how),
            manifest=tuple(manifest),
            reads=dict.fromkeys((entry.blob for entry in manifest if entry.size), ""),
            writes=writes,
            repack=repack,
            env=env,
        )

    def run(self, lang: str, code: str, session: str = "", **how: Any) -> RunAnswer:
        """Run and, in a named session, keep what came of it. `output` is told what is printed."""
        output = how.pop("output", None)
        request = self.request(lang, code, session, **how)
        answer = self.executor.run(request, output)
        if session:
            self.keep(session, request, answer)
        return answer

    def bash(self, code: str, session: str = "", **how: Any) -> RunAnswer:
        """Run a bash program."""
        return self.run("bash", code, session, **how)

    def python(self, code: str, session: str = "", **how: Any) -> RunAnswer:
        """Run a Python program."""
        return self.run("py", code, session, **how)

    def keep(self, session: str, request: RunRequest, answer: RunAnswer) -> None:
        """Make the next manifest."""
        pack = self.put(answer.pack) if answer.pack else ""
        entries = {entry.path: entry for entry in request.manifest if entry.path not in answer.deleted}
        for change in answer.changes:
            row = change.row()
            row[7] = (change.blob or pack) if change.kind == "file" else ""
            entries[change.path] = Entry.of(row)
        self.manifests[session] = list(entries.values())

    def put(self, body: bytes) -> str:
        """Store bytes; the key."""
        key = f"in/{next(_numbers)}"
        self.objects.put_new(key, body, hashlib.sha256(body).hexdigest())
        return key

    def file(self, path: str, body: bytes, **how: Any) -> Entry:
        """An entry of an object of its own."""
        values = {"mode": 0o644, "mtime_ns": 1_700_000_000_000_000_000} | how
        digest = hashlib.sha256(body).hexdigest()
        return Entry(path, "file", size=len(body), sha256=digest, blob=self.put(body), **values)

    def body(self, answer: RunAnswer, path: str) -> bytes:
        """The bytes of a changed file."""
        entry = next(entry for entry in answer.changes if entry.path == path)
        data = b"".join(self.objects.read(entry.blob)) if entry.blob else answer.pack
        return data[entry.offset : entry.offset + entry.size]


@contextmanager
def bench(**how: Any) -> Iterator[Bench]:
    """An executor in folders of its own that every user may pass through; ended at the end."""
    folder = Path(tempfile.mkdtemp(prefix="workroom-test-", dir="/var/tmp"))
    folder.chmod(0o711)
    objects = FileObjects(folder / "objects")
    values: dict[str, Any] = {"root": root(), "jail": jail(), "work": folder / "work", "required_layers": REQUIRED}
    executor = LocalExecutor(objects, **values | how)
    try:
        yield Bench(executor, objects)
    finally:
        executor.close()
        shutil.rmtree(folder, ignore_errors=True)


def processes_of(text: str) -> list[int]:
    """Processes of this machine whose command line has `text`."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in command:
                found.append(int(name))
    return found
