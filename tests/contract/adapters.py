"""The adapters under test. An adapter joins the suite by one line in ADAPTERS."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from shared.executor import filegrant
from shared.store.local import open_local
from shared.store.ports import Grant, ObjectExists, Objects, State

from . import http

if TYPE_CHECKING:
    from tests.ministack import Ministack

T = TypeVar("T")
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


def _emulator() -> Ministack:
    # boto3 takes half a second to import: a child that works on the local stores is spared it.
    from tests import ministack  # noqa: PLC0415

    return ministack.shared()


@contextlib.contextmanager
def _aws(folder: Path) -> Iterator[Store]:
    """A table and a bucket named after the folder, in the emulator of this process or of its parent."""
    from shared.store.aws import open_aws  # noqa: PLC0415

    aws = _emulator()
    name = f"t{hashlib.sha256(bytes(folder)).hexdigest()[:40]}"
    store = open_aws(aws.clients(), aws.table(name), aws.bucket(name))
    yield store.state, store.objects


ADAPTERS: dict[str, Opener] = {
    "aws": _aws,
    "local": _local,
}


REMOTE = {"aws"}
"""Adapters whose every call is a request: milliseconds of two processes, and a second for a child to be ready."""


def rounds(adapter: str, whole: int, remote: int) -> int:
    """How often a test does a thing: `whole`, or `remote` for a remote adapter."""
    return remote if adapter in REMOTE else whole


def cases(adapter: str, whole: Sequence[T], remote: int) -> Sequence[T]:
    """All cases, or for a remote adapter `remote` of them, drawn the same in every run."""
    return random.Random(len(whole)).sample(whole, remote) if adapter in REMOTE else whole


def environment(adapter: str) -> dict[str, str]:
    """What a child process needs in order to open the same stores."""
    return _emulator().environment() if adapter == "aws" else {}


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
