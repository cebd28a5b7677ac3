"""One deployment for all tests beside this file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.caller import Api
from tests.e2e.stack import Stack, running


@pytest.fixture(scope="session", name="stack")
def _stack() -> Iterator[Stack]:
    """The template, deployed."""
    with running() as stack:
        yield stack


@pytest.fixture(scope="session", name="api")
def _api(stack: Stack) -> Iterator[Api]:
    """A caller of the HTTP API."""
    with Api(stack.url, stack.make_key("main")) as api:
        yield api


@pytest.fixture(scope="session", name="stranger")
def _stranger(stack: Stack) -> Iterator[Api]:
    """A caller of another project."""
    with Api(stack.url, stack.make_key("other")) as api:
        yield api
