"""The scheduled function that removes what is over, as far as its time goes; the next call goes on from there."""

from __future__ import annotations

import json
import time
from typing import Any

from functions.environment import HERE
from functions.telemetry import REQUESTS, EmfMetrics, function, remaining_ms
from shared.operations.janitor import oldest_unsettled_ms, sweep

MARGIN_MS = 10_000
"""Milliseconds before the function's end at which no further step is begun: the longest step takes less."""


@function("janitor")
def handler(event: Any, context: Any) -> Any:
    """Sweep. The event is not looked at. What could not be done raises: the schedule tries again, the alarm counts.

    The answer is `{"sessions", "objects", "records", "whole"}`: what was removed, and whether the sweep came to its
    end.
    """
    begun = time.monotonic()
    left = remaining_ms(context)
    until = None if left is None else begun + max(0, left - MARGIN_MS) / 1000
    room = HERE.room()
    metrics = EmfMetrics()
    metrics.gauges(unsettled_writes_oldest_s=("Seconds", oldest_unsettled_ms(room) / 1000))
    late = None if until is None else lambda: time.monotonic() >= until
    # This function runs no program: without a queue nobody is there to hand a Session's work to.
    swept = sweep(room, late, workers=room.queue is not None)
    metrics.gauges(sessions_removed=("Count", swept.sessions), objects_removed=("Count", swept.objects))
    answer = {"sessions": swept.sessions, "objects": swept.objects, "records": swept.records, "whole": swept.whole}
    ms = round((time.monotonic() - begun) * 1000, 1)
    REQUESTS.info(json.dumps({"event": "sweep", "status": 200, "ms": ms, **answer}))
    return answer
