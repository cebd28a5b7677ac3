"""A service with a scripted executor, and the command as a function: what it wrote and how it ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from functions.cli.main import main
from shared.limits import Limits
from shared.settings import Settings
from tests.wire.scripted import Scripted
from tests.wire.service import Service, open_test_room, serving


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    out: bytes
    err: str


MACHINE_CACHE = os.environ.get("WORKROOM_CACHE", str(Settings().cache))
"""Where the machine's toolchains lie: for the few tests that run real programs."""

Workroom = Callable[..., Ended]


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(open_test_room(tmp_path_factory.mktemp("cli-data"), Limits(), Scripted())) as running:
        yield running


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine, and a folder of its own."""
    for name in [name for name in os.environ if name.startswith("WORKROOM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WORKROOM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("WORKROOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def local(capfdbinary: pytest.CaptureFixture[bytes]) -> Workroom:
    """The command on a data folder of its own."""

    def run(*words: str) -> Ended:
        code = main(words)
        caught = capfdbinary.readouterr()
        return Ended(code, caught.out, caught.err.decode())

    return run


@pytest.fixture
def remote(local: Workroom, service: Service, monkeypatch: pytest.MonkeyPatch) -> Workroom:
    """The command with the address and the key of the service."""
    monkeypatch.setenv("WORKROOM_URL", service.url)
    monkeypatch.setenv("WORKROOM_KEY", service.key)
    return local
