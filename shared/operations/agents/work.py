"""What a worker does for a Session: prepare its Environment, then run its Turn to an end (agents.md 5.4, 11.32).

Asked twice, or by two at once, it does no harm: each job is claimed by compare and swap. It goes on until nothing is
due any more, so that one message is enough for what its own end makes due.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from shared.agents_errors import Refusal
from shared.domain.agents import capture, events, ids, turning, turns
from shared.domain.agents.capture import CaptureFailed
from shared.domain.agents.head import Call
from shared.domain.agents.turning import NotFinal
from shared.domain.agents.turns import Outcome as End
from shared.domain.agents.turns import TurnError
from shared.domain.manifest import Entry
from shared.domain.session import Fenced
from shared.errors import Code, Failure
from shared.operations import workspace
from shared.operations.agents import ending, places, publishing, seeing
from shared.operations.agents.claiming import batches, claim
from shared.operations.agents.config import changing, describe
from shared.operations.agents.dispatch import dispatch
from shared.operations.agents.engine import Done, Failed, Outcome, Waits
from shared.operations.agents.provisioning import provision
from shared.operations.agents.running import Progress, Running, SandboxBroken, Stopping, shortened
from shared.operations.agents.session import Draft, Found, find, need, swap
from shared.operations.budget import Budget
from shared.operations.room import Room
from shared.store.ports import Conflict, PutNew, StoreUnavailable

_LOG = logging.getLogger("workroom.turn")
_MOST = 1_000
_PATIENCE_S = 20.0
_PAUSE_S = 0.5
_INTERNAL = TurnError("internal_error", "The execution could not complete.")
_STOPPED = TurnError("internal_error", "The service was stopped while the Turn went on.")
_SANDBOX = TurnError("sandbox_error", "The environment could not run the program or keep its files.")
_BUSY = TurnError("server_overloaded", "No place to run the program was free.")


def work(room: Room, project: str, session: str) -> None:
    """Do what is due in a Session, until nothing is. Errors: StoreUnavailable.

    What its time would not do for any more is handed on: whoever takes it over has time of its own.
    """
    budget = Budget(room.limits.answer_ms)
    for done in range(_MOST):
        if room.hands.ending:
            # What is queued stays queued for the next process; begun here it would only be cut off.
            return
        found = find(room, project, session)
        what = None if found is None else seeing.due(room, found)
        if found is None or what is None:
            return
        longest = {"provision": room.limits.setup_ms, "run": room.limits.turn_run_ms}.get(what, 0)
        if done and longest and not budget.enough(longest):
            dispatch(room, project, session, work)
            return
        if what == "provision":
            provision(room, found, budget)
        elif what != "run":
            seeing.settle(room, found, what)
        elif not _placed(room, found, budget):
            return


def _placed(room: Room, found: Found, budget: Budget) -> bool:
    """As `_run`. A Turn that begins with a program is left queued until it has a place, whatever then comes of it:

    a process that ends meanwhile takes nothing with it, and one project's Turns wait in no other's way (K19).
    """
    engine = room.engines.of(str(describe(room, found).config.agent["model"]))
    if engine is None or not engine.at_once:
        return _run(room, found, budget)
    assert found.head.active is not None
    # Whoever sees the Turn may send for one more: of a Turn one thread waits.
    with room.hands.queue(found.head.active.turn) as first:
        if not first:
            return False
        with room.executor.place(found.project) as mine:
            now = find(room, found.project, found.session)
            if not mine or room.hands.ending or now is None:
                return False
            return seeing.due(room, now) != "run" or _run(room, now, budget)


def _run(room: Room, found: Found, budget: Budget) -> bool:
    """Run the Session's Turn, if it is to be had; whether it was."""
    cancel = Stopping()
    try:
        running = claim(room, found, describe(room, found), cancel, budget)
    except Fenced:
        return True
    if running is None:
        return False
    with room.hands.hold(running.turn, cancel), room.heart.keep(running.beat):
        try:
            _lead(running)
        except Fenced:
            cancel()
        except Exception as error:
            _LOG.error("a Turn ended early: %s", type(error).__name__)
            _give_up(running)
    return True


def _lead(running: Running) -> None:
    """Run the engine until the Turn is over or waits. Errors: Fenced; StoreUnavailable."""
    room = running.room
    outcome = _outcome(running)
    while True:
        running.reread(need(room, running.found.project, running.found.session))
        active, _ = turning.own(running.found.head, running.turn, running.fence)
        try:
            if active.cancel:
                _close(running, "cancelled")
            elif isinstance(outcome, Failed):
                _close(running, "failed", outcome.error)
            elif isinstance(outcome, Waits):
                _wait(running, outcome)
            elif running.found.head.pending is not None:
                running.batches = batches(running)
                outcome = _outcome(running)
                continue
            else:
                _complete(running, outcome)
        except NotFinal:
            continue
        return


def _outcome(running: Running) -> Outcome:
    """What the engine makes of the Turn. Errors: Fenced; StoreUnavailable."""
    engine = running.room.engines.of(str(running.agent["model"]))
    try:
        return Failed(_INTERNAL) if engine is None else engine.run(running)
    except (Fenced, StoreUnavailable):
        raise
    except SandboxBroken:
        return Failed(_SANDBOX)
    except Failure as failure:
        if failure.code is Code.CANCELLED:
            return Failed(_STOPPED)
        return Failed(_BUSY if failure.code is Code.RATE_LIMITED else _SANDBOX)
    except Exception as error:
        # Its text may be a program's or a caller's.
        _LOG.error("an engine failed: %s", type(error).__name__)
        return Failed(_INTERNAL)


