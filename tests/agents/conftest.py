"""Services for the suite of the Agents API: those of the wire suite, at each front door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.limits import Limits
from tests.agents.asking import Asker
from tests.wire.conftest import door, pytest_configure, pytest_generate_tests
from tests.wire.scripted import Scripted
from tests.wire.service import Door, open_test_room, serving

__all__ = ["door", "pytest_configure", "pytest_generate_tests"]

SMALL = Limits(source_bytes=100_000, source_part_bytes=50_000, source_parts=3)


@pytest.fixture(scope="session")
def agents_folder(tmp_path_factory: pytest.TempPathFactory, door: Door) -> Path:
    """The data folder of `api`."""
    return tmp_path_factory.mktemp(f"agents-{door}")


@pytest.fixture(scope="session")
def api(agents_folder: Path, door: Door) -> Iterator[Asker]:
    """A service with small limits of source files."""
    with serving(open_test_room(agents_folder, SMALL, Scripted()), door=door) as running:
        yield Asker(running)
