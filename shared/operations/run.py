"""Running one program: lock, executor, judgement, commit, answer (DESIGN §6). Doors never call this; operations do.

Either the whole next version of the workspace is committed together with the run's record, or nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from shared.domain import session as rules
from shared.domain.manifest import Manifest
from shared.domain.merge import Merged
from shared.errors import Code, Failure
from shared.identity import Caller
from shared.operations import names, workspace
from shared.operations.base import Cancel
from shared.operations.budget import Budget
from shared.operations.counted import Counted
from shared.operations.exec_models import RunInput, RunOutput
from shared.operations.inputs import Inputs, bring, resolve
from shared.operations.room import Room
from shared.operations.run_answer import run_output
from shared.operations.step import Program, beyond, execute, keep
from shared.operations.workspace import Opened
from shared.store.ports import Action, Conflict, Item, PutIf, PutNew


def perform(
    room: Room,
    caller: Caller,
    data: RunInput,
    cancel: Cancel,
    closing: Callable[[RunOutput], Sequence[Action]],
    budget: Budget | None = None,
) -> RunOutput:
    """Run a program and commit what it left. Whoever calls holds a place in `room.runs`.

    `closing` gives the actions that belong into the committing transaction, such as finishing the run's record.
    `budget` is the time of the answer that waits for this run; by default nothing waits.
    Errors: 400, 404, 409, 429, 499, 502, 503, 504; after each of them nothing of the run is kept.
    """
    counted = Counted(data)
    try:
        output = _perform(room, caller, data, cancel, closing, budget or Budget(0), counted)
    except BaseException as error:
        counted.report(room.metrics, error)
        raise
    counted.report(room.metrics, None)
    return output


def _perform(
    room: Room,
    caller: Caller,
    data: RunInput,
    cancel: Cancel,
    closing: Callable[[RunOutput], Sequence[Action]],
    budget: Budget,
    counted: Counted,
) -> RunOutput:
    inputs = resolve(room, caller.project, data.files)
    opened, made = _begin(room, caller.project, data, inputs, cancel, budget)
    with _held(room, opened, made):
        counted.locked()
        begun = room.clock()
        stored = workspace.manifest_of(room, opened.head)
        # What is no file, folder, link or pipe lasts to the end of its run only: it cannot be made again.
        base, notes = bring(room, opened, stored.without_kind("other"), inputs)
        counted.brought(base)
        asked = data.timeout or room.limits.run_ms
        program = Program(
            lang=data.lang,
            code=data.code,
            args=tuple(data.args),
            wall_ms=budget.run_ms(asked),
            tenant=names.tenant(room.secret, room.isolation, caller, data.user_id, opened.session),
        )
        answer = execute(room, opened, base, program, cancel, budget)
        counted.answered(answer)
        merged, more = _within(room, base, keep(room, opened, base, answer).merged)
        if program.wall_ms < asked and (data.timeout is not None or answer.reason == "time"):
            more = [*more, _shortened(room, program.wall_ms, asked)]
        output = run_output(room, opened.session, answer, merged, [*inputs.notes, *notes], more)
        also = closing(output)
        if room.clock() - begun > workspace.grace_ms(room):
            # It waited so long for an executor that the janitor may take what it stored at its begin.
            raise Failure(Code.EXECUTOR_TIMEOUT)
        _commit(room, opened, None if merged.manifest == stored else merged.manifest, also)
        counted.stored(answer, merged)
        return output


def _shortened(room: Room, given: int, asked: int) -> str:
    """What stderr says of a run whose time the answer's own bound cut (exec.md A8.5, DESIGN §6)."""
    within = f"an answer has to be ready in {room.limits.answer_ms} ms"
    return f"workroom: the run time was limited to {given} ms, not {asked} ms: {within}"


def _begin(
    room: Room, project: str, data: RunInput, inputs: Inputs, cancel: Cancel, budget: Budget
) -> tuple[Opened, Sequence[Item]]:
    """Choose the session (exec.md A8.3) and lock it; with the rows that were made for it, if it is a new one.

    A new one without a hint is stored only by the commit: nobody knows its id.
    """

    def lock(session: str) -> Opened:
        return workspace.lock(room, project, session, lambda: cancel.requested, budget.wait_ms(room.limits))

    if data.session_id is not None:
        return lock(data.session_id), ()
    if data.runtime_session_hint is not None:
        return _hinted(room, project, data.user_id or "", data.runtime_session_hint, lock)
    if inputs.home is not None:
        return lock(inputs.home), ()
    return workspace.fresh(room, project), ()


def _hinted(
    room: Room, project: str, user: str, hint: str, lock: Callable[[str], Opened]
) -> tuple[Opened, Sequence[Item]]:
    """The session that a hint points at, made and locked at once when there is none: another run may ask for it."""
    partition, sort = names.project(project), names.hint_row(user, hint)
    while True:
        item = room.state.get(partition, sort)
        if item is not None:
            try:
                return lock(item.attributes["session"]), ()
            except Failure as failure:
                if failure.code is not Code.NOT_FOUND:
                    raise
        new = workspace.fresh(room, project)
        head = rules.acquire(new.head, room.owner, room.clock(), room.limits.lease_ms)
        assert head is not None  # a head without a lock can be locked
        row = {"session": new.session, "created": room.clock()}
        point: Action = PutNew(partition, sort, row) if item is None else PutIf(partition, sort, item.version, row)
        try:
            version, index, pointing = room.state.transact([*workspace.creation(new, head), point])
        except Conflict:
            continue
        rows = (
            Item(partition, names.session_row(new.session), index, {}),
            Item(partition, sort, pointing, row),
        )
        return Opened(project, new.session, version, head), rows


@contextmanager
def _held(room: Room, opened: Opened, made: Sequence[Item]) -> Iterator[None]:
    """Hold the lock: renew it meanwhile. When the block did not commit, release it, or undo what was made for it."""
    if opened.version == 0:
        yield
        return
    with room.heart.keep(lambda: workspace.renew(room, opened)):
        try:
            yield
        except BaseException:
            if made:
                workspace.abandon(room, opened, made)
            else:
                workspace.release(room, opened)
            raise


def _within(room: Room, base: Manifest, merged: Merged) -> tuple[Merged, list[str]]:
    """What was merged, if it is within the limits of a workspace; else nothing of it, and a line that says so."""
    above = beyond(room.limits, base, merged.manifest)
    if above is None:
        return merged, []
    return Merged(base), [f"workroom: no change was kept: the workspace would hold more than {above}"]


def _commit(room: Room, opened: Opened, manifest: Manifest | None, also: Sequence[Action]) -> None:
    """Make the run's version the head, or keep nothing."""
    try:
        workspace.commit_run(room, opened, manifest, also)
    except rules.Fenced:
        raise Failure(
            Code.BUSY, "The session was taken over meanwhile; nothing of the run is kept.", retry_after=1
        ) from None
    except Conflict:
        raise Failure(Code.IN_PROGRESS) from None
