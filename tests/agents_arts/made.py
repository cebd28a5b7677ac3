"""Sessions whose Turns a test makes by itself, in the transactions of the engine, and stores that count their calls."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from shared.domain.agents import ids, lifecycle, turning, turns
from shared.domain.agents.head import Pending
from shared.domain.manifest import Entry
from shared.domain.session import Head
from shared.identity import Caller
from shared.operations import names
from shared.operations.agents import artifacts, config, items, large, places, publishing
from shared.operations.agents import turns as turn_operations
from shared.operations.agents.config import Config
from shared.operations.agents.session import Draft, Found, need, swap
from shared.operations.base import Call, operations
from shared.operations.room import Room
from shared.store.ports import Item, ObjectInfo, Objects, PutNew, State

DECLARED = (artifacts, items, turn_operations)
"""Imported, so that their operations are declared."""
LEASE = 60_000


@dataclass
class CountedState:
    """The state port; `calls` has a row for each call: its name and the sort or prefix."""

    inner: State
    calls: list[tuple[str, str]] = field(default_factory=list)
    rows: int = 0

    def get(self, partition: str, sort: str) -> Item | None:
        """See State.get."""
        self.calls.append(("get", sort))
        return self.inner.get(partition, sort)

    def query(self, partition: str, prefix: str = "", **more: Any) -> list[Item]:
        """See State.query."""
        self.calls.append(("query", prefix))
        found = self.inner.query(partition, prefix, **more)
        self.rows += len(found)
        return found

    def transact(self, actions: Any) -> list[int]:
        """See State.transact."""
        self.calls.append(("transact", ""))
        return self.inner.transact(actions)

    def delete_partition(self, partition: str) -> None:
        """See State.delete_partition."""
        self.inner.delete_partition(partition)

    def sweep(self, now: int) -> int:
        """See State.sweep."""
        return self.inner.sweep(now)

    def asked(self, prefix: str) -> int:
        """How many calls were about what begins so."""
        return sum(sort.startswith(prefix) for _, sort in self.calls)


class CountedObjects:
    """The object port; `reads` has the keys that were read."""

    def __init__(self, inner: Objects) -> None:
        self._inner = inner
        self.reads: list[str] = []

    def read(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See Objects.read."""
        self.reads.append(key)
        return self._inner.read(key, start, length)

    def head(self, key: str) -> ObjectInfo | None:
        """See Objects.head."""
        return self._inner.head(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass
class Book:
    """One Session of a project and what a test does with it."""

    room: Room
    state: CountedState
    objects: CountedObjects
    project: str
    session: str

    @property
    def found(self) -> Found:
        """The Session as it is now."""
        return need(self.room, self.project, self.session)

    def do(self, name: str, *, project: str | None = None, **given: Any) -> Any:
        """Run an operation as a door does, with the session's id."""
        call = Call(Caller(project or self.project, "key"))
        return operations()[name].call_with(self.room, call, {"session_id": self.session, **given})

    def forget(self) -> None:
        """Nothing is counted, nothing is held in memory."""
        self.state.calls.clear()
        self.state.rows = 0
        self.objects.reads.clear()
        self.room = replace(self.room, publications=type(self.room.publications)(25_000))

    def begin(self) -> turns.Turn:
        """A Turn in progress in our hand."""
        made: list[turns.Turn] = []

        def decide(draft: Draft) -> None:
            ident, number = draft.new_id("turn")
            head = turning.queue(draft.head, ident, Pending("batch_one", 1), draft.now)
            claimed = turning.claim(head, ident, self.room.owner, draft.now, LEASE)
            assert claimed is not None
            taken = turning.take(claimed, ident, claimed.fence, 1)
            draft.head = turning.start(taken, ident, claimed.fence, draft.now)
            turn = turns.moved(turns.Turn(id=ident, sequence=number, created=draft.now), "in_progress", draft.now)
            draft.put(places.TURNS + ident, turn.attributes())
            made.append(turn)

        swap(self.room, self.found, decide)
        return made[-1]

    def complete(self, turn: turns.Turn, files: list[Entry]) -> list[str]:
        """Complete a Turn with what lies in `outputs/`, as the engine does: the paths that it published."""
        chosen: list[Entry] = []

        def decide(draft: Draft) -> None:
            chosen[:] = publishing.decide(self.room, draft.found, files)
            made = publishing.record(
                self.room, draft.found, turn.sequence, turn.id, draft.found.environment, draft.now, chosen
            )
            if made is not None:
                draft.actions.append(made)
            draft.head = turning.finish(
                draft.head, turn.id, draft.head.fence, "completed", draft.now, revision=draft.found.head.revision
            )
            row = self.room.state.get(self.found.partition, places.TURNS + turn.id)
            assert row is not None
            ended = turns.ended(turns.Turn.of(row.attributes), "completed", draft.now)
            draft.put(places.TURNS + turn.id, ended.attributes(), row.version)

        swap(self.room, self.found, decide)
        return [entry.path.removeprefix("outputs/") for entry in chosen]

    def publish(self, **contents: str) -> list[str]:
        """A whole Turn that leaves these files, each a name and a content."""
        return self.complete(self.begin(), [entry(name, text) for name, text in contents.items()])

    def item(self, turn: str, text: str = "x", *, number: int | None = None) -> str:
        """A message of a Turn; its id. `number` is its place where it is not the next one."""
        draft = Draft.on(self.room, self.found)
        ident, sequence = draft.new_id("item")
        if number is not None:
            ident, sequence = ids.new("item", os.urandom, ids.order(number)), number
        wire = message(ident, turn, text)
        row = {"sequence": sequence, "turn": turn, **large.placed(self.room, self.found.partition, wire)}

        def decide(draft: Draft) -> None:
            if number is None:
                draft.number()
            draft.put(places.ITEMS + ident, row)

        swap(self.room, self.found, decide)
        return ident

    def artifacts(self, **given: Any) -> list[str]:
        """The names of the listed Artifacts, page after page."""
        return [row.path.removeprefix("/workspace/outputs/") for row in self.rows("artifacts.list", **given)]

    def rows(self, name: str, **given: Any) -> list[Any]:
        """All rows of a list, as the SDK walks it: `after` is the last id, until there is no more."""
        rows: list[Any] = []
        while True:
            page = self.do(name, **given)
            rows += page.data
            if not page.has_more:
                return rows
            given["after"] = page.last_id


def message(ident: str, turn: str, text: str) -> dict[str, Any]:
    """An assistant's message as it is on the wire."""
    return {
        "id": ident, "turn_id": turn, "type": "message", "role": "assistant", "phase": None, "status": "completed",
        "content": [{"type": "output_text", "text": text}],
    }  # fmt: skip


def entry(name: str, text: str = "x") -> Entry:
    """A file below `outputs/`."""
    raw = text.encode()
    digest = hashlib.sha256(raw).hexdigest()
    return Entry(f"outputs/{name}", "file", 0o644, len(raw), 1, digest, blob="p/one/s/x/blob", offset=7)


def make_book(room: Room, project: str = "one", kind: Any = "openai_hosted") -> Book:
    """A new Session of a project in a room whose stores count."""
    assert isinstance(room.state, CountedState)
    assert isinstance(room.objects, CountedObjects)
    now = room.clock()
    session = ids.new("sess", os.urandom, ids.stamp(now))
    partition = names.session(project, session)
    described = Config(agent={"id": "agent_one", "model": "program:py"}, environment={"type": kind})
    room.state.transact(
        [
            PutNew(partition, names.HEAD, Head(created=now, used=now).attributes()),
            PutNew(partition, places.HEAD, lifecycle.created(kind, now).attributes()),
            PutNew(partition, places.CONFIG, config.attributes(room, partition, described, {})),
        ]
    )
    return Book(room, room.state, room.objects, project, session)
