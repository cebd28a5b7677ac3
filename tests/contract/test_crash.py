"""kill -9 at any moment: what was acknowledged is there, what was not is all there or not at all."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from shared.store.ports import ObjectExists, Objects, State

from .adapters import ADAPTERS, rounds
from .children import ITEMS, WRITERS, body_of, killed

KILLS = 14
REMOTE_KILLS = 4


def _all(state: State, partition: str) -> list[str]:
    found: list[str] = []
    while page := state.query(partition, after=found[-1] if found else None, limit=1000):
        found += [item.sort for item in page]
    return found


def _check_items(state: State, number: int, said: list[str]) -> None:
    acknowledged = dict.fromkeys(range(WRITERS), 0)
    for line in said:
        writer, step = map(int, line.split())
        acknowledged[writer] = step + 1
    for writer, least in acknowledged.items():
        partition = f"{number}-{writer}"
        counter = state.get(partition, "n")
        steps = 0 if counter is None else counter.attributes["steps"]
        assert steps - least in (0, 1), "an acknowledged transaction is lost, or one nobody sent is there"
        assert counter is None or counter.version == steps
        whole = [f"{step:06}-{item}" for step in range(steps) for item in range(ITEMS)]
        assert _all(state, partition) == whole + (["n"] if steps else [])


def test_a_killed_writer_leaves_every_acknowledged_transaction_and_no_half_one(adapter: str, tmp_path: Path) -> None:
    draw = random.Random(20)
    total = 0
    kills = rounds(adapter, KILLS, REMOTE_KILLS)
    for number in range(kills):
        lines = draw.randint(1, 60)
        said = killed(adapter, tmp_path, "items", number, lines=lines, seconds=draw.uniform(0, 0.006))
        assert len(said) >= lines
        total += len(said)
        with ADAPTERS[adapter](tmp_path) as (state, _):
            _check_items(state, number, said)
    assert total >= kills


def _check_objects(objects: Objects, number: int, said: list[str]) -> None:
    there = [info.key for info in objects.list(f"{number}/")]
    assert set(said) <= set(there), "an acknowledged object is lost"
    assert len(there) - len(said) in (0, 1)
    for key in there:
        body = body_of(key)
        info = objects.head(key)
        assert info is not None
        assert info.size == len(body)
        assert b"".join(objects.read(key)) == body
        with pytest.raises(ObjectExists):
            objects.put_new(key, b"other", hashlib.sha256(b"other").hexdigest())
    key = f"{number}/{len(there):06}/object"
    objects.put_new(key, b"next", hashlib.sha256(b"next").hexdigest())
    assert b"".join(objects.read(key)) == b"next"


def test_a_killed_writer_leaves_every_acknowledged_object_and_no_half_one(adapter: str, tmp_path: Path) -> None:
    draw = random.Random(21)
    kills = rounds(adapter, KILLS, REMOTE_KILLS)
    for number in range(kills):
        lines = draw.randint(1, 12)
        said = killed(adapter, tmp_path, "objects", number, lines=lines, seconds=draw.uniform(0, 0.01))
        assert len(said) >= lines
        with ADAPTERS[adapter](tmp_path) as (_, objects):
            _check_objects(objects, number, said)