def _version(running: Running, outcome: End = "completed") -> tuple[str, str] | None:
    """Where the workspace's next version lies; None where it stays as it is. A cancelled run leaves nothing (11.35)."""
    progress, opened = running.progress, running.opened
    if progress is None or opened is None:
        return None
    manifest = progress.before if outcome == "cancelled" else progress.base
    if manifest == workspace.manifest_of(running.room, opened.head):
        return None
    return workspace.place(running.room, opened, manifest)


def _complete(running: Running, done: Done) -> None:
    """Capture and complete, in one transaction. A capture that fails fails the Turn; its files stay (11.1, 11.28).

    Errors: Fenced; NotFinal, where input or a cancel came meanwhile; StoreUnavailable.
    """
    room = running.room
    files: Sequence[Entry] = ()
    if running.opened is not None:
        stored = workspace.manifest_of(room, running.opened.head)
        progress = running.progress or Progress(stored, stored)
        if capture.elsewhere(progress.lost):
            running.progress = None
            _close(running, "failed", _SANDBOX)
            return
        try:
            files = capture.capture(progress.base, changed=progress.changed, lost=progress.lost)
        except CaptureFailed as failure:
            _close(running, "failed", TurnError("artifact_capture_failed", failure.message))
            return

    decided: list[tuple[int, Sequence[Entry], PutNew | None]] = []

    def publish(draft: Draft) -> PutNew | None:
        """The record. Only a deletion can change it: what else moves the head costs no second decision."""
        found, turn = draft.found, running.row.turn
        revision, chosen, record = decided[0] if decided else (None, None, None)
        if revision != found.head.revision:
            now = publishing.decide(room, found, files)
            if now != chosen:
                record = publishing.record(room, found, turn.sequence, turn.id, found.environment, draft.now, now)
            decided[:] = [(found.head.revision, now, record)]
        return record

    def decide(draft: Draft) -> None:
        turn, revision = running.row.turn, draft.found.head.revision
        if (record := publish(draft)) is not None:
            draft.actions.append(record)
        draft.head = turning.finish(draft.head, turn.id, running.fence, "completed", draft.now, revision=revision)
        ending.tell_end(room, draft, running.described, running.row, "completed", usage=done.usage)

    running.commit(_version(running), decide)


def _close(running: Running, outcome: Literal["failed", "cancelled"], error: TurnError | None = None) -> None:
    """End a Turn that publishes nothing; what is pending goes on in the next one.

    Errors: Fenced; NotFinal, where a failed one is to be cancelled; StoreUnavailable.
    """
    room = running.room

    def decide(draft: Draft) -> None:
        active, _ = turning.own(draft.head, running.turn, running.fence)
        unfinished = [_partly(running, one) for one in ending.read_open(room, draft.found.partition, active.open)]
        successor, number = draft.new_id("turn") if draft.head.pending is not None else ("", 0)
        draft.head = turning.finish(draft.head, running.turn, running.fence, outcome, draft.now, successor=successor)
        ending.tell_end(room, draft, running.described, running.row, outcome, error=error, unfinished=unfinished)
        if draft.head.active is not None:
            ending.new_turn(draft, running.described, successor, number)

    running.commit(_version(running, outcome), decide)


def _partly(running: Running, unfinished: ending.Unfinished) -> ending.Unfinished:
    """An item that is left unfinished, with as much of it as was told."""
    told = running.partial.get(unfinished.wire["id"], "")
    if not told:
        return unfinished
    if unfinished.wire["type"] == "command_execution":
        wire = {**unfinished.wire, "output": shortened(told)}
    else:
        wire = {**unfinished.wire, "content": [{"type": "output_text", "text": told}]}
    return replace(unfinished, wire=wire)


def _wait(running: Running, waits: Waits) -> None:
    """The Turn waits: its calls are items, and nobody holds it or the workspace (11.37).

    Errors: Fenced; NotFinal, where it is to be cancelled; StoreUnavailable.
    """

    def decide(draft: Draft) -> None:
        calls: list[Call] = []
        actions: list[dict[str, Any]] = []
        shown: list[tuple[dict[str, Any], int]] = []
        for asked in waits.calls:
            ident = ids.new("call", os.urandom)
            members = {"call_id": ident, "name": asked.name, "arguments": asked.arguments}
            item = running.new_item(draft, {"type": "function_call", **members, "status": "completed"})
            calls.append(Call(ident, running.turn, item.id))
            actions.append({"type": "function_call", **members, "turn_id": running.turn})
            shown.append((item.wire, item.index))
        draft.head = turning.wait(draft.head, running.turn, running.fence, calls, draft.now)
        turn = turns.moved(running.row.turn, "waiting", draft.now)
        draft.put(places.TURNS + turn.id, turn.attributes(), running.row.version)
        draft.tell(*events.calls_wait(running.source, changing(draft.head, actions), shown))

    running.commit(_version(running), decide)


def _give_up(running: Running) -> None:
    """End a Turn whose holder cannot go on, if it is not over: by then the store may answer again.

    Where it does not, the lease ends, and whoever sees the Turn then ends it (11.36).
    """
    room, found = running.room, running.found
    running.cancel()
    ends = time.monotonic() + _PATIENCE_S
    while time.monotonic() < ends:
        try:
            _fail(room, found.project, found.session, running)
        except (Fenced, Refusal):
            return
        except (StoreUnavailable, Conflict):
            time.sleep(_PAUSE_S)
        else:
            return


def _fail(room: Room, project: str, session: str, running: Running) -> None:
    def decide(draft: Draft) -> None:
        active, _ = turning.own(draft.head, running.turn, running.fence)
        outcome: End = "cancelled" if active.cancel else "failed"
        seeing.end_active(room, draft, running.described, outcome, _INTERNAL)

    swap(room, need(room, project, session), decide)
