"""The adapters under test. An adapter joins the suite by one line in ADAPTERS."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from shared.executor import filegrant
from shared.store.local import open_local
from shared.store.ports import Grant, ObjectExists, Objects, State

Store = tuple[State, Objects]
Opener = Callable[[Path], AbstractContextManager[Store]]
"""Opens the stores that belong to a folder of the test: the same ones each time, from any process."""


@contextlib.contextmanager
def _local(folder: Path) -> Iterator[Store]:
    store = open_local(folder / "data")
    try:
        yield store.state, store.objects
    finally:
        store.close()


ADAPTERS: dict[str, Opener] = {
    "local": _local,
}


def fetch(grant: Grant, start: int = 0, length: int | None = None) -> bytes:
    """What an executor reads by a grant."""
    assert grant.method == "GET"
    return b"".join(filegrant.read(grant.url, start, length))


def create(grant: Grant, chunks: Iterable[bytes]) -> tuple[int, str]:
    """What an executor creates by a grant: size and digest. ObjectExists where the key is taken."""
    assert grant.method == "PUT"
    try:
        return filegrant.create(grant.url, chunks)
    except FileExistsError as error:
        raise ObjectExists from error
