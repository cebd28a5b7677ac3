"""Messages that are to come again soon: SQS would hide one that was given back for as long as one that is worked on.

That time is above the longest call, and a queued run does not wait so long (`Limits.queue_ms`): given back only by
the batch's answer, it would come again when it has failed. So each is made visible after half a minute, then after two,
eight, half an hour, which leaves a store that is away some time before the last try.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functions.worker.client import patience

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

FIRST_S, FACTOR, MOST_S = 30, 4, 5_400
"""Seconds until a message comes again: after the first try, by how much longer after each further one, and at most."""

_LOG = logging.getLogger("workroom.queue")


def wait_s(tries: int) -> int:
    """Seconds until a message comes again that was tried so often."""
    return int(min(MOST_S, FIRST_S * FACTOR ** min(max(tries, 1) - 1, 10)))


def soon(rows: Sequence[dict[str, Any]], client: SQSClient | None = None) -> None:
    """Let these messages come again soon. Never raises: one for which that fails comes after the queue's own time."""
    for row in rows:
        handle, place = row.get("receiptHandle"), str(row.get("eventSourceARN", "")).split(":")
        if not isinstance(handle, str) or len(place) != 6:
            continue
        try:
            client = client or _client(place[3])
            url = f"{client.meta.endpoint_url.rstrip('/')}/{place[4]}/{place[5]}"
            client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=wait_s(_tries(row)))
        except Exception as error:
            _LOG.warning("a message comes again late: %s", type(error).__name__)
            return


def _tries(row: dict[str, Any]) -> int:
    attributes = row.get("attributes")
    count = attributes.get("ApproximateReceiveCount") if isinstance(attributes, dict) else None
    return int(count) if isinstance(count, str) and count.isascii() and count.isdigit() and len(count) < 9 else 1


def _client(region: str) -> SQSClient:
    import boto3  # noqa: PLC0415

    return boto3.client("sqs", region_name=region, config=patience())
