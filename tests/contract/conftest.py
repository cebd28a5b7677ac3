"""Each test of the suite runs once for each adapter, on stores of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.store.aws import Clients, DynamoState, S3Objects, make_clients
from shared.store.ports import Objects, State
from tests.faults.proxy import Proxy
from tests.ministack import shared

from .adapters import ADAPTERS, Store
from .room import BUDGET, WAIT, Room


@pytest.fixture(params=sorted(ADAPTERS))
def adapter(request: pytest.FixtureRequest) -> str:
    """The adapter's name."""
    return str(request.param)


@pytest.fixture
def store(adapter: str, tmp_path: Path) -> Iterator[Store]:
    """Both ports, empty."""
    with ADAPTERS[adapter](tmp_path) as opened:
        yield opened


@pytest.fixture
def state(store: Store) -> State:
    """The state port, empty."""
    return store[0]


@pytest.fixture
def objects(store: Store) -> Objects:
    """The object port, empty."""
    return store[1]


@pytest.fixture(scope="session")
def road() -> Iterator[tuple[Proxy, Clients]]:
    """The proxy and the clients that go through it."""
    aws = shared()
    with Proxy(aws.endpoint) as proxy:
        clients = make_clients(
            session=aws.session(), endpoint=proxy.endpoint, state_read_seconds=WAIT, objects_read_seconds=WAIT
        )
        try:
            yield proxy, clients
        finally:
            clients.close()


@pytest.fixture
def room(road: tuple[Proxy, Clients], tmp_path: Path) -> Room:
    """Stores of their own."""
    aws = shared()
    proxy, clients = road
    proxy.reset()
    name = f"f{hashlib.sha256(bytes(tmp_path)).hexdigest()[:40]}"
    table, bucket = aws.table(name), aws.bucket(name)
    plain = aws.clients()
    return Room(
        proxy,
        DynamoState(clients.dynamodb, table, seconds=BUDGET),
        S3Objects(clients.s3, bucket, seconds=BUDGET),
        DynamoState(plain.dynamodb, table),
        S3Objects(plain.s3, bucket),
    )
