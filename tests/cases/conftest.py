"""Services of all tests beside this file: one with the default limits, one with small ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.cases.door import Service, served


@pytest.fixture(scope="package", name="service")
def _service() -> Iterator[Service]:
    """`workroom serve` with its defaults."""
    with served() as service:
        yield service


@pytest.fixture(scope="package", name="small")
def _small() -> Iterator[Service]:
    """The same service with the limits of `tests.cases.small`."""
    with served((sys.executable, "-m", "tests.cases.small")) as service:
        yield service
