"""Unsettled writes in the hands of an operator: seen, and settled by whoever may open the store (agents.md 11.23).

fence     T{workspace: seized, where its fence is not past the write's · Session: the attempt is over}
record    read only now: nothing can be published under the write's fence any more
settle    T{Session: no write · record: settled by an operator · project: no unsettled row}

A crash between the two leaves a fenced write, and the same command goes on. Never on HTTP or MCP: no project key may
say what became of a write.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from shared.domain.agents import destination, ids, writes
from shared.domain.agents.head import in_flight, seized
from shared.domain.agents.refusals import Refused
from shared.domain.agents.writes import Contradiction, Receipt, Write
from shared.domain.manifest import Entry
from shared.errors import Code, Failure
from shared.operations import names, workspace
from shared.operations.agents import places
from shared.operations.agents.session import Draft, Found, find, swap
from shared.operations.agents.writing import PATIENCE_S, close, end
from shared.operations.base import Call, Model, Nothing, Sparse, operation
from shared.operations.room import Room
from shared.operations.texts import rfc3339
from shared.operations.workspace import Opened
from shared.store.ports import Conflict, Item, PutIf, StoreUnavailable

_PAUSE_S = 0.02


class WriteId(Model):
    """A write."""

    id: str = Field(description="Id of the write: `write_…`.")


class Settlement(Model):
    """What became of a write."""

    id: str = Field(description="Id of the write: `write_…`.")
    outcome: Literal["committed", "rejected"] = Field(description="Whether the file was published.")


class Present(Sparse):
    """What a workspace holds at a path."""

    kind: str = Field(description="File, dir, link, fifo or other, as the workspace records it.")
    size: int | None = Field(None, description="Size in bytes; of a file only.")
    sha256: str | None = Field(None, description="SHA-256 of the bytes; of a file only.")


class UnsettledWrite(Sparse):
    """A write whose Session waits for an operator."""

    id: str = Field(description="Id of the write: `write_…`.")
    project: str = Field(description="Project that it belongs to.")
    session: str = Field(description="Session that it keeps from going on: `sess_…`.")
    path: str = Field(description="Path that was to be written, relative to the workspace.")
    size: int = Field(description="Bytes that were to be written.")
    sha256: str = Field(description="SHA-256 of these bytes.")
    since: str = Field(description="When it was begun, RFC 3339 in UTC.")
    in_flight: bool = Field(description="Whether its attempt may still go on.")
    fence: int = Field(description="Fence of the workspace under which it publishes.")
    workspace_fence: int = Field(
        description="Fence that the workspace is at; past the write's, nothing can come of it."
    )
    receipt: Literal["committed", "rejected"] | None = Field(
        None, description="What the Runtime said; absent: nothing."
    )
    reason: str | None = Field(None, description="Why it was rejected.")
    present: Present | None = Field(None, description="What the workspace holds at the path now; absent: nothing.")


class UnsettledWrites(Model):
    """All writes that are not settled."""

    writes: list[UnsettledWrite] = Field(description="The writes, of each project the oldest first.")


class SettledWrite(Model):
    """A write that is settled."""

    id: str = Field(description="Id of the write: `write_…`.")
    project: str = Field(description="Project that it belongs to.")
    session: str = Field(description="Session that can go on: `sess_…`.")
    outcome: Literal["committed", "rejected"] = Field(description="Whether the file was published.")
    settled: str = Field(description="When it was settled, RFC 3339 in UTC.")


@operation("writes.list", audience="operator")
def list_writes(room: Room, call: Call, data: Nothing) -> UnsettledWrites:
    """List the file writes that are not settled. Their Sessions take no message and no other write until they are."""
    seen = (_seen(room, project, row) for project, row in _rows(room))
    return UnsettledWrites(writes=[one for one in seen if one is not None])


@operation("writes.get", audience="operator", errors=(Code.NOT_FOUND,))
def get_write(room: Room, call: Call, data: WriteId) -> UnsettledWrite:
    """Show a file write that is not settled, and what stands at its path now."""
    project, row = _need(room, data.id)
    shown = _seen(room, project, row)
    if shown is None:
        raise _missing()
    return shown


@operation("writes.settle", audience="operator", errors=(Code.INVALID_REQUEST, Code.NOT_FOUND))
def settle_write(room: Room, call: Call, data: Settlement) -> SettledWrite:
    """Settle a file write, so that its Session can go on. First nothing can come of it any more, then it is judged.

    An outcome that contradicts the record is refused.
    """
    project, row = _need(room, data.id)
    session = row.attributes["session"]
    settled = settle(room, project, session, data.id, data.outcome)
    if settled.outcome is None or settled.settled is None:
        raise _missing()
    return SettledWrite(
        id=data.id, project=project, session=session, outcome=settled.outcome, settled=rfc3339(settled.settled)
    )


def settle(room: Room, project: str, session: str, write: str, outcome: Receipt) -> Write:
    """Settle a write of a Session; its record. It may be repeated after StoreUnavailable.

    Errors: Failure: 404 where no such write is unsettled, 400 where the record says otherwise; StoreUnavailable.
    """
    found = _fence(room, project, session, write)
    item = _record(room, found, write)
    opened = workspace.at(room, project, session)
    if opened is None:
        raise _missing()
    record = Write.of(item.attributes)
    if record.settled is not None:
        raise _missing()
    hosted = found.head.environment.kind == "openai_hosted"
    try:
        settled = writes.operator(record, opened.head.fence, outcome, max(room.clock(), record.since), hosted=hosted)
    except Contradiction:
        said = "the file was published" if record.receipt == "committed" else "nothing was published"
        raise Failure(Code.INVALID_REQUEST, f"The record contradicts that outcome: {said}.") from None
    swap(room, found, lambda draft: close(draft, settled, item.version))
    return Write.of(_record(room, found, write).attributes)


def _fence(room: Room, project: str, session: str, write: str) -> Found:
    """See to it that nothing can be published by the write's attempt any more. Errors: 404; StoreUnavailable."""

    def decide(draft: Draft) -> None:
        unsettled = draft.head.write
        if unsettled is None or unsettled.write != write:
            raise _missing()
        opened = workspace.at(room, project, session)
        if opened is None:
            raise _missing()
        if opened.head.fence <= unsettled.fence:
            taken = seized(opened.head).attributes()
            draft.actions.append(PutIf(opened.partition, names.HEAD, opened.version, taken))
        end(draft, write)

    ends = time.monotonic() + PATIENCE_S
    while True:
        found = find(room, project, session)
        if found is None:
            raise _missing()
        try:
            return swap(room, found, decide)
        except Conflict:
            # The attempt published or renewed its lease meanwhile.
            if time.monotonic() > ends:
                raise StoreUnavailable("a workspace that changes all the time") from None
            time.sleep(_PAUSE_S)


