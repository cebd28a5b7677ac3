"""The answer of a run: what the program printed and left, and our lines on stderr (exec.md A3, A7, A8.5)."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from shared.domain.ids import file_id
from shared.domain.manifest import Entry
from shared.domain.merge import Merged
from shared.executor.wire import RunAnswer
from shared.operations.exec_models import OutputFile, RunOutput
from shared.operations.inputs import shown
from shared.operations.room import Room

_MANY = 20


def run_output(
    room: Room, session: str, answer: RunAnswer, merged: Merged, notes: Sequence[str], more: Sequence[str]
) -> RunOutput:
    """The answer. `notes` stand before the program's own stderr, `more` and what was not kept behind it."""
    after = [*more, *_end(room, answer)]
    after += [f"workroom: {shown(path)} was not kept: {why}" for path, why in answer.lost]
    after += [f"workroom: {shown(entry.path)} is read-only: the change was not kept" for entry in merged.kept]
    after += [f"workroom: {shown(path)} was not kept: a read-only file is in its place" for path in merged.dropped]
    if len(after) > _MANY:
        after[_MANY:] = [f"workroom: and {len(after) - _MANY} more"]
    return RunOutput(
        session_id=session,
        stdout=answer.stdout,
        stderr=_lines(notes) + with_lines(answer.stderr, after),
        files=sorted(
            [
                *(_file(room, session, entry, None) for entry in merged.written),
                *(_file(room, session, entry, True) for entry in merged.kept),
            ],
            key=lambda row: row.name.encode(),
        ),
        deleted_files=list(merged.deleted),
        code=answer.code,
        signal=_signal_name(answer.signal),
        status=_status(answer),
        message=end_message(answer),
        wall_time=answer.wall_ms,
    )


def _end(room: Room, answer: RunAnswer) -> list[str]:
    """What stderr says of an end that the program leaves unsaid: clients show no `code` and no `status` (A3, A8.5)."""
    if answer.stdout_cut and answer.reason is None:
        return [f"stdout was cut: it is longer than {room.limits.stdout_bytes} bytes"]
    return [f"exited with code {answer.code}"] if answer.code and not answer.stderr else []


def _file(room: Room, session: str, entry: Entry, inherited: bool | None) -> OutputFile:
    return OutputFile(
        id=file_id(room.secret, session, entry.path),
        name=entry.path,
        path=entry.path,
        storage_session_id=session,
        session_id=session,
        size=entry.size,
        inherited=inherited,
    )


def _lines(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def with_lines(text: str, lines: Sequence[str]) -> str:
    """Lines of ours behind the program's text, on lines of their own."""
    if lines and text and not text.endswith("\n"):
        text += "\n"
    return text + _lines(lines)


def _status(answer: RunAnswer) -> str | None:
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


def end_message(answer: RunAnswer) -> str | None:
    """What ended a program that did not end by itself, in a sentence; else None."""
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
