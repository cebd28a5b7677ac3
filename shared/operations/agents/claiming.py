"""Taking up a Turn: the claim, its input as items, the results that it goes on with (agents.md 5.3, 5.4, 11.27).

claim ── chunk of items ── … ── last chunk and start        the first three in one transaction where they fit
crash between two: the Turn is still queued, its lease lapses, the next claim goes on at `taken`; nothing ran
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shared.domain import session as locks
from shared.domain.agents import admission, events, turning, turns
from shared.domain.agents.events import Source
from shared.domain.agents.head import Call
from shared.domain.agents.turning import NotFinal
from shared.domain.session import Fenced
from shared.errors import Code, Failure
from shared.operations import names, workspace
from shared.operations.agents import ending, large, places
from shared.operations.agents.config import Described, changing
from shared.operations.agents.ending import TurnRow
from shared.operations.agents.engine import FunctionResult, Wire
from shared.operations.agents.requests.events import Batch, Message, Result
from shared.operations.agents.running import Running, Stopping
from shared.operations.agents.sending import send
from shared.operations.agents.session import Draft, Found, need, put_head
from shared.operations.budget import Budget
from shared.operations.room import Room
from shared.operations.workspace import Opened
from shared.store.ports import Conflict, PutIf, StoreUnavailable

_CHUNK = 40
_CHUNK_BYTES = 512 * 1024
"""Items and bytes of them that one transaction materialises; it may hold 100 actions and 3 MB."""


def read_batch(room: Room, partition: str, batch: str) -> Batch:
    """An admitted batch. Errors: StoreUnavailable."""
    item = room.state.get(partition, places.batch(batch))
    if item is None:
        raise StoreUnavailable("an admitted batch")
    return Batch.of(large.value(room, item.attributes))


def messages_of(batch: Batch) -> list[dict[str, Any]]:
    """The user's messages of a batch that become items."""
    chosen = admission.effective(batch.rules())
    events_ = [batch.events[index] for index in chosen]
    return [dict(message) for event in events_ if isinstance(event, Message) for message in event.items]


def claim(room: Room, found: Found, described: Described, cancel: Stopping, budget: Budget) -> Running | None:
    """Take up the active Turn, with its workspace, and bring it into progress; None where it is not to be had.

    Errors: StoreUnavailable; Fenced where the Session has changed meanwhile, whoever changed it, or where the Turn is
    taken away before it is in progress: it is to be looked at again.
    """
    active = found.head.active
    draft = Draft.on(room, found)
    if active is None:
        return None
    held = turning.claim(draft.head, active.turn, room.owner, room.clock(), room.limits.lease_ms)
    if held is None:
        return None
    draft.head = held
    opened = None
    if found.head.environment.kind != "none":
        opened = _locked(room, found, draft)
        if opened is None:
            return None
    row = ending.read_turn(room, found.partition, active)
    results: list[FunctionResult] = []
    messages: list[dict[str, Any]] = []
    taken = 0
    if active.status == "waiting":
        results = _results(room, draft, found.head.calls)
        row = _start(draft, described, row, [])
    elif found.head.pending is not None:
        pending = found.head.pending
        messages = messages_of(read_batch(room, found.partition, pending.batch))
        taken = pending.taken
        chunk = _chunk(messages, taken)
        taken += len(chunk)
        items = _materialise(room, draft, row, chunk)
        _take(draft, active.turn, len(chunk))
        row = _advance(draft, described, row, items, last=taken == len(messages))
    head, actions = draft.closed()
    whole = [put_head(found, head), *actions]
    try:
        send(room, whole, lambda: room.state.transact(whole))
    except Conflict:
        raise Fenced from None
    room.bells.ring(found.partition)
    now = Found(found.project, found.session, found.version + 1, head)
    outputs = _outputs(room, now, row) if results else 0
    running = Running(
        room, now, described, row, opened, cancel=cancel, budget=budget, next_output=outputs, results=results
    )
    while taken < len(messages):
        taken = _more(running, messages, taken)
    running.batches = batches(running, messages)
    return running


def _locked(room: Room, found: Found, draft: Draft) -> Opened | None:
    """The workspace, locked by the transaction of a draft; None while another holds it."""
    opened = workspace.at(room, found.project, found.session)
    head = None if opened is None else locks.acquire(opened.head, room.owner, room.clock(), room.limits.lease_ms)
    if opened is None or head is None:
        return None
    draft.actions.append(PutIf(opened.partition, names.HEAD, opened.version, head.attributes()))
    return Opened(opened.project, opened.session, opened.version + 1, head)


def _chunk(messages: Sequence[dict[str, Any]], taken: int) -> list[dict[str, Any]]:
    """The next messages that one transaction takes: one at least."""
    chosen: list[dict[str, Any]] = []
    size = 0
    for message in messages[taken : taken + _CHUNK]:
        size += sum(len(str(value)) for part in message["content"] for value in part.values())
        if chosen and size > _CHUNK_BYTES:
            break
        chosen.append(message)
    return chosen


