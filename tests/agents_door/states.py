"""Sessions as items of a store, without an operation: a head, a description, records of frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.domain.agents import ids
from shared.domain.agents.events import Frame
from shared.domain.agents.lifecycle import created
from shared.operations.agents import config, large, places
from shared.operations.agents.config import Config
from shared.operations.agents.session import Draft, Found, need, swap
from shared.operations.room import Room
from shared.store.ports import PutNew

PROJECT = "first"


def session(room: Room, mark: int = 1, *, metadata: Mapping[str, str] | None = None, text: str = "") -> Found:
    """A new idle Session; `text` is its agent's instructions."""
    ident = ids.new("sess", lambda count: bytes([mark]) * count, ids.stamp(room.clock()))
    head = created("openai_hosted", room.clock())
    found = Found(PROJECT, ident, 0, head)
    described = Config(agent={"model": "program:py", "instructions": text}, environment={"type": "openai_hosted"})
    room.state.transact(
        [
            PutNew(found.partition, places.HEAD, head.attributes()),
            PutNew(found.partition, places.CONFIG, config.attributes(room, found.partition, described, metadata or {})),
        ]
    )
    return need(room, PROJECT, ident)


def tell(room: Room, found: Found, *frames: Frame, items: Mapping[str, Any] | None = None) -> None:
    """One transaction that tells frames, and stores items, each under its id."""

    def decide(draft: Draft) -> None:
        draft.tell(*frames)
        for ident, item in (items or {}).items():
            draft.put(places.ITEMS + ident, large.placed(room, found.partition, item))

    swap(room, need(room, found.project, found.session), decide)
