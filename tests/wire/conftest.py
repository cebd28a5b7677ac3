"""The services that the wire suite drives, behind each front door.

A test that asks for `door`, or for a service, runs once for each of DOORS. One that only some of them can pass says
which, and why, by a mark: `@pytest.mark.doors("local", why="…")`. With TEST_STORE=aws the suite runs behind the HTTP
API alone, on DynamoDB and S3 of the emulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.limits import KIB, Limits
from tests.wire.scripted import Scripted
from tests.wire.service import DOORS, ON_AWS, Door, Service, open_test_room, serving


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line("markers", "doors(*names, why): the front doors at which a test holds, and why not at all")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each door."""
    if "door" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("doors")
    doors: tuple[Any, ...] = mark.args if mark else DOORS
    assert mark is None or (set(doors) < set(DOORS) and len(mark.kwargs["why"].split()) > 2), metafunc.definition
    if ON_AWS:
        doors = tuple(name for name in doors if name == "http-api")
    metafunc.parametrize("door", doors, indirect=True, scope="session")


@pytest.fixture(scope="session")
def door(request: pytest.FixtureRequest) -> Door:
    """The front door."""
    found: Door = request.param
    return found


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory, door: Door) -> Path:
    """The data folder of `service`."""
    return tmp_path_factory.mktemp(f"data-{door}")


@pytest.fixture(scope="session")
def service(data_folder: Path, door: Door) -> Iterator[Service]:
    """A service with the default limits and a scripted executor."""
    with serving(open_test_room(data_folder, Limits(), Scripted()), door=door) as running:
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
def small_folder(tmp_path_factory: pytest.TempPathFactory, door: Door) -> Path:
    """The data folder of `small`."""
    return tmp_path_factory.mktemp(f"small-{door}")


@pytest.fixture(scope="module")
def small(small_folder: Path, door: Door) -> Iterator[Service]:
    """A service with small limits."""
    with serving(open_test_room(small_folder, SMALL, Scripted()), door=door) as running:
        yield running
