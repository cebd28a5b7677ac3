"""The services that the wire suite drives. Nothing here is specific to one front door but `serving`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.limits import KIB, Limits
from tests.wire.scripted import Scripted
from tests.wire.service import Service, open_test_room, serving


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of `service`."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def service(data_folder: Path) -> Iterator[Service]:
    """A service with the default limits and a scripted executor."""
    with serving(open_test_room(data_folder, Limits(), Scripted())) as running:
        yield running


SMALL = Limits(
    body_bytes=256 * KIB,
    code_bytes=64 * KIB,
    args_bytes=1_000,
    upload_bytes=200_000,
    workspace_bytes=500_000,
    batch_files=5,
    run_queue=3,
    run_files=10,
    lock_wait_ms=3_000,
)


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of `small`."""
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="module")
def small(small_folder: Path) -> Iterator[Service]:
    """A service with small limits."""
    with serving(open_test_room(small_folder, SMALL, Scripted())) as running:
        yield running
