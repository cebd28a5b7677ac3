"""Running one program: lock, executor, judgement, commit, answer (DESIGN §6). Doors never call this; operations do.

Either the whole next version of the workspace is committed together with the run's record, or nothing is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from shared.domain import session as rules
from shared.domain.ids import file_id, short_id
from shared.domain.manifest import Entry, Manifest
from shared.domain.merge import Merged, merge
from shared.errors import Code, Failure
from shared.executor import wire
from shared.executor.judge import BrokenAnswer, judge
from shared.executor.port import ExecutorFailed
from shared.operations import names, workspace
from shared.operations.base import Cancel
from shared.operations.exec_models import OutputFile, RunInput, RunOutput
from shared.operations.inputs import Inputs, bring, resolve, shown
from shared.operations.room import Room
from shared.operations.workspace import Opened
from shared.store.ports import Action, Conflict, PutIf, PutNew

_FAILED = {
    "unavailable": Code.EXECUTOR_UNAVAILABLE,
    "broken": Code.EXECUTOR_BROKEN,
    "timeout": Code.EXECUTOR_TIMEOUT,
}
_MANY = 20


def perform(
    room: Room, project: str, data: RunInput, cancel: Cancel, closing: Callable[[RunOutput], Sequence[Action]]
) -> RunOutput:
    """Run a program and commit what it left.

    `closing` gives the actions that belong into the committing transaction, such as finishing the run's record.
    Errors: 400, 404, 409, 429, 499, 502, 503, 504; after each of them nothing of the run is kept.
    """
    with room.runs.enter():
        inputs = resolve(room, project, data.files)
        opened = _begin(room, project, data, inputs)
        with _held(room, opened):
            stored = workspace.manifest_of(room, opened.head)
            base, notes = bring(room, opened, stored, inputs)
            answer = _execute(room, _request(room, opened, data, base), cancel)
            merged = merge(base, _kept_bytes(room, opened, answer), answer.deleted)
            output = _output(room, opened, answer, merged, [*inputs.notes, *notes])
            _commit(room, opened, None if merged.manifest == stored else merged.manifest, closing(output))
            return output


def _begin(room: Room, project: str, data: RunInput, inputs: Inputs) -> Opened:
    """Choose the session (exec.md A8.3) and lock it. A new one is stored only by the commit: nobody knows its id."""
    if data.session_id is not None:
        return workspace.lock(room, project, data.session_id)
    if data.runtime_session_hint is not None:
        return _hinted(room, project, data.user_id or "", data.runtime_session_hint)
    if inputs.home is not None:
        return workspace.lock(room, project, inputs.home)
    return workspace.fresh(room, project)


def _hinted(room: Room, project: str, user: str, hint: str) -> Opened:
    """The session that a hint points at, made at once when there is none: another run may ask for it meanwhile."""
    partition, sort = names.project(project), names.hint_row(user, hint)
    while True:
        item = room.state.get(partition, sort)
        if item is not None and workspace.find(room, project, item.attributes["session"]) is not None:
            return workspace.lock(room, project, item.attributes["session"])
        new = workspace.fresh(room, project)
        row = {"session": new.session, "created": room.clock()}
        point: Action = PutNew(partition, sort, row) if item is None else PutIf(partition, sort, item.version, row)
        try:
            room.state.transact([*workspace.creation(new, new.head), point])
        except Conflict:
            continue
        return workspace.lock(room, project, new.session)


@contextmanager
def _held(room: Room, opened: Opened) -> Iterator[None]:
    """Hold the lock: renew it meanwhile, and release it when the block did not commit."""
    if opened.version == 0:
        yield
        return
    with room.heart.keep(lambda: workspace.renew(room, opened)):
        try:
            yield
        except BaseException:
            workspace.release(room, opened)
            raise


def _commit(room: Room, opened: Opened, manifest: Manifest | None, also: Sequence[Action]) -> None:
    """Make the run's version the head, or keep nothing."""
    try:
        workspace.commit_run(room, opened, manifest, also)
    except rules.Fenced:
        raise Failure(Code.BUSY, "The session was taken over meanwhile; nothing of the run is kept.") from None
    except Conflict:
        raise Failure(Code.IN_PROGRESS) from None


