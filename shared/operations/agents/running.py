"""A Turn in the hand of this process: its steps, its items and its programs (agents.md 5.3 to 5.5).

    claim    head(queued → held), workspace locked, input materialised, Turn in progress       one transaction or more
    items    head, item rows, frames                                                           one transaction each
    end      head, workspace's next version, Turn, publication, last items, frames             ONE transaction

Every transaction is under the Turn's fence. Whoever takes the Turn away advances it, and the next step here raises
`Fenced`; nothing that was not in a transaction before is kept then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.domain.agents import events, turning
from shared.domain.agents.events import Source
from shared.domain.agents.head import Open, Session
from shared.domain.manifest import Manifest
from shared.domain.session import Fenced
from shared.errors import Failure
from shared.executor.wire import RunAnswer
from shared.identity import Caller
from shared.operations import names, workspace
from shared.operations.agents import large, places
from shared.operations.agents.config import Described
from shared.operations.agents.ending import TurnRow
from shared.operations.agents.engine import FunctionResult, Ran, Said, Wire
from shared.operations.agents.live import Live
from shared.operations.agents.sending import send
from shared.operations.agents.session import Decide, Draft, Found, again, put_head, swap
from shared.operations.base import Cancel
from shared.operations.budget import Budget
from shared.operations.room import Room
from shared.operations.run_answer import end_message, with_lines
from shared.operations.step import Program, beyond, step
from shared.operations.workspace import Opened
from shared.store.ports import Action, Conflict

_OUTPUT = 32 * 1024
"""Bytes of a command's output on the wire; what is longer keeps its head and its tail (11.27)."""
_CUT = "\n[… cut …]\n"


class Stopping(Cancel):
    """The cancel of a Turn. What it stops may not know yet what it is to stop, so it is told again."""

    def again(self) -> None:
        """Stop once more what was to be stopped."""
        with self._lock:
            stop = self._stop if self.requested else None
        if stop is not None:
            stop()


class SandboxBroken(Exception):
    """The files that a program left cannot be kept as a whole: the Turn fails with `sandbox_error` (11.31)."""


@dataclass(slots=True)
class Progress:
    """What the programs of a Turn have made of the workspace: the version they are at, and what capture asks for.

    `before` is the version that the last one began with: a Turn that is cancelled keeps no more (11.35).
    """

    base: Manifest
    before: Manifest
    changed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Item:
    """An output item in progress: its row is at version 1."""

    index: int
    sequence: int
    wire: Wire

    @property
    def id(self) -> str:
        return str(self.wire["id"])

    @property
    def open(self) -> Open:
        return Open(self.id, self.index)


