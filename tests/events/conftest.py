"""Functions as the platform calls them, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from functions import telemetry
from tests.events.samples import Stage, staged


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Each test installs its own lines, and leaves no logger changed."""
    yield
    telemetry.uninstall()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A room with the default limits."""
    with staged(tmp_path / "data") as made:
        yield made


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Makes rooms with other limits."""
    with ExitStack() as stack:
        count = iter(range(100))
        yield lambda **limits: stack.enter_context(staged(tmp_path / str(next(count)), **limits))
