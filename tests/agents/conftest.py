"""Services for the suite of the Agents API: those of the wire suite, at each front door."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import openai
import pytest

from shared.limits import Limits
from tests.agents.asking import Asker
from tests.agents.engines import TABLE
from tests.agents.talking import Talk, Things
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


@pytest.fixture(scope="session")
def talk(tmp_path_factory: pytest.TempPathFactory, door: Door) -> Iterator[Talk]:
    """A service with the default limits and the engine of the tests, spoken to by the first project."""
    room = open_test_room(tmp_path_factory.mktemp(f"talk-{door}"), Limits(), Scripted())
    with serving(replace(room, engines=TABLE), door=door) as running:
        yield Talk(Asker(running), running.key)


@pytest.fixture(scope="session")
def stranger(talk: Talk) -> Talk:
    """The second project."""
    return Talk(talk.asker, talk.asker.service.other_key)


@pytest.fixture(scope="session")
def things(talk: Talk) -> Things:
    """Things of the first project, that no test changes."""
    return Things.made(talk)


@pytest.fixture(scope="session")
def foreign(stranger: Talk) -> Things:
    """Things of the second project."""
    return Things.made(stranger)


@pytest.fixture
def sdk(talk: Talk) -> Iterator[openai.OpenAI]:
    """The official client of the first project, in strict response validation. It sends nothing again."""
    with openai.OpenAI(
        api_key=talk.key,
        base_url=f"{talk.asker.service.url}/v1",
        max_retries=0,
        timeout=30,
        _strict_response_validation=True,
    ) as made:
        yield made
