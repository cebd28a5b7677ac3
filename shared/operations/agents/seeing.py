"""What is due in a Session is done by whoever sees it (agents.md 11.36 to 11.38); no timer is needed.

    one swap     an expired Environment, a Turn in nobody's hand, a Turn that waited too long, a preparation given up
    a job        a queued Turn, an Environment to prepare: handed to `dispatch`, claimed there

Who loses a swap looks again and finds nothing due.
"""

from __future__ import annotations

from collections.abc import Callable

from shared.domain.agents import events, lifecycle, turning, turns
from shared.domain.agents.events import Source
from shared.domain.agents.head import emptied, in_flight
from shared.domain.agents.lifecycle import Lifetimes
from shared.domain.agents.turns import Outcome, TurnError
from shared.domain.session import Fenced, Head
from shared.operations import names
from shared.operations.agents import ending, places
from shared.operations.agents.config import Described, changing, describe
from shared.operations.agents.dispatch import dispatch
from shared.operations.agents.session import Draft, Found, need, swap
from shared.operations.room import Room
from shared.store.ports import Conflict, PutIf

_PATIENCE_MS = 2_000
"""How long a queued Turn may lie before whoever sees it sends for a worker once more."""
_ATTEMPTS = 5


def lifetimes(room: Room) -> Lifetimes:
    """The lifetimes of this deployment."""
    return Lifetimes(environment=room.limits.environment_ms, waiting=room.limits.waiting_ms)


def workspace_head(room: Room, found: Found) -> Head | None:
    """The head of a Session's workspace; None for type `none`."""
    item = room.state.get(found.partition, names.HEAD)
    return None if item is None else Head.of(item.attributes)


def writing(room: Room, found: Found) -> bool:
    """Whether the unsettled write's attempt may still go on (agents.md 11.19)."""
    if found.head.write is None:
        return False
    return in_flight(found.head, workspace_head(room, found), room.owner, room.clock())


def seen(room: Room, found: Found, *, patience_ms: int = _PATIENCE_MS, workers: bool = True) -> Found:
    """Do what is due, and give the Session as it is then. Errors: 404 where it is gone meanwhile.

    A job that has lain for `patience_ms` is dispatched, where there are `workers` to do it.
    """
    from shared.operations.agents.work import work  # noqa: PLC0415  (work sees Sessions too)

    for _ in range(_ATTEMPTS):
        what = due(room, found)
        if what is None:
            return found
        if what in ("run", "provision"):
            if workers and _neglected(room, found, patience_ms):
                dispatch(room, found.project, found.session, work, again=True)
            return found
        settle(room, found, what)
        found = need(room, found.project, found.session)
    return found


def due(room: Room, found: Found) -> lifecycle.Due | None:
    """What is due in a Session."""
    workspace = workspace_head(room, found) if found.head.environment.status == "pending" else None
    return lifecycle.due(found.head, workspace, room.owner, room.clock(), lifetimes(room))


def _neglected(room: Room, found: Found, patience_ms: int) -> bool:
    head = found.head
    since = head.created if head.active is None else head.active.since
    return room.clock() >= since + patience_ms


def settle(room: Room, found: Found, what: lifecycle.Due) -> None:
    """Write by one swap what is due; nothing where somebody else just has."""
    steps = {
        "expired": _expire,
        "lapsed": _lapse,
        "waited_out": _wait_out,
        "provision_failed": fail_environment,
    }
    try:
        steps[what](room, found)
    except (Conflict, Fenced):
        return


def _expire(room: Room, found: Found) -> None:
    def decide(draft: Draft) -> None:
        if not lifecycle.expires(draft.head, room.clock(), room.limits.environment_ms):
            return
        draft.head = lifecycle.expired(draft.head)
        item = room.state.get(found.partition, names.HEAD)
        if item is not None:
            gone = emptied(Head.of(item.attributes))
            draft.actions.append(PutIf(item.partition, item.sort, item.version, gone.attributes()))
        kind = draft.head.environment.kind
        draft.tell(events.environment_frame(Source(found.session), found.environment, kind, "expired"))

    swap(room, found, decide)


def _lapse(room: Room, found: Found) -> None:
    error = TurnError("internal_error", "The execution was interrupted; it is not begun again.")
    _overtake(room, found, error, lambda draft: turning.lapsed(draft.head, room.owner, room.clock()))


def _wait_out(room: Room, found: Found) -> None:
    error = TurnError("request_timeout", "The Turn waited too long for the result of a function call.")
    limit = room.limits.waiting_ms
    _overtake(room, found, error, lambda draft: turning.waited_out(draft.head, room.clock(), limit))


def _overtake(room: Room, found: Found, error: TurnError, still: Callable[[Draft], bool]) -> None:
    """End the active Turn as failed, or as cancelled where that was asked for, while `still` says that it is due."""
    described = describe(room, found)

    def decide(draft: Draft) -> None:
        active = draft.head.active
        if active is None or not still(draft):
            return
        end_active(room, draft, described, "cancelled" if active.cancel else "failed", error)

    swap(room, found, decide)


def end_active(
    room: Room, draft: Draft, described: Described, outcome: Outcome, error: TurnError | None = None
) -> None:
    """End the active Turn from outside: its holder and the workspace's are fenced out; what is pending goes on.

    A cancelled Turn has no error. Errors: Fenced where no Turn is active.
    """
    active = draft.head.active
    if active is None:
        raise Fenced
    row = ending.read_turn(room, draft.found.partition, active)
    unfinished = ending.read_open(room, draft.found.partition, active.open)
    successor, number = draft.new_id("turn") if draft.head.pending is not None else ("", 0)
    draft.head = turning.overtaken(draft.head, active.turn, draft.now, successor=successor)
    ending.seize(room, draft)
    ending.tell_end(
        room, draft, described, row, outcome, error=error if outcome == "failed" else None, unfinished=unfinished
    )
    if draft.head.active is not None:
        ending.new_turn(draft, described, successor, number)


def fail_environment(room: Room, found: Found) -> None:
    """The Environment could not be prepared: it, its queued Turn and the Session fail for good (agents.md 2, 11.12)."""
    described = describe(room, found)

    def decide(draft: Draft) -> None:
        if draft.head.environment.status != "pending":
            return
        active = draft.head.active
        row = None if active is None else ending.read_turn(room, found.partition, active)
        draft.head = lifecycle.failed(draft.head, draft.now)
        ending.take(room, draft)
        told = None
        if row is not None:
            error = TurnError("sandbox_error", events.FAILED_ENVIRONMENT["message"])
            begun = turns.moved(row.turn, "in_progress", draft.now)
            over = turns.undone(row.turn, error, draft.now)
            draft.put(places.TURNS + over.id, over.attributes(), row.version)
            told = (ending.turn_wire(draft, described, begun), ending.turn_wire(draft, described, over))
        kind = draft.head.environment.kind
        draft.tell(*events.environment_failed(changing(draft.head), found.environment, kind, found.session, told))

    swap(room, found, decide)
