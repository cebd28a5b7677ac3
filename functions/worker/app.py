"""The function behind the run queue: it runs what `exec.start` queued, stores the end, and announces it.

    message {"project", "run_id"} ── claim the record ── run ── end stored ── run.finished
                                        └── not queued any more: nothing to run; an end that is there is announced again

The queue is not believed: only a record that `exec.start` wrote and nobody has claimed is run, with the input that it
holds. A message comes again only where the store could not be reached, or this process takes no more runs; what the
run itself meets is its end, and is stored as that.
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
from shared.domain.ids import is_project, is_short_id
from shared.errors import Failure
from shared.operations import queued, records
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
        return _log(None, None, "malformed", 0.0)
    project, run_id = named
    begun = time.perf_counter()
    try:
        room = HERE.room()
        status = _run(within(room, remaining_ms(context)), project, run_id)
    except Exception as error:
        if not isinstance(error, Failure | StoreUnavailable):
            unexpected(request_id(context), error)
        _log(project, run_id, "again", begun)
        return False
    if status in _ENDS:
        announcer().finished(project, run_id, status)
    return _log(project, run_id, status, begun)


def _run(room: Room, project: str, run_id: str) -> str:
    """Run it if it is queued. How it ended, or how it stands where another has or had it."""
    record = queued.resume(room, project, run_id)
    if record is not None:
        return record.status
    found = records.load(room, project, run_id)
    return "unknown" if found is None else found[0]


def _named(row: dict[str, Any]) -> tuple[str, str] | None:
    """The project and the run of a message, or None where it is none of ours."""
    try:
        body = json.loads(row.get("body") or "")
    except (ValueError, TypeError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    project, run_id = body.get("project"), body.get("run_id")
    if (
        not isinstance(project, str)
        or not isinstance(run_id, str)
        or not is_short_id(run_id)
        or not is_project(project)
    ):
        return None
    return project, run_id


def _log(project: str | None, run_id: str | None, status: str, begun: float) -> bool:
    ms = round((time.perf_counter() - begun) * 1000, 1) if begun else 0.0
    line = {"event": "run", "operation": "exec.start", "project": project, "run": run_id, "status": status, "ms": ms}
    REQUESTS.info(json.dumps(line))
    return True
