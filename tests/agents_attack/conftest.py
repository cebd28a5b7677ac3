"""A house whose Sessions have their work done by the test itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from shared.operations.keys import put_key
from tests.fakes import House, make_room, shut


@dataclass
class Kept:
    """A queue that keeps what it is sent."""

    sent: list[dict[str, str]] = field(default_factory=list)

    def send(self, message: Mapping[str, str]) -> None:
        """Keep it."""
        self.sent.append(dict(message))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A room on the real local store; nothing works in it but the test."""
    made = make_room(tmp_path)
    made.room = replace(made.room, queue=Kept())
    put_key(made.room, "one", {"id": "one", "project": "one", "name": "", "created": 0, "until": None})
    yield made
    shut(made)