def _materialise(room: Room, draft: Draft, row: TurnRow, messages: Sequence[dict[str, Any]]) -> list[Wire]:
    """The items of messages: their rows are in the draft."""
    items = []
    for message in messages:
        ident, number = draft.new_id("item")
        wire = {
            "id": ident,
            "turn_id": row.turn.id,
            "type": "message",
            "role": "user",
            "content": message["content"],
            "phase": None,
            "status": "completed",
        }
        _put(room, draft, row.turn.id, number, wire)
        items.append(wire)
    return items


def _put(room: Room, draft: Draft, turn: str, number: int, wire: Wire) -> None:
    placed = large.placed(room, draft.found.partition, wire)
    draft.put(places.ITEMS + wire["id"], {"sequence": number, "turn": turn, **placed})


def _take(draft: Draft, turn: str, count: int) -> None:
    active = draft.head.active
    assert active is not None
    draft.head = turning.take(draft.head, turn, active.fence, count)


def _advance(draft: Draft, described: Described, row: TurnRow, items: Sequence[Wire], *, last: bool) -> TurnRow:
    """Tell of items; with the last ones the Turn comes into progress."""
    if last:
        return _start(draft, described, row, items)
    source = Source(draft.found.session, row.turn.id)
    draft.tell(*(events.item_added(source, item, None) for item in items))
    return row


def _start(draft: Draft, described: Described, row: TurnRow, items: Sequence[Wire]) -> TurnRow:
    active = draft.head.active
    assert active is not None
    draft.head = turning.start(draft.head, row.turn.id, active.fence, draft.now)
    turn = turns.moved(row.turn, "in_progress", draft.now)
    draft.put(places.TURNS + turn.id, turn.attributes(), row.version)
    draft.tell(*events.begun(ending.turn_wire(draft, described, turn), changing(draft.head), items))
    return TurnRow(row.version + 1, turn)


def _more(running: Running, messages: Sequence[dict[str, Any]], taken: int) -> int:
    """The next transaction of a long batch: how many are taken then."""
    chunk = _chunk(messages, taken)
    last = taken + len(chunk) == len(messages)
    rows: list[TurnRow] = []

    def decide(draft: Draft) -> None:
        items = _materialise(running.room, draft, running.row, chunk)
        _take(draft, running.turn, len(chunk))
        rows[:] = [_advance(draft, running.described, running.row, items, last=last)]

    running.step(decide)
    running.row = rows[0]
    return taken + len(chunk)


def batches(running: Running, first: Sequence[dict[str, Any]] = ()) -> Iterator[Sequence[Wire]]:
    """The batches of a Turn's input as its engine sees them: the first, then whatever was admitted meanwhile."""
    if first:
        yield first
    while messages := steered(running):
        yield messages


def steered(running: Running) -> list[dict[str, Any]]:
    """Materialise the input that was admitted during a Turn, if there is any: its messages.

    Once the Turn is to be cancelled, what is pending came behind the cancel and belongs to the next Turn.
    Errors: Fenced; Failure (499).
    """
    running.reread(need(running.room, running.found.project, running.found.session))
    pending = running.found.head.pending
    if pending is None:
        return []
    messages = messages_of(read_batch(running.room, running.found.partition, pending.batch))
    taken = pending.taken
    source = running.source
    while taken < len(messages):
        chunk = _chunk(messages, taken)

        def decide(draft: Draft, chunk: Sequence[dict[str, Any]] = chunk) -> None:
            items = _materialise(running.room, draft, running.row, chunk)
            _take(draft, running.turn, len(chunk))
            draft.tell(*(events.item_added(source, item, None) for item in items))

        try:
            running.step(decide)
        except NotFinal:
            raise Failure(Code.CANCELLED) from None
        taken += len(chunk)
    return messages


def _results(room: Room, draft: Draft, calls: Sequence[Call]) -> list[FunctionResult]:
    """The results of a Turn's calls, as items of the draft and for its engine."""
    found: list[FunctionResult] = []
    for call in calls:
        batch = read_batch(room, draft.found.partition, call.batch)
        given = next(event for event in batch.events if isinstance(event, Result) and event.call_id == call.call)
        ident, number = draft.new_id("item")
        wire = {
            "id": ident,
            "turn_id": call.turn,
            "type": "function_call_output",
            "call_id": call.call,
            "output": given.output,
            "error": given.error,
            "status": "completed" if given.success else "failed",
        }
        _put(room, draft, call.turn, number, wire)
        draft.tell(events.item_added(Source(draft.found.session, call.turn), wire, None))
        found.append(FunctionResult(call.call, given.success, given.output, given.error))
    return found


def _outputs(room: Room, found: Found, row: TurnRow) -> int:
    """How many output items a Turn has that goes on."""
    count = 0
    after = places.ITEMS + "item_" + row.turn.id.removeprefix("turn_")[:8]
    while page := room.state.query(found.partition, places.ITEMS, after=after, limit=100):
        for item in page:
            if item.attributes["turn"] == row.turn.id:
                wire = large.value(room, item.attributes)
                count += wire["type"] != "function_call_output" and wire.get("role") != "user"
        after = page[-1].sort
    return count
