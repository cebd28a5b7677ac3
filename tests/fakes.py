"""A room on the real local store with a scripted executor and a clock that tests move: no program, no sleep.

An executor's `script` gets a `Desk`: the workspace as the program would see it. It changes files there and prints;
the answer is made from the difference, as a sound executor makes it.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import shared.operations.all  # noqa: F401
from shared.domain.paths import parents
from shared.domain.session import Owner
from shared.executor import filegrant
from shared.executor.port import ExecutorFailed, ExecutorHealth, LanguageHealth, LayerHealth, Output
from shared.executor.wire import Entry, Reason, RunAnswer, RunRequest
from shared.identity import Caller
from shared.limits import Limits
from shared.operations.base import Call, operations
from shared.operations.grants import SelfGrants
from shared.operations.lease import Heart
from shared.operations.room import Gate, Room
from shared.store.local import open_local
from shared.store.local import state as local_state
from shared.store.local.objects import FileObjects
from shared.store.ports import Action, Item, ObjectInfo, Objects, State

EPOCH_MS = 1_800_000_000_000
SECRET = bytes(range(32))
_TICKS = itertools.count(1)
"""No two files have one time, so a touched file is never as it was."""


class Clock:
    """Epoch milliseconds that move only when told."""

    def __init__(self, now: int = EPOCH_MS) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def forward(self, ms: int) -> None:
        """Let time pass."""
        self.now += ms


class Desk:
    """One run as the program sees it. A script that sets nothing is a program that ends with 0 and prints nothing."""

    def __init__(self, request: RunRequest, objects: Objects) -> None:
        self.request = request
        self.objects = objects
        self.before = {entry.path: entry for entry in request.manifest}
        self.entries = dict(self.before)
        self.contents: dict[str, bytes] = {}
        self.stdout = ""
        self.stderr = ""
        self.code: int | None = 0
        self.signal: int | None = None
        self.reason: Reason | None = None
        self.stdout_cut = False
        self.lost: list[tuple[str, str]] = []
        self.changed: list[str] = []

    def read(self, path: str) -> bytes:
        """A file's bytes."""
        if path in self.contents:
            return self.contents[path]
        entry = self.entries[path]
        assert entry.kind == "file", path
        return b"".join(self.objects.read(entry.blob, entry.offset, entry.size)) if entry.size else b""

    def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        """Write a file, with the folders that it needs."""
        raw = data.encode() if isinstance(data, str) else data
        for parent in parents(path):
            self.entries.setdefault(parent, Entry(parent, "dir", 0o755, mtime_ns=self._tick()))
        old = self.entries.get(path)
        mode = mode if mode is not None else old.mode if old is not None and old.kind == "file" else 0o644
        digest = hashlib.sha256(raw).hexdigest()
        self.entries[path] = Entry(path, "file", mode, len(raw), self._tick(), digest)
        self.contents[path] = raw

    def remove(self, path: str) -> None:
        """Remove a path and all below it."""
        for name in [name for name in self.entries if name == path or name.startswith(path + "/")]:
            del self.entries[name]
            self.contents.pop(name, None)

    def make(self, path: str, kind: str, *, target: str = "") -> None:
        """Make something that is no file."""
        self.entries[path] = Entry(path, kind, 0o755, mtime_ns=self._tick(), target=target)  # type: ignore[arg-type]

    def chmod(self, path: str, mode: int) -> None:
        """Change a mode and nothing else."""
        self.entries[path] = replace(self.entries[path], mode=mode)

    def touch(self, path: str) -> None:
        """Change a time and nothing else."""
        self.entries[path] = replace(self.entries[path], mtime_ns=self._tick())

    def _tick(self) -> int:
        return EPOCH_MS * 1_000_000 + next(_TICKS)

    def answer(self) -> RunAnswer:
        """The answer of a sound executor."""
        limits = self.request.limits
        pack = bytearray()
        grants = [key for key, _ in self.request.writes]
        changes: list[Entry] = []
        for path in sorted(self.entries):
            entry = self.entries[path]
            again = self.request.repack and entry.kind == "file" and entry.size <= limits.small_file_bytes
            if entry == self.before.get(path) and not again:
                continue
            old = self.before.get(path)
            touched = not again and path not in self.contents and old is not None
            if entry.kind != "file" or entry.size == 0 or touched:
                changes.append(entry)
            elif entry.size > limits.small_file_bytes:
                key = grants.pop(0)
                filegrant.create(self.objects.grant_write(key, seconds=60).url, [self.read(path)])
                changes.append(replace(entry, blob=key, offset=0))
            else:
                data = self.read(path)
                changes.append(replace(entry, blob="", offset=len(pack)))
                pack += data
        ended = self.reason not in (None, "output") and self.code is not None
        return RunAnswer(
            run_id=self.request.run_id,
            phase="run",
            code=None if ended else self.code,
            signal=9 if ended else self.signal,
            reason=self.reason,
            stdout=self.stdout,
            stderr=self.stderr,
            stdout_cut=self.stdout_cut,
            changes=tuple(changes),
            deleted=tuple(sorted(path for path in self.before if path not in self.entries)),
            lost=tuple(self.lost),
            changed=tuple(self.changed),
            pack=bytes(pack),
            wall_ms=5,
        )


