"""A room for Turns and a client of one Session in it, through the operations as a door calls them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import shared.operations.all  # noqa: F401
from shared.domain.session import Owner
from shared.executor.local import LocalExecutor
from shared.executor.port import Output
from shared.executor.wire import RunAnswer, RunRequest
from shared.identity import Caller
from shared.limits import Limits
from shared.operations import workspace
from shared.operations.agents.session import Found, find
from shared.operations.agents.streams import Stream
from shared.operations.base import Call, operations
from shared.operations.grants import SelfGrants
from shared.operations.lease import Heart
from shared.operations.room import Gate, Room, now_ms
from shared.store.local import open_local
from tests.adversarial import runner_helpers
from tests.fakes import Clock, Desk, FakeExecutor
from tests.torture.checker import check_items, check_log, check_rows

PROJECT = "one"
SECRET = bytes(range(32))
OVER = ("completed", "failed", "cancelled")
CANCEL: dict[str, Any] = {"type": "agent.session.input.cancel"}


def message(*texts: str) -> dict[str, Any]:
    """One event with a user message for each text."""
    rows = [{"role": "user", "content": [{"type": "input_text", "text": text}]} for text in texts]
    return {"type": "agent.session.input.message", "input": rows}


@dataclass
class Talk:
    """One Session as its caller sees it."""

    room: Room
    session: str

    @property
    def found(self) -> Found:
        found = find(self.room, PROJECT, self.session)
        assert found is not None
        return found

    def do(self, name: str, **data: Any) -> Any:
        """Run an operation on this Session; its answer as JSON."""
        operation = operations()[name]
        given = {"session_id": self.session, **data}
        output = operation.call_with(self.room, Call(Caller(PROJECT, "key")), given)
        return output.model_dump(mode="json", by_alias=True)

    def send(self, *events: dict[str, Any]) -> None:
        self.do("events.create", events=list(events))

    def say(self, *texts: str) -> str:
        """Send messages; the id of the newest Turn."""
        self.send(message(*texts))
        return str(self.turns()[-1]["id"])

    def turns(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.do("turns.list", order="asc", limit=100)["data"]
        return rows

    def turn(self, ident: str) -> dict[str, Any]:
        row: dict[str, Any] = self.do("turns.get", turn_id=ident)
        return row

    def need_over(self, turn: str, seconds: float = 60) -> dict[str, Any]:
        """Wait for a Turn's end."""
        ends = time.monotonic() + seconds
        while (row := self.turn(turn))["status"] not in OVER:
            assert time.monotonic() < ends, f"{row['status']} after {seconds} s"
            time.sleep(0.01)
        return row

    def need_idle(self, seconds: float = 60) -> None:
        ends = time.monotonic() + seconds
        while (status := self.do("sessions.get")["status"]) != "idle":
            assert time.monotonic() < ends, f"{status} after {seconds} s"
            time.sleep(0.01)

    def items(self, turn: str | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after: dict[str, Any] = {}
        while True:
            name, more = ("items.list", {}) if turn is None else ("turns.items", {"turn_id": turn})
            page = self.do(name, order="asc", limit=100, **more, **after)
            found += page["data"]
            if not page["has_more"]:
                return found
            after = {"after": page["last_id"]}

    def artifacts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after: dict[str, Any] = {}
        while True:
            page = self.do("artifacts.list", order="asc", limit=100, **after)
            found += page["data"]
            if not page["has_more"]:
                return found
            after = {"after": page["last_id"]}

    def log(self) -> list[dict[str, Any]]:
        """All frames from the creation on, as a stream sends them."""
        stream = Stream(self.room, self.found, 0, creation=False)
        frames: list[dict[str, Any]] = []
        while more := stream.more():
            frames += more
        return json.loads(json.dumps(frames))  # type: ignore[no-any-return]

    def run(self, *texts: str, seconds: float = 60) -> dict[str, Any]:
        """A Turn from its message to its end."""
        return self.need_over(self.say(*texts), seconds)

    def output(self, turn: str) -> str:
        """The last assistant's message of a Turn."""
        said = [item for item in self.items(turn) if item["type"] == "message" and item["role"] == "assistant"]
        return "".join(part["text"] for part in said[-1]["content"])

    def command(self, turn: str) -> dict[str, Any]:
        return [item for item in self.items(turn) if item["type"] == "command_execution"][-1]

    def files(self) -> dict[str, str]:
        """Paths of the workspace and what they are."""
        opened = workspace.at(self.room, PROJECT, self.session)
        assert opened is not None
        return {entry.path: entry.kind for entry in workspace.manifest_of(self.room, opened.head, hold=False)}

    def verify(self, *, over: bool = True) -> None:
        """The log and the items are sound, and nobody holds anything."""
        frames = self.log()
        check_log(frames, over=over)
        if not over:
            return
        check_items(self.items(), frames)
        check_rows(self.turns(), frames)
        head = self.found.head
        assert (head.active, head.pending, head.calls) == (None, None, ())
        opened = workspace.at(self.room, PROJECT, self.session)
        assert opened is None or opened.head.lock is None, "the workspace is still locked"


def talk(room: Room, model: str = "program:bash", **more: Any) -> Talk:
    """A new Session."""
    data = {"agent": {"model": model}, "environment": {"type": "openai_hosted"}, **more}
    answer = operations()["sessions.create"].call_with(room, Call(Caller(PROJECT, "key")), data)
    return Talk(room, answer.model_dump(mode="json")["id"])


def until(true: Callable[[], object], seconds: float = 10, what: str = "it never came") -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, what
        time.sleep(0.005)


def make(state: Any, objects: Any, executor: Any, clock: Callable[[], int] = now_ms, **more: Any) -> Room:
    limits = more.pop("limits", Limits())
    given: dict[str, Any] = {
        "owner": Owner("serve", os.urandom(8).hex()),
        "heart": Heart(limits.lease_ms / 3000),
        "runs": Gate(limits.run_queue, limits.project_runs),
    }
    return Room(
        state=state,
        objects=objects,
        executor=executor,
        uploads=SelfGrants(SECRET),
        secret=SECRET,
        limits=limits,
        clock=clock,
        **{**given, **more},
    )


@contextmanager
def real(**limits: int) -> Iterator[Room]:
    """A room on the local store with the executor of this machine."""
    folder = Path(tempfile.mkdtemp(prefix="workroom-torture-", dir="/var/tmp"))
    folder.chmod(0o711)
    store = open_local(folder / "data")
    executor = LocalExecutor(
        store.objects,
        root=runner_helpers.root(),
        jail=runner_helpers.jail(),
        work=folder / "work",
        required_layers=runner_helpers.REQUIRED,
    )
    room = make(store.state, store.objects, executor, limits=replace(Limits(), **limits))
    try:
        yield room
    finally:
        room.hands.stop_all()
        room.background.shutdown(wait=True, cancel_futures=True)
        executor.close()
        store.close()
        shutil.rmtree(folder, ignore_errors=True)


def processes(mark: str) -> list[int]:
    """Processes with the mark in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


class Reader:
    """A live reader of a stream in a thread: when each frame came."""

    def __init__(self, talk: Talk) -> None:
        self._stream = Stream(talk.room, talk.found, talk.found.head.sequence, creation=False)
        self._over = threading.Event()
        self.frames: list[tuple[float, dict[str, Any]]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._over.is_set():
            for frame in self._stream.more():
                self.frames.append((time.monotonic(), frame))
            time.sleep(0.01)

    def close(self) -> None:
        self._over.set()
        self._thread.join(10)


class Scripted(FakeExecutor):
    """Scripts that may print while they run, and may wait until they are cancelled."""

    def __init__(self, objects: Any) -> None:
        super().__init__(objects)
        self.acts: dict[str, Callable[[Act], object]] = {}
        self.running: dict[str, Act] = {}
        self.most = 0

    def run(self, request: RunRequest, output: Output | None = None) -> RunAnswer:
        """See Executor.run."""
        act = Act(Desk(request, self._objects), output)
        self.requests.append(request)
        self.running[request.run_id] = act
        self.most = max(self.most, len(self.running))
        try:
            if request.code in self.acts:
                self.acts[request.code](act)
        finally:
            del self.running[request.run_id]
        if act.stopped.is_set():
            act.desk.reason = "stopped"
        return act.desk.answer()

    def cancel(self, run_id: str) -> None:
        """See Executor.cancel."""
        self.cancelled.append(run_id)
        act = self.running.get(run_id)
        if act is not None:
            act.stopped.set()


class Act:
    """A scripted program while it runs."""

    def __init__(self, desk: Desk, output: Output | None) -> None:
        self.desk = desk
        self.stopped = threading.Event()
        self._output = output

    def print(self, text: str) -> None:
        """Print to standard output; it is told at once."""
        self.desk.stdout += text
        if self._output is not None:
            self._output("stdout", text)

    def wait(self) -> None:
        """Go on until cancelled: 20 seconds at most."""
        self.stopped.wait(20)


@dataclass
class Stage:
    """A room with a scripted executor and a state that tests hook into."""

    room: Room
    executor: Scripted
    state: Any
    clock: Clock | None


@contextmanager
def staged(
    folder: Path, clock: Clock | None = None, wrap: Callable[[Any], Any] = lambda state: state, **limits: int
) -> Iterator[Stage]:
    """A stage on the local store. `wrap` goes around the state port."""
    store = open_local(folder / "data")
    executor = Scripted(store.objects)
    state = wrap(store.state)
    room = make(state, store.objects, executor, clock or now_ms, limits=replace(Limits(), **limits))
    try:
        yield Stage(room, executor, state, clock)
    finally:
        room.hands.stop_all()
        room.background.shutdown(wait=True, cancel_futures=True)
        store.close()


def small() -> Limits:
    """Small numbers, so that a manifest, a publication and a file become objects of their own."""
    return replace(Limits(), inline_item_bytes=512, small_file_bytes=2_000)
