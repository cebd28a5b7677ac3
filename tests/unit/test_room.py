"""Opening a deployment of one machine: what was opened is closed again when the rest cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions.room import open_room
from sandbox_image.locate import NotInstalled
from shared.settings import Settings


def test_a_room_that_cannot_be_opened_holds_no_lock(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", cache=tmp_path / "cache")
    for _ in range(2):
        with pytest.raises(NotInstalled):
            open_room(settings, owner="serve")