def _request(room: Room, opened: Opened, data: RunInput, base: Manifest) -> wire.RunRequest:
    limits = room.limits
    packs = {entry.blob for entry in base if entry.kind == "file" and 0 < entry.size <= limits.small_file_bytes}
    return wire.RunRequest(
        run_id=short_id(os.urandom),
        workspace=names.workspace(opened.project, opened.session),
        lang=data.lang,
        code=data.code,
        args=tuple(data.args),
        limits=wire.RunLimits(
            wall_ms=data.timeout or limits.run_ms,
            **{name: getattr(limits, name) for name in wire.RunLimits.__slots__ if name != "wall_ms"},
        ),
        manifest=tuple(wire.Entry(**{name: getattr(entry, name) for name in wire.Entry.__slots__}) for entry in base),
        reads=dict.fromkeys(base.blobs, ""),
        writes=tuple((workspace.new_key(opened), "") for _ in range(limits.write_grants)),
        repack=len(packs) > limits.packs,
    )


def _execute(room: Room, request: wire.RunRequest, cancel: Cancel) -> wire.RunAnswer:
    """Run it once, never again, and judge the answer."""
    cancel.bind(lambda: room.executor.cancel(request.run_id))
    try:
        answer = room.executor.run(request)
        judge(answer, request, lambda key: info.size if (info := room.objects.head(key)) else None)
    except ExecutorFailed as error:
        raise Failure(_FAILED[error.kind]) from error
    except BrokenAnswer as error:
        raise Failure(Code.EXECUTOR_BROKEN) from error
    if answer.reason == "stopped":
        raise Failure(Code.CANCELLED if cancel.requested else Code.EXECUTOR_BROKEN)
    return answer


def _kept_bytes(room: Room, opened: Opened, answer: wire.RunAnswer) -> list[Entry]:
    """The changed entries, their bytes stored: the inline pack becomes one object."""
    pack = workspace.put_object(room, opened, answer.pack) if answer.pack else ""
    now = room.clock()
    return [
        Entry(
            **{name: getattr(entry, name) for name in wire.Entry.__slots__}
            | {
                "blob": (entry.blob or pack) if entry.kind == "file" and entry.size else "",
                "stored_ms": now,
                "origin": "run",
                "read_only": False,
            }
        )
        for entry in answer.changes
    ]


def _output(room: Room, opened: Opened, answer: wire.RunAnswer, merged: Merged, notes: list[str]) -> RunOutput:
    message = _message(answer)
    after = [f"workroom: {shown(path)} was not kept: {why}" for path, why in answer.lost]
    after += [f"workroom: {shown(entry.path)} is read-only: the change was not kept" for entry in merged.kept]
    after += [f"workroom: {shown(path)} was not kept: a read-only file is in its place" for path in merged.dropped]
    if len(after) > _MANY:
        after[_MANY:] = [f"workroom: and {len(after) - _MANY} more"]
    return RunOutput(
        session_id=opened.session,
        stdout=answer.stdout,
        stderr=_lines(notes) + _joined(answer.stderr, after),
        files=sorted(
            [
                *(_file(room, opened, entry, None) for entry in merged.written),
                *(_file(room, opened, entry, True) for entry in merged.kept),
            ],
            key=lambda row: row.name.encode(),
        ),
        deleted_files=list(merged.deleted),
        code=answer.code,
        signal=_signal_name(answer.signal),
        status=_status(answer),
        message=message,
        wall_time=answer.wall_ms,
    )


def _file(room: Room, opened: Opened, entry: Entry, inherited: bool | None) -> OutputFile:
    return OutputFile(
        id=file_id(room.secret, opened.session, entry.path),
        name=entry.path,
        path=entry.path,
        storage_session_id=opened.session,
        session_id=opened.session,
        size=entry.size,
        inherited=inherited,
    )


def _lines(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _joined(text: str, lines: Sequence[str]) -> str:
    """Lines of ours behind the program's text, on lines of their own."""
    if lines and text and not text.endswith("\n"):
        text += "\n"
    return text + _lines(lines)


def _status(answer: wire.RunAnswer) -> str | None:
    if answer.stdout_cut or answer.reason == "output":
        return "OL"
    if answer.reason == "time":
        return "TO"
    if answer.signal is not None or answer.reason is not None:
        return "SG"
    return None


_MESSAGES = {
    "time": "The program ran out of time.",
    "memory": "The program was killed: out of memory.",
    "output": "The program was stopped: too much output.",
    "workspace_bytes": "The program was stopped: the workspace is too large.",
    "workspace_entries": "The program was stopped: the workspace has too many entries.",
    "processes": "The program was stopped: too many processes.",
    "file_bytes": "The program was stopped: a file is too large.",
    "cpu": "The program was stopped: too much processor time.",
}


def _message(answer: wire.RunAnswer) -> str | None:
    if answer.reason is not None:
        return _MESSAGES[answer.reason]
    if answer.signal is not None:
        return f"The program was ended by {_signal_name(answer.signal)}."
    return None


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
