"""A Session whose store loses answers when told to, and what its callers are told."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.agents_errors import Refusal
from shared.domain.agents import head as heads
from shared.domain.agents import ids, lifecycle
from shared.domain.agents.head import EnvironmentKind
from shared.domain.agents.writes import Write
from shared.domain.manifest import Entry, Manifest
from shared.domain.session import Head
from shared.errors import Failure
from shared.identity import Caller
from shared.operations import names, workspace
from shared.operations.agents import (
    config,
    environment_files,  # noqa: F401
    environments,  # noqa: F401
    places,
)
from shared.operations.agents.session import Found, find
from shared.operations.base import Call, operations
from shared.operations.room import Room
from shared.operations.sources import create_source
from shared.store.ports import Action, Conflict, Item, PutIf, PutNew, State, StoreUnavailable
from tests.fakes import Clock, House

PROJECT, OTHER = "one", "two"
_NUMBERS = itertools.count(1)


def step_of(actions: Sequence[Action]) -> str:
    """Which step of an attempt, or of an operator, a transaction is."""
    sorts = {action.sort.partition("/")[0]: action for action in actions}
    if "write" in sorts:
        if "unsettled" not in sorts:
            return "publish"
        return "intent" if isinstance(sorts["write"], PutNew) else "settle"
    if "session" in sorts:
        return "fence" if "head" in sorts else "head"
    return "renew"


@dataclass
class Losing:
    """A state port that loses what it is told to lose. `away`: it cannot be reached at all.

    `plan` says what becomes of the next transaction of a step: "before" (it never comes to be), "after" (only its
    answer is lost), "late" (it comes with `deliver`); with " away" behind it nothing can be reached from then on.
    `hooks` run before a step.
    """

    inner: State
    plan: dict[str, str] = field(default_factory=dict)
    away: bool = False
    steps: list[str] = field(default_factory=list)
    hooks: dict[str, Callable[[], None]] = field(default_factory=dict)
    late: list[Sequence[Action]] = field(default_factory=list)

    def deliver(self) -> list[bool]:
        """Let what is late come: whether each of them happened."""
        late, self.late = self.late, []
        return [self._happens(actions) for actions in late]

    def _happens(self, actions: Sequence[Action]) -> bool:
        try:
            self.inner.transact(actions)
        except Conflict:
            return False
        return True

    def _there(self) -> None:
        if self.away:
            raise StoreUnavailable("away")

    def get(self, partition: str, sort: str) -> Item | None:
        """See State.get."""
        self._there()
        return self.inner.get(partition, sort)

    def query(self, partition: str, prefix: str = "", **more: Any) -> list[Item]:
        """See State.query."""
        self._there()
        return self.inner.query(partition, prefix, **more)

    def transact(self, actions: Sequence[Action]) -> list[int]:
        """See State.transact. A planned fault happens once."""
        self._there()
        step = step_of(actions)
        hook = self.hooks.pop(step, None)
        if hook is not None:
            hook()
        self.steps.append(step)
        fault = self.plan.pop(step, "")
        if "after" in fault or not fault:
            answer = self.inner.transact(actions)
        if "late" in fault:
            self.late.append(list(actions))
        if "away" in fault:
            self.away = True
        if fault:
            raise StoreUnavailable("lost")
        return answer

    def delete_partition(self, partition: str) -> None:
        """See State.delete_partition."""
        self._there()
        self.inner.delete_partition(partition)

    def sweep(self, now: int) -> int:
        """See State.sweep."""
        return self.inner.sweep(now)


@dataclass(frozen=True)
class Answer:
    """What a caller is told. `retry` is the header x-should-retry, None where it is not sent."""

    status: int
    code: str | None = None
    message: str = ""
    param: str | None = None
    retry: str | None = None
    body: dict[str, Any] = field(default_factory=dict)


def make_session(
    room: Room,
    kind: EnvironmentKind = "openai_hosted",
    *,
    install: bool = False,
    project: str = PROJECT,
    shown: dict[str, Any] | None = None,
) -> str:
    """A Session as its creation stores it; its id."""
    now = room.clock()
    session = ids.new(
        "sess", lambda count: hashlib.sha256(str(next(_NUMBERS)).encode()).digest()[:count], ids.stamp(now)
    )
    partition = names.session(project, session)
    described = config.Config(agent={}, environment={"type": kind, **(shown or {})})
    actions: list[Action] = [
        PutNew(partition, places.HEAD, lifecycle.created(kind, now, install=install).attributes()),
        PutNew(partition, places.CONFIG, config.attributes(room, partition, described, {})),
        PutNew(names.project(project), places.SESSIONS + session, {"created": now, "agent_id": ""}),
    ]
    if kind != "none":
        actions.append(PutNew(partition, names.HEAD, Head(created=now, used=now).attributes()))
    room.state.transact(actions)
    return session


@dataclass
class Desk:
    """A house whose state loses answers, with one Session in it."""

    house: House
    room: Room
    state: Losing
    clock: Clock
    session: str = ""

    @property
    def environment(self) -> str:
        return ids.environment_of(self.session)

    @property
    def partition(self) -> str:
        return names.session(PROJECT, self.session)

    def ask(self, name: str, given: dict[str, Any] | None = None, project: str = PROJECT) -> Answer:
        """Call an operation as a door does."""
        operation = operations()[name]
        try:
            output = operation.call_with(self.room, Call(Caller(project, "key")), given or {})
        except Refusal as refusal:
            error = refusal.envelope()["error"]
            retry = refusal.wire_headers().get("x-should-retry")
            return Answer(refusal.status, error["code"], str(error["message"]), error["param"], retry)
        except Failure as failure:
            return Answer(failure.code.status, failure.code.value.code, failure.message, failure.field)
        except StoreUnavailable:
            # As the doors answer it: nothing says that it must not be sent again.
            return Answer(503, "store_unavailable")
        return Answer(operation.status, body=output.model_dump(mode="json", by_alias=True))

    def create(self, path: str = "/workspace/a.txt", data: bytes = b"bytes", **more: Any) -> Answer:
        """Write inline bytes; `more` replaces members."""
        given = {"type": "inline", "data": base64.b64encode(data).decode(), "path": path, **more}
        return self.body(given)

    def copy(self, source: str, path: str = "/workspace/a.txt") -> Answer:
        """Write a copy of a source file."""
        return self.body({"type": "file_id", "file_id": source, "path": path})

    def body(self, given: dict[str, Any], environment: str | None = None, project: str = PROJECT) -> Answer:
        """Call create_file with any body."""
        return self.ask(
            "environments.create_file", {**given, "environment_id": environment or self.environment}, project
        )

    def listing(self, environment: str | None = None, project: str = PROJECT, **given: Any) -> Answer:
        """Call list_files."""
        return self.ask(
            "environments.list_files", {**given, "environment_id": environment or self.environment}, project
        )

    def names(self, **given: Any) -> list[str]:
        """The listed paths, of an answer that must be a page."""
        answer = self.listing(order="asc", **given)
        assert answer.status == 200, answer
        return [row["path"] for row in answer.body["data"]]

    def found(self) -> Found:
        """The Session, read past every fault."""
        found = find(replace(self.room, state=self.state.inner), PROJECT, self.session)
        assert found is not None
        return found

    def head(self) -> heads.Session:
        """The Session's head, read past every fault."""
        return self.found().head

    def set_head(self, head: heads.Session) -> None:
        """Let the Session be in another state."""
        found = self.found()
        self.state.inner.transact([PutIf(found.partition, places.HEAD, found.version, head.attributes())])

    def workspace(self) -> workspace.Opened:
        """The workspace, read past every fault."""
        opened = workspace.at(replace(self.room, state=self.state.inner), PROJECT, self.session)
        assert opened is not None
        return opened

    def set_workspace(self, head: Head) -> None:
        """Let the workspace be in another state."""
        opened = self.workspace()
        self.state.inner.transact([PutIf(self.partition, names.HEAD, opened.version, head.attributes())])

    def manifest(self) -> Manifest:
        """The workspace's files."""
        return workspace.manifest_of(self.room, self.workspace().head)

    def content(self, path: str) -> bytes:
        """The bytes of a file."""
        entry = self.manifest().entries[path]
        return b"".join(self.room.objects.read(entry.blob, entry.offset, entry.size)) if entry.size else b""

    def fill(self, *entries: Entry) -> None:
        """Let the workspace hold these entries."""
        opened = self.workspace()
        inline, pointer = workspace.place(self.room, opened, Manifest.of(entries))
        self.set_workspace(replace(opened.head, inline=inline, pointer=pointer))

    def records(self) -> list[Write]:
        """All records of writes."""
        return [Write.of(row.attributes) for row in self.state.inner.query(self.partition, places.WRITES)]

    def unsettled(self) -> int:
        """How many rows the janitor's metric counts."""
        return len(self.state.inner.query(names.project(PROJECT), places.UNSETTLED))

    def objects(self) -> int:
        """How many objects the Session has."""
        return len(self.room.objects.list(self.partition + "/"))

    def source(self, data: bytes, project: str = PROJECT) -> str:
        """A source file; its id."""
        with self.room.objects.stage() as stage:
            stage.write(data)
            return create_source(self.room, Call(Caller(project, "key")), "source", stage).id

    def restarted(self) -> Desk:
        """The same store as a restarted service finds it: its own dead locks are free."""
        owner = replace(self.room.owner, incarnation=self.room.owner.incarnation + "+")
        return replace(self, room=replace(self.room, owner=owner))