class Running:
    """One claimed Turn; the methods of `engine.Turn` are the engine's. `next_output` is the next output index."""

    def __init__(
        self,
        room: Room,
        found: Found,
        described: Described,
        row: TurnRow,
        opened: Opened | None,
        *,
        cancel: Stopping,
        budget: Budget,
        next_output: int = 0,
        results: Sequence[FunctionResult] = (),
    ) -> None:
        assert found.head.active is not None
        self.room = room
        self.described = described
        self.row = row
        self.opened = opened
        self.cancel = cancel
        self.partial: dict[str, str] = {}
        self.progress: Progress | None = None
        self._budget = budget
        self._fence = found.head.active.fence
        self._found = found
        self._lock = threading.RLock()
        self._results: Sequence[FunctionResult] = results
        self._next = next_output
        self._closing: list[Decide] = []
        self.batches: Iterator[Sequence[Wire]] = iter(())

    @property
    def found(self) -> Found:
        """The Session as this Turn last read or wrote it."""
        return self._found

    @property
    def turn(self) -> str:
        """The Turn's id."""
        return self.row.turn.id

    @property
    def fence(self) -> int:
        """The fence under which it was claimed."""
        return self._fence

    @property
    def source(self) -> Source:
        """Whose frames these are."""
        return Source(self._found.session, self.turn)

    # -- steps

    def step(self, decide: Decide) -> None:
        """One transaction under the Turn's fence, with what was put off. Errors: Fenced; StoreUnavailable."""
        with self._lock:
            self._send(decide, self.room.state.transact)

    def commit(self, where: tuple[str, str] | None, decide: Decide) -> None:
        """The last transaction, with what was put off: it also ends the hold on the workspace, whose version is at
        `where` then; None leaves it where it was.

        Errors: Fenced; StoreUnavailable; what `decide` raises.
        """
        with self._lock:
            self._send(decide, lambda actions: self._transact(where, actions))

    def _send(self, decide: Decide, transact: Callable[[Sequence[Action]], object]) -> None:
        """Make a step of what was put off and `decide`, again on whatever won meanwhile."""
        made: list[int] = []
        whole = self._whole(decide, made)
        while True:
            found = self._found
            draft = Draft.on(self.room, found)
            whole(draft)
            head, rows = draft.closed()
            actions = [put_head(found, head), *rows]
            try:
                send(self.room, actions, lambda actions=actions: transact(actions))  # type: ignore[misc]
            except Conflict as conflict:
                # The rows beside the head are this Turn's own: who changed one has taken the Turn away.
                self._found = self._again(conflict)
                continue
            self.room.bells.ring(found.partition)
            self._found = Found(found.project, found.session, found.version + 1, head)
            self._next += made[0]
            self._closing = []
            return

    def reread(self, found: Found) -> None:
        """Go on from a newer state of the Session."""
        with self._lock:
            self._found = found

    def _whole(self, decide: Decide, made: list[int]) -> Decide:
        closing = list(self._closing)

        def whole(draft: Draft) -> None:
            turning.own(draft.head, self.turn, self._fence)
            for one in closing:
                one(draft)
            decide(draft)
            made[:] = [draft.outputs]

        return whole

    def _again(self, conflict: Conflict) -> Found:
        try:
            return again(self._found, conflict)
        except (Conflict, Failure):
            raise Fenced from None

    def _transact(self, where: tuple[str, str] | None, also: Sequence[Action]) -> None:
        if self.opened is None:
            self.room.state.transact(also)
            return
        head = self.opened.head
        workspace.swap_manifest(self.room, self.opened, where or (head.inline, head.pointer), also)

    def beat(self) -> None:
        """Lengthen both leases. When the Turn was taken away, what it runs is stopped. Errors: Fenced.

        It never waits for a step, which may go on for long: one thread beats for every Turn of this process.
        """
        lease = self.room.limits.lease_ms

        def renew(head: Session) -> Session:
            return turning.renew(head, self.turn, self._fence, self.room.clock(), lease)

        try:
            if self.opened is not None:
                workspace.renew(self.room, self.opened)
            found = swap(self.room, self._found, lambda draft: _set(draft, renew(draft.head)))
        except (Fenced, Failure):
            self.cancel()
            raise Fenced from None
        if self._lock.acquire(blocking=False):
            # The next step need not lose its swap to this one.
            if found.version > self._found.version:
                self._found = found
            self._lock.release()

    # -- the engine's

    @property
    def agent(self) -> Mapping[str, Any]:
        """See engine.Turn."""
        return self.described.config.agent

    def input(self) -> Iterator[Sequence[Wire]]:
        """See engine.Turn."""
        return self.batches

    def results(self) -> Sequence[FunctionResult]:
        """See engine.Turn."""
        results, self._results = self._results, ()
        return results

    def items(self) -> Iterator[Wire]:
        """See engine.Turn."""
        after: str | None = None
        while page := self.room.state.query(self._found.partition, places.ITEMS, after=after, limit=100):
            for item in page:
                wire: Wire = large.value(self.room, item.attributes)
                if wire["status"] != "in_progress":
                    yield wire
            after = page[-1].sort

    def program(self, lang: str, code: str, said: Said) -> Ran:
        """See engine.Turn."""
        command = self._begin_command(said.command)
        spoken: list[_Item] = []
        live = Live(lambda text: self._tell_output(command, spoken, text, speak=said.speak), self.cancel.again)
        try:
            with live.flowing():
                answer = self._run(lang, code, live)
        finally:
            self.partial = {command.id: live.told, **{item.id: live.told for item in spoken}}
        if live.unsure is not None:
            # What was told, and which items there are, is known to nobody.
            raise live.unsure
        message = end_message(answer)
        stderr = answer.stderr if message is None else with_lines(answer.stderr, [f"workroom: {message}"])
        self._closing.append(self._program_end(command, spoken, answer, stderr, live.told, speak=said.speak))
        return Ran(answer.code, answer.stdout, stderr, answer.code == 0)

    def message(self, text: str, *, phase: str | None = "final_answer") -> None:
        """See engine.Turn."""
        self.step(lambda draft: self._say(draft, [], text, "", phase))

    def reasoning(self, summary: Sequence[str]) -> None:
        """See engine.Turn."""
        parts = [{"type": "summary_text", "text": text} for text in summary]

        def tell(draft: Draft) -> None:
            item = self.new_item(draft, {"type": "reasoning", "summary": parts, "status": "completed"})
            draft.tell(*events.reasoning(self.source, item.wire, item.index))

        self.step(tell)

    # -- items

    def new_item(self, draft: Draft, members: Wire) -> _Item:
        """The row of a new output item of this Turn, at the next output index."""
        ident, number = draft.new_id("item")
        item = _Item(self._next + draft.outputs, number, {"id": ident, "turn_id": self.turn, **members})
        draft.outputs += 1
        draft.put(places.ITEMS + ident, self._attributes(item, item.wire))
        return item

    def _attributes(self, item: _Item, wire: Wire) -> dict[str, Any]:
        placed = large.placed(self.room, self._found.partition, wire)
        return {"sequence": item.sequence, "turn": self.turn, **placed}

    def _begin_command(self, command: str) -> _Item:
        begun: list[_Item] = []

        def tell(draft: Draft) -> None:
            item = self.new_item(
                draft,
                {
                    "type": "command_execution",
                    "command": command,
                    "cwd": "/workspace",
                    "output": None,
                    "exit_code": None,
                    "duration_ms": None,
                    "status": "in_progress",
                },
            )
            begun[:] = [item]
            draft.tell(events.item_added(self.source, item.wire, item.index))
            _set(draft, turning.opened(draft.head, self.turn, self._fence, [item.open]))

        self.step(tell)
        return begun[0]

    def _tell_output(self, command: _Item, spoken: list[_Item], text: str, *, speak: bool) -> None:
        """More of a program's output: a delta of its command and, where it speaks, of its message."""
        made: list[_Item] = []

        def tell(draft: Draft) -> None:
            made[:] = spoken
            if speak and not made:
                made[:] = [self.new_item(draft, _message(None, "final_answer"))]
                item = made[0]
                draft.tell(*events.message_begun(self.source, item.wire, item.index))
                opened = [command.open, item.open]
                _set(draft, turning.opened(draft.head, self.turn, self._fence, opened))
            for start in range(0, len(text), events.DELTA):
                piece = text[start : start + events.DELTA]
                draft.tell(events.command_delta(self.source, command.id, command.index, piece))
                draft.tell(*(events.text_delta(self.source, item.id, item.index, piece) for item in made))

        try:
            self.step(tell)
        except Fenced:
            # The Turn was taken away: its program is not to run on.
            self.cancel()
            raise
        spoken[:] = made

    def _program_end(
        self, command: _Item, spoken: Sequence[_Item], answer: RunAnswer, stderr: str, told: str, *, speak: bool
    ) -> Decide:
        """What ends a program's items, to go into the next transaction."""
        wire = {
            **command.wire,
            "output": shortened(answer.stdout + stderr),
            "exit_code": answer.code,
            "duration_ms": answer.wall_ms,
            "status": "completed" if answer.code == 0 else "failed",
        }

        def end(draft: Draft) -> None:
            draft.put(places.ITEMS + command.id, self._attributes(command, wire), 1)
            draft.tell(*events.command_ended(self.source, wire, command.index, told))
            if speak:
                self._say(draft, spoken, answer.stdout, told, "final_answer")
            _set(draft, turning.opened(draft.head, self.turn, self._fence, []))

        return end

    def _say(self, draft: Draft, spoken: Sequence[_Item], text: str, told: str, phase: str | None) -> None:
        """A whole message, or the end of one of which `told` was told."""
        members = _message(text, phase)
        if spoken:
            item = replace(spoken[0], wire={**spoken[0].wire, **members, "status": "completed"})
            draft.put(places.ITEMS + item.id, self._attributes(item, item.wire), 1)
        else:
            item = self.new_item(draft, {**members, "status": "completed"})
            draft.tell(*events.message_begun(self.source, item.wire, item.index))
        draft.tell(*events.message_ended(self.source, item.wire, item.index, told if spoken else ""))

    # -- programs

    def _run(self, lang: str, code: str, live: Live) -> RunAnswer:
        """Run a program on the version that the Turn is at. Errors: Failure; SandboxBroken."""
        if self.opened is None:
            raise SandboxBroken
        room, opened = self.room, self.opened
        if self.progress is None:
            stored = workspace.manifest_of(room, opened.head)
            # What is no file, folder, link or pipe lasts to the end of its Turn only (11.30).
            kept = stored.without_kind("other")
            self.progress = Progress(kept, kept)
        progress = self.progress
        progress.before = progress.base
        program = Program(
            lang=lang,
            code=code,
            wall_ms=self._budget.run_ms(room.limits.turn_run_ms),
            env=self.described.config.env,
            tenant=names.tenant(room.secret, room.isolation, Caller(opened.project, ""), None, opened.session),
        )
        stepped = step(room, opened, progress.base, program, self.cancel, self._budget, live.feed)
        if beyond(room.limits, progress.base, stepped.merged.manifest) is not None:
            raise SandboxBroken
        progress.base = stepped.merged.manifest
        progress.changed.update(stepped.answer.changed)
        progress.lost.update(path for path, _ in stepped.answer.lost)
        return stepped.answer


def _set(draft: Draft, head: Session) -> None:
    draft.head = head


def _message(text: str | None, phase: str | None) -> Wire:
    content = [] if text is None else [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content, "phase": phase, "status": "in_progress"}


def shortened(text: str) -> str:
    """At most 32 KiB of a text, its head and its tail, cut between characters."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= _OUTPUT:
        return text
    half = (_OUTPUT - len(_CUT.encode())) // 2
    return raw[:half].decode("utf-8", "ignore") + _CUT + raw[-half:].decode("utf-8", "ignore")
