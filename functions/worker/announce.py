"""Telling others that a queued run has ended: `run.finished` on EventBridge.

The event says which run of which project and how it ended, never what the program printed or its files: whoever
wants those asks with a credential. It is told after the end was stored, once as a rule, again after a redelivery,
and not at all where EventBridge cannot be reached: the stored end is the truth, the event is a hint.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Protocol

from functions.worker.client import patience

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

SOURCE = "workroom"
FINISHED = "run.finished"

_LOG = logging.getLogger("workroom.worker")


class Announcer(Protocol):
    """Who tells that a run has ended."""

    def finished(self, project: str, run_id: str, status: str) -> None:
        """Tell it; `status` is finished or failed. It never raises."""


class Silent:
    """Tells nobody: a deployment without an event bus."""

    def finished(self, project: str, run_id: str, status: str) -> None:
        """Do nothing."""


class EventBridge:
    """Puts events on a bus. `bus` is its name; the client is made with the first event. Thread-safe."""

    def __init__(self, bus: str, client: EventBridgeClient | None = None) -> None:
        self._bus = bus
        self._made = client
        self._lock = threading.Lock()

    def finished(self, project: str, run_id: str, status: str) -> None:
        """Put `run.finished` with the detail `{"project", "run_id", "status"}`."""
        detail = json.dumps({"project": project, "run_id": run_id, "status": status})
        entry = {"Source": SOURCE, "DetailType": FINISHED, "Detail": detail, "EventBusName": self._bus}
        try:
            answer = self._client().put_events(Entries=[entry])  # type: ignore[list-item]
            if answer["FailedEntryCount"]:
                _LOG.error("a run's end was not announced: refused")
        except Exception as error:
            _LOG.error("a run's end was not announced: %s", type(error).__name__)

    def _client(self) -> EventBridgeClient:
        with self._lock:
            if self._made is None:
                import boto3  # noqa: PLC0415

                self._made = boto3.client("events", config=patience())
            return self._made
