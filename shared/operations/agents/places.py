"""Where the items of the Agents API lie: the only place where their sorts are spelled.

A Session is one partition, `names.session(project, "sess_…")`. The sort `names.HEAD` there is its workspace's head,
the same as an exec session's; everything else of it stands beside that. The exec doors cannot address it: its id is
none of theirs.
"""

from __future__ import annotations

from shared.domain.agents import ids
from shared.domain.ids import digest
from shared.operations import names

HEAD = "session"
CONFIG = "config"
TURNS = "turn/"
ITEMS = "item/"
EVENTS = "event/"
PUBLICATIONS = "pub/"
REMOVED = "gone/"
WRITES = "write/"
BATCHES = "batch/"

SESSIONS = "sess/"
"""Rows of a project's partition, one for each Session: its id begins with its time."""
DELETED = "deleted/"
"""Rows of a project's partition, one for each deleted Session, for `TOMBSTONE_S`."""
TOMBSTONE_S = 30 * 86_400
UNSETTLED = "unsettled/"
"""Rows of a project's partition, one for each write that is not settled."""


def batch(batch_id: str) -> str:
    """The sort of an admitted batch of events."""
    return BATCHES + batch_id


def key(idempotency_key: str) -> str:
    """The sort of the record of an Idempotency-Key in its Session."""
    return f"key/{digest(idempotency_key)}"


def event(sequence: int) -> str:
    """The sort of the record whose first frame has that number; as a cursor: everything up to that number."""
    return EVENTS + ids.order(sequence)


def publication(sequence: int) -> str:
    """The sort of the publication of the Turn with that number."""
    return PUBLICATIONS + ids.order(sequence)


def unsettled(since: int, session: str, write: str) -> str:
    """The sort of an unsettled write's row in its project's partition: the first is the oldest."""
    return f"{UNSETTLED}{since:015d}/{session}/{write}"


def creation(project: str, idempotency_key: str) -> str:
    """The partition of the record of an Idempotency-Key of a Session's creation."""
    return names.record(project, "sessidem", digest(idempotency_key))
