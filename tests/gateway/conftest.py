"""One environment of the function on a fresh store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from functions.api.aws import Front
from shared.limits import Limits
from shared.operations.room import Room
from shared.settings import Settings
from tests.gateway.front import Context
from tests.wire.scripted import Scripted
from tests.wire.service import make_key, open_test_room

SETTINGS = Settings(port=0, dev_key=False)


@dataclass(frozen=True)
class Function:
    """An environment, its room and a key for it."""

    front: Front
    room: Room
    key: str

    def __call__(self, event: Any) -> dict[str, Any]:
        """The answer to an event."""
        return self.front(event, Context())


@contextmanager
def function_on(folder: Path, limits: Limits | None = None) -> Iterator[Function]:
    """An environment."""
    room = open_test_room(folder, limits or Limits(), Scripted())
    try:
        yield Function(Front(lambda: room, lambda: SETTINGS), room, make_key(room, "first"))
    finally:
        room.background.shutdown(wait=True)
        room.executor.close()


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Function]:
    """An environment with the default limits."""
    with function_on(tmp_path_factory.mktemp("function")) as made:
        yield made