Script = Callable[[Desk], None]


def writes(*files: tuple[str, bytes | str]) -> Script:
    """A program that writes these files, each a name and its content, in this order."""

    def script(desk: Desk) -> None:
        for name, content in files:
            desk.write(name, content)

    return script


class FakeExecutor:
    """The executor port. `scripts` by the text of a program; another program does nothing."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self.scripts: dict[str, Script] = {}
        self.requests: list[RunRequest] = []
        self.cancelled: list[str] = []
        self.fail: ExecutorFailed | None = None
        self.twist: Callable[[RunAnswer], RunAnswer] = lambda answer: answer
        self.ready = True
        self.unreachable = False

    def run(self, request: RunRequest, output: Output | None = None) -> RunAnswer:
        """See Executor.run. Both outputs are told at the end, whole."""
        with self._lock:
            self.requests.append(request)
        if self.fail is not None:
            raise self.fail
        desk = Desk(request, self._objects)
        script = self.scripts.get(request.code)
        if script is not None:
            script(desk)
        if output is not None:
            for stream, text in (("stdout", desk.stdout), ("stderr", desk.stderr)):
                if text:
                    output(stream, text)  # type: ignore[arg-type]
        return self.twist(desk.answer())

    def place(self, share: str) -> AbstractContextManager[bool]:
        """See Executor.place: there is always one."""
        return nullcontext(True)

    def cancel(self, run_id: str) -> None:
        """See Executor.cancel."""
        self.cancelled.append(run_id)

    def health(self) -> ExecutorHealth:
        """See Executor.health."""
        if self.unreachable:
            raise ExecutorFailed("unavailable", "it ended")
        return ExecutorHealth(
            ready=self.ready,
            why="" if self.ready else "the layer `memory` is required and not active",
            languages={"py": LanguageHealth(True, "Python 3.13.5", "python3"), "d": LanguageHealth(False, "", "gdc")},
            layers={"clean": LayerHealth(True, True, "descriptors closed")},
            running=0,
            capacity=4,
        )

    def close(self) -> None:
        """Nothing to end."""


@dataclass
class WatchedState:
    """The state port, counted, with hooks before a transaction."""

    inner: State
    transactions: list[list[Action]] = field(default_factory=list)
    gets: int = 0
    before: Callable[[list[Action]], None] | None = None

    def get(self, partition: str, sort: str) -> Item | None:
        """See State.get."""
        self.gets += 1
        return self.inner.get(partition, sort)

    def query(self, partition: str, prefix: str = "", **more: Any) -> list[Item]:
        """See State.query."""
        return self.inner.query(partition, prefix, **more)

    def transact(self, actions: Any) -> list[int]:
        """See State.transact."""
        if self.before is not None:
            hook, self.before = self.before, None
            hook(list(actions))
        self.transactions.append(list(actions))
        return self.inner.transact(actions)

    def delete_partition(self, partition: str) -> None:
        """See State.delete_partition."""
        self.inner.delete_partition(partition)

    def sweep(self, now: int) -> int:
        """See State.sweep."""
        return self.inner.sweep(now)


class ClockedObjects:
    """The object port of the real store, in which an object is as old as the test's clock says.

    An object that an executor made is born when it is first seen.
    """

    def __init__(self, inner: FileObjects, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._born: dict[str, float] = {}
        self.staging_swept: list[float] = []
        self.put_new = inner.put_new
        self.stage = inner.stage
        self.read = inner.read
        self.delete = inner.delete
        self.delete_prefix = inner.delete_prefix
        self.grant_read = inner.grant_read
        self.grant_write = inner.grant_write

    def _aged(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, modified=self._born.setdefault(info.key, self._clock() / 1000))

    def see(self) -> None:
        """Let every object that is there have its birth now, unless it has one."""
        after: str | None = None
        while page := self.list("p/", after=after):
            after = page[-1].key

    def head(self, key: str) -> ObjectInfo | None:
        """See Objects.head."""
        info = self._inner.head(key)
        return None if info is None else self._aged(info)

    def list(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> list[ObjectInfo]:
        """See Objects.list."""
        return [self._aged(info) for info in self._inner.list(prefix, after=after, limit=limit)]

    def sweep_staging(self, older_than_seconds: float) -> int:
        """See FileObjects.sweep_staging."""
        self.staging_swept.append(older_than_seconds)
        return self._inner.sweep_staging(older_than_seconds)


@dataclass
class House:
    """A room and everything that a test moves in it."""

    room: Room
    executor: FakeExecutor
    clock: Clock
    state: WatchedState
    objects: ClockedObjects
    data: Path
    project: str = "one"

    def call(self, project: str | None = None, **more: Any) -> Call:
        """A call of an admitted caller."""
        return Call(Caller(project or self.project, "key"), **more)

    def do(self, name: str, data: dict[str, Any] | None = None, *, project: str | None = None, **more: Any) -> Any:
        """Run an operation as a door does: parse, run."""
        operation = operations()[name]
        closed = name not in ("exec.run", "exec.start")
        return operation.run(self.room, self.call(project, **more), operation.parse(data or {}, closed=closed))

    def run(self, script: Script | None = None, **data: Any) -> Any:
        """Run a program that is `script`. `project`, `idempotency_key` and `cancel` belong to the call."""
        more = {name: data.pop(name) for name in ("project", "idempotency_key", "cancel") if name in data}
        code = data.pop("code", None)
        if code is None:
            code = f"program {len(self.executor.scripts)}"
        if script is not None:
            self.executor.scripts[code] = script
        return self.do("exec.run", {"lang": "py", "code": code, **data}, **more)

    def put(self, name: str, content: str = "data", **data: Any) -> Any:
        """Store a file with its content inline."""
        more = {key: data.pop(key) for key in ("project",) if key in data}
        return self.do("files.write", {"name": name, "content": content, **data}, **more)

    def names(self, session: str, project: str | None = None) -> list[str]:
        """The listed paths of a session."""
        rows = self.do("files.list", {"session_id": session}, project=project).root
        return [row.metadata["original-filename"] for row in rows]

    def text(self, session: str, name: str, project: str | None = None) -> str:
        """A file's content."""
        content: str = self.do("files.read", {"session_id": session, "file_id": name}, project=project).content
        return content

    def again(self, *, name: str = "serve", incarnation: str = "second") -> House:
        """The same data folder as a restarted process finds it: nothing in memory is left."""
        return _house(self.data, self.room.limits, self.clock, Owner(name, incarnation))


