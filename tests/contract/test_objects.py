"""The object port, sentence by sentence (shared/store/ports.py)."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from shared.store.ports import DigestMismatch, ObjectExists, ObjectMissing, Objects

from .adapters import cases, create, fetch
from .threads import THREADS, race


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _put(objects: Objects, key: str, body: bytes = b"bytes") -> None:
    objects.put_new(key, body, _digest(body))


def _read(objects: Objects, key: str, start: int = 0, length: int | None = None) -> bytes:
    return b"".join(objects.read(key, start, length))


def _keys(objects: Objects, prefix: str = "", after: str | None = None, limit: int = 1000) -> list[str]:
    return [info.key for info in objects.list(prefix, after=after, limit=limit)]


@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 5000], ids=["empty", "one", "1.28 MB"])
def test_what_was_put_is_read(objects: Objects, body: bytes) -> None:
    before = time.time()
    _put(objects, "p/s/a", body)
    assert _read(objects, "p/s/a") == body
    info = objects.head("p/s/a")
    assert info is not None
    assert (info.key, info.size) == ("p/s/a", len(body))
    assert before - 2 <= info.modified <= time.time() + 2
    assert info.sha256 in (None, _digest(body))
    (listed,) = objects.list("")
    assert listed.sha256 in (None, info.sha256)
    assert replace(listed, sha256=info.sha256) == info


def test_a_key_is_never_put_twice(objects: Objects) -> None:
    _put(objects, "p/a", b"first")
    for body in (b"first", b"second"):
        with pytest.raises(ObjectExists):
            _put(objects, "p/a", body)
        with objects.stage() as stage:
            stage.write(body)
            with pytest.raises(ObjectExists):
                stage.commit("p/a")
        with pytest.raises(ObjectExists):
            create(objects.grant_write("p/a", seconds=60), [body])
    assert _read(objects, "p/a") == b"first"
    assert _keys(objects) == ["p/a"]


@pytest.mark.parametrize("claim", ["0" * 64, "", _digest(b"bytes").upper(), _digest(b"bytes")[:-1], "\u0661" * 64])
def test_bytes_of_another_digest_are_not_stored(objects: Objects, claim: str) -> None:
    with pytest.raises(DigestMismatch):
        objects.put_new("p/a", b"bytes", claim)
    assert objects.head("p/a") is None
    _put(objects, "p/a")
    with pytest.raises(DigestMismatch):
        objects.put_new("p/a", b"bytes", claim)


def test_a_missing_object_is_told_before_the_first_piece(objects: Objects) -> None:
    _put(objects, "p/s/a")
    for key in ("p/s/b", "p/s", "p", "p/s/a/b", "q"):
        with pytest.raises(ObjectMissing):
            objects.read(key)
        assert objects.head(key) is None
        objects.delete(key)
    assert _keys(objects) == ["p/s/a"]


def test_a_range_is_what_a_slice_is(objects: Objects) -> None:
    body = os.urandom(2_500_000)
    _put(objects, "p/a", body)
    for start in (0, 1, 1_048_575, 1_048_576, 2_499_999, 2_500_000, 2_500_001, 10**12):
        assert _read(objects, "p/a", start) == body[start:]
        for length in (0, 1, 4096, 1_048_576, 1_048_577, 10**12):
            assert _read(objects, "p/a", start, length) == body[start : start + length]
    with pytest.raises(ValueError, match="negative"):
        objects.read("p/a", -1)
    with pytest.raises(ValueError, match="negative"):
        objects.read("p/a", 0, -1)


def test_a_reading_goes_on_when_the_object_is_deleted(objects: Objects) -> None:
    body = os.urandom(3_000_000)
    _put(objects, "p/a", body)
    pieces = objects.read("p/a")
    first = next(pieces)
    objects.delete("p/a")
    assert first + b"".join(pieces) == body
    assert objects.head("p/a") is None


def test_a_stage_counts_and_hashes_as_it_is_written(objects: Objects) -> None:
    with objects.stage() as stage:
        assert (stage.size, stage.sha256) == (0, _digest(b""))
        body = b""
        for piece in (b"abc", b"", b"d" * 100_000):
            stage.write(piece)
            body += piece
            assert (stage.size, stage.sha256) == (len(body), _digest(body))
        assert _keys(objects) == []
        assert objects.head("p/a") is None
        stage.commit("p/a")
        assert _read(objects, "p/a") == body
    assert _read(objects, "p/a") == body
    assert _keys(objects) == ["p/a"]


def test_a_stage_that_is_not_committed_leaves_nothing(objects: Objects) -> None:
    with objects.stage() as stage:
        stage.write(b"bytes")
    with contextlib.suppress(RuntimeError), objects.stage() as stage:
        stage.write(b"bytes")
        raise RuntimeError
    assert _keys(objects) == []
    with pytest.raises(ValueError, match="closed"):
        stage.commit("p/a")
    with pytest.raises(ValueError, match="closed"):
        stage.write(b"more")


def test_an_empty_stage_is_an_empty_object(objects: Objects) -> None:
    with objects.stage() as stage:
        stage.commit("p/a")
    assert _read(objects, "p/a") == b""


def test_many_stages_are_open_at_once(objects: Objects) -> None:
    stages = [objects.stage() for _ in range(20)]
    for number, stage in enumerate(stages):
        with stage:
            stage.write(bytes([number]))
            stage.commit(f"p/{number}")
    assert {key: _read(objects, key) for key in _keys(objects)} == {f"p/{n}": bytes([n]) for n in range(20)}


def test_a_large_object_passes_in_little_memory(objects: Objects) -> None:
    piece, times = os.urandom(262_144), 96
    expected = hashlib.sha256(piece * times).hexdigest()
    tracemalloc.start()
    try:
        with objects.stage() as stage:
            for _ in range(times):
                stage.write(piece)
            stage.commit("p/large")
            assert stage.sha256 == expected
        digest = hashlib.sha256()
        for part in objects.read("p/large"):
            assert len(part) <= 1 << 20
            digest.update(part)
        written = create(objects.grant_write("p/granted", seconds=60), (piece for _ in range(times)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert digest.hexdigest() == expected
    assert written == (times * len(piece), expected)
    assert times * len(piece) >= 24 << 20
    assert peak < 4 << 20


def test_one_of_32_puts_of_a_key_wins(objects: Objects) -> None:
    def attempt(index: int, key: str) -> bool:
        body = b"%d" % index * 1000
        try:
            if index % 3 == 0:
                _put(objects, key, body)
            elif index % 3 == 1:
                with objects.stage() as stage:
                    stage.write(body)
                    stage.commit(key)
            else:
                create(objects.grant_write(key, seconds=60), [body])
        except ObjectExists:
            return False
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(12):
            key = f"p/{number}/a"
            won = race(pool, partial(attempt, key=key))
            assert won.count(True) == 1
            assert _read(objects, key) == b"%d" % won.index(True) * 1000
    assert len(_keys(objects)) == 12


def test_a_put_that_races_with_deletions_is_whole_or_deleted(objects: Objects) -> None:
    """Deletions take folders away under those who put; what was put is counted by a deletion, at most by both."""
    puts = 15

    def work(index: int) -> int:
        if index < 2:
            return sum(objects.delete_prefix("p/s/") for _ in range(60))
        for number in range(puts):
            _put(objects, f"p/s/{index}/{number}")
        return 0

    with ThreadPoolExecutor(6) as pool:
        deleted = sum(race(pool, work, threads=6))
    left = _keys(objects, "p/s/")
    assert 4 * puts <= deleted + len(left) <= 2 * 4 * puts
    assert all(_read(objects, key) == b"bytes" for key in left)
    assert objects.delete_prefix("p/s/") == len(left)
    assert _keys(objects) == []


ODD = [
    "", "/", "a/", "/a", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "a.b", "a b", "a\x00b", "a\n", "\na",
    "a%2fb", "..%2f..%2fetc", "a\\b", "é", "\u0661", "\uff41", "a\udcff", "~", "*", "a" * 513, "a/" * 256 + "a",
    "a" * 10_000, "/etc/passwd", "../" * 20 + "etc/passwd", "a/b.o", "a.d/b", "x.part", "../staging/x",
]  # fmt: skip


def _check_odd(objects: Objects, key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        _put(objects, key)
    with pytest.raises(ValueError, match="key"):
        objects.grant_write(key, seconds=60)
    with objects.stage() as stage, pytest.raises(ValueError, match="key"):
        stage.commit(key)
    with pytest.raises(ObjectMissing):
        objects.read(key)
    with pytest.raises(ObjectMissing):
        objects.grant_read(key, seconds=60)
    assert objects.head(key) is None
    objects.delete(key)
    if key not in ("", "a/"):
        assert _keys(objects, key) == []
    if not key.endswith("/"):
        with pytest.raises(ValueError, match="prefix"):
            objects.delete_prefix(key)
    elif key != "a/":
        assert objects.delete_prefix(key) == 0


def test_what_is_not_a_key_is_refused_or_missing(objects: Objects) -> None:
    _put(objects, "a/b")
    _put(objects, "a/c")
    for key in ODD:
        _check_odd(objects, key)
        assert _keys(objects) == ["a/b", "a/c"], ascii(key)


LONG = [
    "x" * 512, "x" * 199, "x" * 200, "x" * 201, "x" * 200 + "/y", "x" * 200 + "-", "x" * 200 + "0", "x" * 199 + "/y",
    "x" * 400, "x" * 401, "x" * 400 + "/" + "y" * 111, "x" * 255, "x" * 256, "a/" * 255 + "ab", "y/" * 100 + "x" * 312,
]  # fmt: skip
KEYS = [
    "a", "a/b", "a/b/c", "a/b-c", "a/b0", "a/b_", "a-", "a-/z", "a0", "a0/z", "a_", "aa", "A", "A/b", "Z", "_", "-",
    "0", "0/0", "b", "b/a", "b/b", "b/c", "a/B", "a/bb", "a/b/-", "a/b/0", "a/b/d/e/f", "p/s/1", "p/s/10", "p/s/2",
    "p/s2/1", *LONG,
]  # fmt: skip
"""Keys that are the beginning of others, around '/' ('-' sorts before, '0' after), and longer than a file name."""


def test_keys_that_begin_alike_are_objects_of_their_own(objects: Objects) -> None:
    for key in KEYS:
        _put(objects, key, key.encode())
    for key in KEYS:
        assert _read(objects, key) == key.encode()
    for key in KEYS[::2]:
        objects.delete(key)
        assert objects.head(key) is None
    assert _keys(objects) == sorted(KEYS[1::2])


def test_a_list_is_in_bytewise_order_within_prefix_after_and_limit(objects: Objects, adapter: str) -> None:
    for key in KEYS:
        _put(objects, key, b"")
    prefixes = [
        "",
        "a",
        "a/",
        "a/b",
        "a/b/",
        "a/b0",
        "p/s",
        "p/s/1",
        "x",
        "x" * 200,
        "x" * 201,
        "x" * 200 + "/",
        "n",
        "y/y",
    ]
    odd = [None, "", ".", "a/b/", "a/b.", "a/zz", "zz", "x" * 300, "a/\x00", "a\n", "a/\udcff", "aé", "a~", "x" * 2000]
    for prefix, after in cases(adapter, list(itertools.product(prefixes, [*odd, *KEYS])), 150):
        expected = sorted(key for key in KEYS if key.startswith(prefix) and (after is None or key > after))
        assert _keys(objects, prefix, after) == expected
        assert _keys(objects, prefix, after, 2) == expected[:2]


def test_pages_that_follow_each_other_give_every_object_once(objects: Objects) -> None:
    for key in KEYS:
        _put(objects, key, b"")
    seen: list[str] = []
    while page := _keys(objects, "", seen[-1] if seen else None, 5):
        seen += page
    assert seen == sorted(KEYS)
    for limit in (0, 1001):
        with pytest.raises(ValueError, match="limit"):
            objects.list("", limit=limit)


def test_delete_prefix_takes_what_is_below_and_nothing_beside(objects: Objects) -> None:
    for key in KEYS:
        _put(objects, key, b"")
    below = [key for key in KEYS if key.startswith("a/b/")]
    assert objects.delete_prefix("a/b/") == len(below) == 4
    assert _keys(objects) == sorted(set(KEYS) - set(below))
    long = "x" * 200 + "/"
    assert objects.delete_prefix(long) == 1
    assert _keys(objects, "x" * 200) == sorted(key for key in KEYS if key.startswith("x" * 200) and key != long + "y")
    assert objects.delete_prefix("a/b/") == 0
    assert objects.delete_prefix("unknown/") == 0
    _put(objects, "a/b/c", b"again")
    assert _read(objects, "a/b/c") == b"again"


def test_a_deleted_key_can_be_put_again(objects: Objects) -> None:
    _put(objects, "p/a", b"one")
    objects.delete("p/a")
    objects.delete("p/a")
    _put(objects, "p/a", b"two")
    assert _read(objects, "p/a") == b"two"


def test_a_grant_reads_one_object_in_ranges(objects: Objects) -> None:
    body = os.urandom(1_500_000)
    _put(objects, "p/a", body)
    grant = objects.grant_read("p/a", seconds=60)
    assert abs(grant.expires_at - time.time() - 60) < 5
    assert fetch(grant) == body
    assert fetch(grant, 1_000_000) == body[1_000_000:]
    assert fetch(grant, 5, 7) == body[5:12]
    assert fetch(grant, 1_499_999, 10) == body[-1:]


def test_a_grant_creates_one_object_once(objects: Objects) -> None:
    grant = objects.grant_write("p/new/a", seconds=60)
    assert abs(grant.expires_at - time.time() - 60) < 5
    assert objects.head("p/new/a") is None
    assert create(grant, [b"ab", b"", b"cd"]) == (4, _digest(b"abcd"))
    assert _read(objects, "p/new/a") == b"abcd"
    info = objects.head("p/new/a")
    assert info is not None
    assert info.size == 4
    # An executor's digest is a claim, which the store does not vouch for.
    assert info.sha256 is None
    with pytest.raises(ObjectExists):
        create(grant, [b"other"])
    with pytest.raises(ObjectExists):
        _put(objects, "p/new/a")
    assert _read(objects, "p/new/a") == b"abcd"
    assert _keys(objects) == ["p/new/a"]


def test_a_creation_that_breaks_off_leaves_nothing(objects: Objects) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("broken off")

    grant = objects.grant_write("p/a", seconds=60)
    with pytest.raises(RuntimeError, match="broken off"):
        create(grant, broken())
    assert _keys(objects) == []
    assert create(grant, [b"whole"]) == (5, _digest(b"whole"))
