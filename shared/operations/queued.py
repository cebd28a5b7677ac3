"""Runs that nobody waits for: handing one to a queue, taking it up once, and storing its end whatever happens.

    start    put record(queued, input, caller) ── send {project, run_id} ── 202
    worker   record(queued → running, owner) by compare and swap ── run ── [commit + record(finished)] or record(failed)
    nobody   after `Limits.queue_ms` record(queued → failed): from then on no worker can take it up

The queue is not trusted and may deliver twice: a message names a record, and only a record that is queued runs, once.
"""

from __future__ import annotations

import logging
import os

from shared.domain.ids import is_project, short_id
from shared.errors import Code, Failure
from shared.identity import Caller
from shared.operations import records
from shared.operations.base import Cancel
from shared.operations.budget import Budget
from shared.operations.exec_models import RunInput, RunOutput, RunRecord
from shared.operations.room import Room, RunQueue
from shared.operations.run import perform
from shared.store.ports import Action, Conflict, StoreUnavailable

_LOG = logging.getLogger("workroom.run")


def enqueue(room: Room, queue: RunQueue, caller: Caller, data: RunInput, begun: records.Record | None) -> RunRecord:
    """Store a run as queued, together with the end of its key's record, and send it.

    A queue that does not take it leaves no record. Where a worker has it all the same, it was sent. Errors: 503.
    """
    record = RunRecord(id=short_id(os.urandom), status="running")
    also = None if begun is None else (begun, records.finished(room, begun, record.model_dump()))
    queued = records.enqueue(room, caller, record.id, data.model_dump(), also)
    try:
        queue.send({"project": caller.project, "run_id": record.id})
    except Exception:
        if records.withdraw(room, queued):
            raise
    return record


def resume(room: Room, project: str, run_id: str) -> RunRecord | None:
    """Run a queued run and store its end; None where no such run is queued, or another worker has it.

    One that waited too long is not run: it has failed, and that is the answer. A failure of ours is stored as such and
    never run again. Errors: 429 while this process takes no more runs, and StoreUnavailable; after a 429 the record is
    as it was, so it may be asked for again, and after the other that does no harm.

    `Limits.answer_ms` is here what is left of the worker's own time: the run ends, and its end is stored, before that.
    """
    budget = Budget(room.limits.answer_ms)
    if not is_project(project):
        return None
    with room.runs.enter(project):
        claim = records.claim(room, project, run_id)
        if claim is None:
            return None
        if claim.owned is None:
            return told(room, project, run_id)
        conclude(room, claim.caller, claim.input, claim.owned, budget)
    return told(room, project, run_id)


def told(room: Room, project: str, run_id: str) -> RunRecord | None:
    """What `runs.get` tells of a run, or None."""
    found = records.load(room, project, run_id)
    if found is None:
        return None
    state, result = found
    if state == "finished":
        return RunRecord(id=run_id, status=state, result=RunOutput.model_validate(result))
    return RunRecord(id=run_id, status=state, error=result if state == "failed" else None)


def conclude(
    room: Room,
    caller: Caller,
    data: RunInput | dict[str, object],
    owned: records.Record,
    budget: Budget | None = None,
) -> None:
    """Run it and write the record's end, whatever happens: a caller that asks never waits for nothing.

    The client that started it is gone by design: nothing but the service's end stops it. Errors: StoreUnavailable, when
    the end could not be written; the record then reads as failed once it is in nobody's hand.
    """
    with records.in_hand(room, owned):
        try:
            run = data if isinstance(data, RunInput) else RunInput.model_validate(data)

            def closing(output: RunOutput) -> list[Action]:
                return [records.finished(room, owned, output.model_dump())]

            perform(room, caller, run, Cancel(), closing, budget)
            return
        except Failure as error:
            failure = error
        except Exception as error:
            _LOG.error("a background run failed: %s", type(error).__name__)
            failure = Failure(Code.STORE_UNAVAILABLE if isinstance(error, StoreUnavailable) else Code.INTERNAL)
        try:
            room.state.transact([records.finished(room, owned, failure.body(), "failed")])
        except Conflict:
            # The run's commit was taken though its answer was lost: it has finished.
            return
