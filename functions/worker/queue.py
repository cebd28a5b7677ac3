"""The run queue on SQS: a message names a queued run, or a Session that has work, and holds nothing else of it.

A message may come twice, or for what is not there: a run's record and a Session's head are claimed by compare and swap,
so a second message finds nothing to do. So a lost answer of SQS is told as it is, and never sent again.

Each message is of its project's group: a queue of SQS serves the groups in turn where one has many messages waiting
(fair queues), so that the runs of one project do not keep those of another waiting till they have failed (K19).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from functions.worker.client import patience
from shared.store.ports import StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


_MEMBERS = ("project", "run_id", "session")


class SqsQueue:
    """The port RunQueue. `url` is the queue's address; the client is made with the first message. Thread-safe."""

    def __init__(self, url: str, client: SQSClient | None = None) -> None:
        self._url = url
        self._made = client
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, str]) -> None:
        """Queue `{"project", "run_id"}` or `{"project", "session"}`; no other member leaves the process.

        Errors: StoreUnavailable; the message may have been queued all the same.
        """
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        named = {name: message[name] for name in _MEMBERS if name in message}
        body = json.dumps(named, separators=(",", ":"))
        try:
            self._client().send_message(QueueUrl=self._url, MessageBody=body, MessageGroupId=message["project"])
        except (BotoCoreError, ClientError) as error:
            raise StoreUnavailable("queue") from error

    def _client(self) -> SQSClient:
        with self._lock:
            if self._made is None:
                import boto3  # noqa: PLC0415

                self._made = boto3.client("sqs", config=patience())
            return self._made
