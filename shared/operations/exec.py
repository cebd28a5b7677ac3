"""`exec.run` and `exec.start`: run a whole program, now or in the background (exec.md A3, A7, A8)."""

from __future__ import annotations

import logging
import os

from shared.domain.ids import short_id
from shared.errors import Code, Failure, invalid
from shared.identity import Caller
from shared.operations import queued, records, workspace
from shared.operations.base import Call, Route, admitted, operation
from shared.operations.budget import Budget
from shared.operations.exec_models import RunId, RunInput, RunOutput, RunRecord
from shared.operations.fit import fitted, fitted_record
from shared.operations.pools import handed
from shared.operations.room import Room
from shared.operations.run import perform
from shared.operations.texts import bounded, check_path

_LOG = logging.getLogger("workroom.run")

RUN_ERRORS = (
    Code.INVALID_REQUEST,
    Code.NOT_FOUND,
    Code.BUSY,
    Code.IN_PROGRESS,
    Code.IDEMPOTENCY_CONFLICT,
    Code.RATE_LIMITED,
    Code.EXECUTOR_BROKEN,
    Code.EXECUTOR_UNAVAILABLE,
    Code.EXECUTOR_TIMEOUT,
)


@operation("exec.run", route=Route("POST", ("/v1/exec", "/v1/exec/exec")), errors=RUN_ERRORS)
def run(room: Room, call: Call, data: RunInput) -> RunOutput:
    """Run a program. It runs in a sandbox without network; its working directory is the session's workspace.

    A program that fails, is killed or runs out of time is a successful call: see `code`, `status` and `stderr`. Files
    that it leaves in the working directory (also reachable as /mnt/data and /workspace) stay in the session; name
    `session_id` in a later run to find them again.
    """
    budget = Budget(room.limits.answer_ms)
    check(room, data)
    return fitted(_run(room, call, data, budget), room.limits.answer_bytes)


def _run(room: Room, call: Call, data: RunInput, budget: Budget) -> RunOutput:
    """The whole answer, from a run or stored by an earlier one."""
    caller, project = admitted(call), call.project
    if call.idempotency_key is None:
        with room.runs.enter(project):
            return perform(room, caller, data, call.cancel, lambda output: (), budget)
    begun = records.begin(room, project, _key(room, call.idempotency_key), _body(data, "run"))
    if isinstance(begun, records.Stored):
        return RunOutput.model_validate(begun.result)
    with records.in_hand(room, begun):
        try:
            with room.runs.enter(project):
                return perform(
                    room,
                    caller,
                    data,
                    call.cancel,
                    lambda output: [records.finished(room, begun, output.model_dump())],
                    budget,
                )
        except BaseException:
            records.drop(room, begun)
            raise


@operation("exec.start", status=202, errors=RUN_ERRORS)
def start(room: Room, call: Call, data: RunInput) -> RunRecord:
    """Start a program and do not wait for it. The answer has the id under which `runs.get` tells of it.

    Everything else is as for `exec.run`. The result is kept for 24 hours.
    """
    check(room, data)
    caller, project = admitted(call), call.project
    if call.idempotency_key is None:
        return _start(room, caller, data, None)
    begun = records.begin(room, project, _key(room, call.idempotency_key), _body(data, "start"))
    if isinstance(begun, records.Stored):
        return RunRecord.model_validate(begun.result)
    with records.in_hand(room, begun):
        try:
            return _start(room, caller, data, begun)
        except BaseException:
            records.drop(room, begun)
            raise


def _start(room: Room, caller: Caller, data: RunInput, begun: records.Record | None) -> RunRecord:
    """Take a place, make the run's record together with the end of its key's record, and hand it over.

    With a queue the place is the worker's to take.

    A session that is not there is 404 now, not in a record that the caller has to ask for.
    """
    project = caller.project
    if data.session_id is not None:
        workspace.need(room, project, data.session_id)
    if room.queue is not None:
        return queued.enqueue(room, room.queue, caller, data, begun)
    record = RunRecord(id=short_id(os.urandom), status="running")
    room.runs.take(project)
    try:
        also = [] if begun is None else [records.finished(room, begun, record.model_dump())]
        owned = records.create(room, project, record.id, also)
    except BaseException:
        room.runs.leave(project)
        raise
    if not handed(room.background, lambda: _in_background(room, caller, data, owned)):
        # The service is ending, or there is no thread to be had.
        room.runs.leave(project)
        with records.in_hand(room, owned):
            failure = Failure(Code.EXECUTOR_UNAVAILABLE)
            room.state.transact([records.finished(room, owned, failure.body(), "failed")])
    return record


@operation("runs.get", route=Route("GET", ("/v1/exec/runs/{run_id}",)), errors=(Code.NOT_FOUND,))
def get_run(room: Room, call: Call, data: RunId) -> RunRecord:
    """Get a run that was started in the background. While it goes on, `status` is running."""
    found = queued.told(room, call.project, data.run_id)
    if found is None:
        raise Failure(Code.NOT_FOUND, "No such run.")
    return fitted_record(found, room.limits.answer_bytes)


def _in_background(room: Room, caller: Caller, data: RunInput, owned: records.Record) -> None:
    """Run it in a thread of this process, which holds a place for it."""
    try:
        queued.conclude(room, caller, data, owned)
    except Exception as error:
        # Its end could not be written: the record still says running, but in nobody's hand, which reads as failed.
        _LOG.error("the end of a background run is lost: %s", type(error).__name__)
    finally:
        room.runs.leave(caller.project)


def check(room: Room, data: RunInput) -> None:
    """Refuse what no executor has to see. Errors: 400 naming the field and the limit."""
    limits = room.limits
    bounded("code", data.code, limits.code_bytes)
    total = 0
    for index, arg in enumerate(data.args):
        bounded(f"args[{index}]", arg, limits.args_bytes, empty=True)
        total += len(arg.encode()) + 1
    if total > limits.args_bytes:
        raise invalid("args", f"must not be longer than {limits.args_bytes} bytes together")
    if data.timeout is not None and data.timeout > limits.run_ms_max:
        raise invalid("timeout", f"must be at most {limits.run_ms_max}")
    for name in ("session_id", "runtime_session_hint", "user_id", "entity_id"):
        value = getattr(data, name)
        if value is not None:
            bounded(name, value, limits.label_bytes, empty=name in ("user_id", "entity_id"))
    if len(data.files) > limits.run_files:
        raise invalid("files", f"must not have more than {limits.run_files} entries")
    for index, file in enumerate(data.files):
        bounded(f"files[{index}].id", file.id, limits.path_bytes)
        if file.name is not None:
            check_path(f"files[{index}].name", file.name, limits)
        for name in ("storage_session_id", "session_id"):
            value = getattr(file, name)
            if value is not None:
                bounded(f"files[{index}].{name}", value, limits.label_bytes, empty=True)


def _key(room: Room, key: str) -> str:
    return bounded("Idempotency-Key", key, room.limits.label_bytes)


def _body(data: RunInput, how: str) -> dict[str, object]:
    return {"how": how, **data.model_dump()}