def _record(room: Room, found: Found, write: str) -> Item:
    item = room.state.get(found.partition, places.WRITES + write)
    if item is None:
        raise _missing()
    return item


def _missing() -> Failure:
    return Failure(Code.NOT_FOUND, "No such unsettled write.")


def _need(room: Room, write: str) -> tuple[str, Item]:
    """The project of an unsettled write, and its row there. Errors: 404."""
    if ids.is_id(write, "write"):
        for project, row in _rows(room):
            if row.attributes["write"] == write:
                return project, row
    raise _missing()


def _rows(room: Room) -> Iterator[tuple[str, Item]]:
    """Every unsettled write: its project and its row."""
    first = names.project_row("")
    for known in _pages(room, names.SYSTEM, first):
        project = known.sort.removeprefix(first)
        for row in _pages(room, names.project(project), places.UNSETTLED):
            yield project, row


def _pages(room: Room, partition: str, prefix: str) -> Iterator[Item]:
    after: str | None = None
    while page := room.state.query(partition, prefix, after=after, limit=500):
        yield from page
        after = page[-1].sort


def _seen(room: Room, project: str, row: Item) -> UnsettledWrite | None:
    """A write as it is shown; None where it was settled meanwhile."""
    session, ident = row.attributes["session"], row.attributes["write"]
    found, opened = find(room, project, session), workspace.at(room, project, session)
    if found is None or opened is None or found.head.write is None or found.head.write.write != ident:
        return None
    record = Write.of(_record(room, found, ident).attributes)
    return UnsettledWrite(
        id=ident,
        project=project,
        session=session,
        path=record.path,
        size=record.size,
        sha256=record.sha256,
        since=rfc3339(record.since),
        in_flight=in_flight(found.head, opened.head, room.owner, room.clock()),
        fence=record.fence,
        workspace_fence=opened.head.fence,
        receipt=record.receipt,
        reason=record.reason or None,
        present=_present(room, opened, record.path),
    )


def _present(room: Room, opened: Opened, path: str) -> Present | None:
    """What stands where the write would have put its file: links of its parents are followed as it follows them."""
    manifest = workspace.manifest_of(room, opened.head, hold=False)
    try:
        folder, name, absent = destination.resolve(manifest, path)
    except Refused:
        return None
    entry: Entry | None = None if absent else manifest.entries.get("/".join([*folder, name]))
    if entry is None:
        return None
    if entry.kind != "file":
        return Present(kind=entry.kind)
    return Present(kind="file", size=entry.size, sha256=entry.sha256)
