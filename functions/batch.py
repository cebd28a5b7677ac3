"""A batch of SQS messages: each is done with, or named in the answer, so that only those come again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functions import giveback
from functions.environment import HERE, enough
from functions.telemetry import remaining_ms

Row = dict[str, Any]


def each(rows: list[Row], context: object, done: Callable[[Row], bool]) -> dict[str, Any]:
    """Do the messages of a batch, one after the other; `done` says whether one needs not come again.

    Those for which the call's time would not do are given back unopened; of a FIFO queue also all behind a failed
    one, since they would overtake it.
    """
    failures: list[Row] = []
    for place, row in enumerate(rows):
        late = place > 0 and not _time_for_more(context)
        behind = bool(failures) and str(row.get("eventSourceARN", "")).endswith(".fifo")
        if (late or behind or not done(row)) and isinstance(row.get("messageId"), str):
            failures.append(row)
    giveback.soon(failures)
    return {"batchItemFailures": [{"itemIdentifier": row["messageId"]} for row in failures]}


def _time_for_more(context: object) -> bool:
    left = remaining_ms(context)
    try:
        return left is None or enough(HERE.room(), left)
    except Exception:  # there is no room: each message says so for itself
        return True
