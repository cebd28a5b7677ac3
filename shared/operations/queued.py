"""The worker's side of a queued run: claim its record once, run it, store its end (DESIGN §6, §9)."""

from __future__ import annotations

from shared.operations.exec_models import RunRecord
from shared.operations.room import Room


def resume(room: Room, project: str, run_id: str) -> RunRecord | None:
    """Run a queued run and store its end; None where no such run is queued, or another worker has it."""
    return None
