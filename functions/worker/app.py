"""The function behind the run queue: it runs what `exec.start` queued, stores the end, and announces it; and it does
the work of Sessions.

    message {"project", "run_id"} ── claim the record ── run ── end stored ── run.finished
                                        └── not queued any more: nothing to run; an end that is there is announced again
            {"project", "session"} ── what is due there, each claimed, until nothing is

The queue is not believed: only a record that `exec.start` wrote and nobody has claimed is run, with the input that it
holds, and a Session's head says what is due in it. A message comes again only where the store could not be reached, or
this process takes no more runs; what the run itself meets is its end, and is stored as that. A Turn ends by itself
before the call does: the call's time is the bound of its programs.
"""

from __future__ import annotations

import json
import time
from typing import Any

from functions.api.access import unexpected
from functions.batch import each
from functions.environment import HERE, within
from functions.telemetry import REQUESTS, function, remaining_ms, request_id
from functions.worker.announce import Announcer, EventBridge, Silent
from shared.domain.agents.ids import is_id
from shared.domain.ids import is_project, is_short_id
from shared.errors import Code, Failure
from shared.operations import queued, records
from shared.operations.agents.work import work
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

_ENDS = ("finished", "failed")


@function("worker")
def handler(event: Any, context: Any) -> Any:
    """Run each message's run; the answer names the messages that are to come again."""
    rows = event.get("Records") if isinstance(event, dict) else None
    return each([row for row in rows or () if isinstance(row, dict)], context, lambda row: _done(row, context))


def announcer() -> Announcer:
    """Who tells of ends here: the deployment's event bus, where it has one."""
    global _announcer  # noqa: PLW0603  (its client is made once)
    if _announcer is None:
        bus = HERE.settings.event_bus
        _announcer = Silent() if bus is None else EventBridge(bus)
    return _announcer


_announcer: Announcer | None = None


def _done(row: dict[str, Any], context: object) -> bool:
    named = _named(row)
    if named is None:
        return _log(("run", None, None), "malformed", 0.0)
    begun = time.perf_counter()
    try:
        room = within(HERE.room(), remaining_ms(context))
        status = _work(room, *named) if named[0] == "session" else _run(room, *named[1:])
    except Exception as error:
        if not isinstance(error, Failure | StoreUnavailable):
            unexpected(request_id(context), error)
        if named[0] == "session" and not _passes(error):
            return _log(named, "failed", begun)
        _log(named, "again", begun)
        return False
    if named[0] == "run" and status in _ENDS:
        announcer().finished(*named[1:], status)
    return _log(named, status, begun)


def _passes(error: Exception) -> bool:
    """Whether a later attempt at a Session's work may do what this one could not. Whoever sees the Session goes on."""
    if isinstance(error, Failure):
        return error.code in (Code.RATE_LIMITED, Code.STORE_UNAVAILABLE)
    return isinstance(error, StoreUnavailable)


def _work(room: Room, _kind: str, project: str, session: str) -> str:
    """Do what is due in a Session, within a place of this process. Errors: 429 where there is none."""
    with room.runs.enter(project):
        work(room, project, session)
    return "done"


def _run(room: Room, project: str, run_id: str) -> str:
    """Run it if it is queued. How it ended, or how it stands where another has or had it."""
    record = queued.resume(room, project, run_id)
    if record is not None:
        return record.status
    found = records.load(room, project, run_id)
    return "unknown" if found is None else found[0]


def _named(row: dict[str, Any]) -> tuple[str, str, str] | None:
    """What a message names: its kind, "run" or "session", its project and its id; None where it is none of ours."""
    try:
        body = json.loads(row.get("body") or "")
    except (ValueError, TypeError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    project, run_id, session = body.get("project"), body.get("run_id"), body.get("session")
    if not isinstance(project, str) or not is_project(project) or (run_id is None) == (session is None):
        return None
    if isinstance(run_id, str) and is_short_id(run_id):
        return "run", project, run_id
    if isinstance(session, str) and is_id(session, "sess"):
        return "session", project, session
    return None


_OPERATIONS = {"run": "exec.start", "session": "events.create"}
"""What has queued them, as the log names it."""


def _log(named: tuple[str, str | None, str | None], status: str, begun: float) -> bool:
    kind, project, ident = named
    ms = round((time.perf_counter() - begun) * 1000, 1) if begun else 0.0
    line = {"event": kind, "operation": _OPERATIONS[kind], "project": project, kind: ident, "status": status, "ms": ms}
    REQUESTS.info(json.dumps(line))
    return True
