"""These tests are of a built image, which takes minutes to build: `make image-test` and `make test-all` run them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip them elsewhere, and say so: an image may be there that is not of this code."""
    if os.environ.get("TEST_ALL") == "1":
        return
    skipped = pytest.mark.skip(reason="the executor's image: `make image-test` builds it and tests in it")
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(skipped)