def _house(data: Path, limits: Limits, clock: Clock, owner: Owner, pause: float = 10) -> House:
    # Hundreds of state files of a second's life: their logs need not have room for 1,000 pages at once.
    with mock.patch.object(local_state, "_WAL_BYTES", 0):
        store = open_local(data)
    state = WatchedState(store.state)
    executor = FakeExecutor(store.objects)
    objects = ClockedObjects(store.objects, clock)
    room = Room(
        state=state,
        objects=objects,
        executor=executor,
        uploads=SelfGrants(SECRET),
        secret=SECRET,
        owner=owner,
        limits=limits,
        clock=clock,
        heart=Heart(pause),
        runs=Gate(limits.run_queue, limits.project_runs),
    )
    return House(room, executor, clock, state, objects, data)


def make_room(tmp_path: Path, *, limits: Limits | None = None, pause: float = 10, **changes: Any) -> House:
    """A house in `tmp_path`; `changes` are limits, `pause` is the heart's, in seconds.

    A wait for a lock is short unless a test says otherwise.
    """
    limits = limits or replace(Limits(lock_wait_ms=150), **changes)
    return _house(tmp_path / "data", limits, Clock(), Owner("serve", "first"), pause)


@contextmanager
def housed(tmp_path: Path, **changes: Any) -> Iterator[House]:
    """The same, closed at the end."""
    house = make_room(tmp_path, **changes)
    try:
        yield house
    finally:
        shut(house)


def shut(house: House) -> None:
    """Let background work end and close the store."""
    house.room.background.shutdown(wait=True, cancel_futures=True)
    close = getattr(house.state.inner, "close", None)
    if close is not None:
        close()


class Stop(threading.Event):
    """An event that a test waits for: never longer than ten seconds, and never in vain."""

    def need(self) -> None:
        """Wait for it."""
        assert self.wait(10), "it never came"
