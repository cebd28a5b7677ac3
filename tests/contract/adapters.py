"""The adapters under test. An adapter joins the suite by one line in ADAPTERS."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from shared.executor import filegrant
from shared.store.aws import open_aws
from shared.store.local import open_local
from shared.store.ports import Grant, ObjectExists, Objects, State
from tests import ministack

from . import http

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


@contextlib.contextmanager
def _aws(folder: Path) -> Iterator[Store]:
    """A table and a bucket named after the folder, in the emulator of this process or of its parent."""
    aws = ministack.shared()
    name = f"t{hashlib.sha256(bytes(folder)).hexdigest()[:40]}"
    store = open_aws(aws.clients(), aws.table(name), aws.bucket(name))
    yield store.state, store.objects


ADAPTERS: dict[str, Opener] = {
    "aws": _aws,
    "local": _local,
}


def environment(adapter: str) -> dict[str, str]:
    """What a child process needs in order to open the same stores."""
    return ministack.shared().environment() if adapter == "aws" else {}


def fetch(grant: Grant, start: int = 0, length: int | None = None) -> bytes:
    """What an executor reads by a grant."""
    assert grant.method == "GET"
    if grant.url.startswith("http"):
        return http.fetch(grant.url, start, length)
    return b"".join(filegrant.read(grant.url, start, length))


def create(grant: Grant, chunks: Iterable[bytes]) -> tuple[int, str]:
    """What an executor creates by a grant: size and digest. ObjectExists where the key is taken."""
    assert grant.method == "PUT"
    if grant.url.startswith("http"):
        return http.create(grant.url, chunks)
    try:
        return filegrant.create(grant.url, chunks)
    except FileExistsError as error:
        raise ObjectExists from error
