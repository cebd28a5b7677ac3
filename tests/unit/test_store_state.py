"""What is SQLite's own in the state adapter: the file, its schema, its errors, its connections."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.store.local import open_local
from shared.store.local.state import SCHEMA, SqliteState, UnknownSchema
from shared.store.ports import Conflict, Item, PutIf, PutNew, StoreUnavailable


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _open_files(path: Path) -> int:
    names = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.readlink(name).startswith(str(path)) for name in names if os.path.lexists(name))


def test_the_folder_and_its_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = open_local(tmp_path / "new" / "data")
        store.state.transact([PutNew("p", "a", {})])
        store.objects.grant_write("p/a", seconds=1)
        with store.objects.stage() as stage:
            stage.commit("p/s/a")
    finally:
        os.umask(old)
    data = tmp_path / "new" / "data"
    found = {path.relative_to(data): _mode(path) for path in [data, *data.rglob("*")]}
    assert len(found) > 8
    for path, mode in found.items():
        assert mode == (0o700 if (data / path).is_dir() else 0o600), path
    store.close()


def test_a_folder_that_is_ours_becomes_private_again(tmp_path: Path) -> None:
    open_local(tmp_path).close()
    tmp_path.chmod(0o777)
    (tmp_path / "state.sqlite").chmod(0o644)
    open_local(tmp_path).close()
    assert _mode(tmp_path) == 0o700
    assert _mode(tmp_path / "state.sqlite") == 0o600


def test_a_folder_with_other_files_keeps_its_mode_and_is_refused_when_others_may_write(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    tmp_path.chmod(0o755)
    open_local(tmp_path).close()
    assert _mode(tmp_path) == 0o755
    for name in os.listdir(tmp_path):
        if name.startswith("state"):
            (tmp_path / name).unlink()
    tmp_path.chmod(0o777)
    with pytest.raises(StoreUnavailable, match="written by others"):
        open_local(tmp_path)


def test_what_was_written_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    for number in range(3):
        state = SqliteState(path)
        assert len(state.query("p")) == number
        state.transact([PutNew("p", str(number), {"n": number})])
        state.close()


def test_a_later_schema_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    SqliteState(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(UnknownSchema, match=rf"schema {SCHEMA + 1}; .*schema {SCHEMA} only"):
        SqliteState(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(UnknownSchema, match="another program"):
        SqliteState(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 100)
    with pytest.raises(StoreUnavailable):
        SqliteState(path)


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable):
        SqliteState(tmp_path / "file" / "state.sqlite")
    with pytest.raises(StoreUnavailable):
        open_local(tmp_path / "file")


def test_a_corrupt_page_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = SqliteState(path, idle=0)  # each call reads the file, none a page that it has in memory
    for start in range(0, 500, 100):
        state.transact([PutNew("p", f"{start + n:04}", {"t": "x" * 500}) for n in range(100)])
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(StoreUnavailable):
        state.query("p")
    with pytest.raises(StoreUnavailable):
        state.get("p", "0001")
    with pytest.raises(StoreUnavailable):
        state.transact([PutNew("p", "0001", {})])
    state.close()
    with pytest.raises(StoreUnavailable):
        SqliteState(path)


@pytest.mark.parametrize("text", ["", "[]", "{", "1", None, b"{}"], ids=repr)
def test_an_item_that_cannot_be_interpreted_is_unavailable(tmp_path: Path, text: object) -> None:
    state = SqliteState(tmp_path / "state.sqlite")
    state.transact([PutNew("p", "a", {})])
    db = sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)
    db.execute("UPDATE items SET attributes = ?", (text if text is not None else "null",))
    db.close()
    with pytest.raises(StoreUnavailable):
        state.get("p", "a")
    with pytest.raises(StoreUnavailable):
        state.query("p")
    state.close()


def test_a_state_file_that_was_taken_away_is_not_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = SqliteState(path, idle=0)
    path.unlink()
    with pytest.raises(StoreUnavailable):
        state.get("p", "a")
    assert not path.exists()
    state.close()


@pytest.mark.parametrize("holder", ["flock", "sqlite"])
def test_waiting_for_another_process_ends_with_unavailable(tmp_path: Path, holder: str) -> None:
    path = tmp_path / "state.sqlite"
    state = SqliteState(path, wait_seconds=0.3)
    state.transact([PutNew("p", "a", {})])
    # Another process is another open file description (flock) or another program on the file (SQLite's own lock).
    other = sqlite3.connect(path, isolation_level=None)
    gate = os.open(f"{path}-lock", os.O_RDWR)
    if holder == "flock":
        fcntl.flock(gate, fcntl.LOCK_EX)
    else:
        other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        state.transact([PutIf("p", "a", 1, {})])
    assert 0.2 < time.monotonic() - started < 5
    assert state.get("p", "a") == Item("p", "a", 1, {})
    os.close(gate)
    other.close()
    assert state.transact([PutIf("p", "a", 1, {})]) == [2]
    state.close()


def test_two_stores_of_one_process_on_one_file_lose_nothing(tmp_path: Path) -> None:
    stores = [SqliteState(tmp_path / "state.sqlite") for _ in range(2)]
    stores[0].transact([PutNew("p", "n", {"n": 0})])

    def count(state: SqliteState) -> None:
        done = 0
        while done < 100:
            item = state.get("p", "n")
            assert item is not None
            try:
                state.transact([PutIf("p", "n", item.version, {"n": item.attributes["n"] + 1})])
                done += 1
            except Conflict:
                continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, stores * 2))
    assert stores[0].get("p", "n") == stores[1].get("p", "n") == Item("p", "n", 401, {"n": 400})
    for state in stores:
        state.close()


def test_connections_do_not_grow_with_the_threads_that_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = SqliteState(path, idle=3)
    for _ in range(10):
        threads = [threading.Thread(target=state.query, args=("p",)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    # The gate, the index of the log, three logs; SQLite keeps the file's descriptor of a connection that was closed
    # for the next one, so there are as many of them as connections at once, whatever the number of threads.
    assert _open_files(path) <= 1 + 1 + 3 + 20
    state.close()
    assert _open_files(path) == 0


def test_a_closed_store_is_unavailable(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.sqlite")
    state.close()
    state.close()
    with pytest.raises(StoreUnavailable):
        state.get("p", "a")
    with pytest.raises(StoreUnavailable):
        state.transact([PutNew("p", "a", {})])


def test_every_connection_is_durable_at_each_commit(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.sqlite")
    with state._connection() as one, state._connection() as two:
        for db in (one, two):
            assert db.execute("PRAGMA synchronous").fetchone() == (2,)
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    state.close()


def test_a_transaction_that_raises_leaves_no_lock_and_no_row(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.sqlite", wait_seconds=1)
    with contextlib.suppress(KeyboardInterrupt), state._transaction() as db:
        db.execute("INSERT INTO items VALUES (x'70', x'61', 1, '{}', NULL)")
        raise KeyboardInterrupt
    assert state.get("p", "a") is None
    assert state.transact([PutNew("p", "a", {})]) == [1]
    state.close()


def test_the_sweep_takes_what_lies_before_now_in_as_many_batches_as_it_needs(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.sqlite")
    for start in range(0, 1200, 100):
        state.transact([PutNew("old", f"{start + n:04}", {}, expires_at=n % 100) for n in range(100)])
    state.transact([PutNew("p", str(at), {}, expires_at=at) for at in (99, 100, 101)] + [PutNew("p", "never", {})])
    assert state.query("p")[0].sort == "100", "an expired item is there until it is swept"
    assert state.sweep(-(10**30)) == 0
    assert state.sweep(100) == 1201
    assert [item.sort for item in state.query("p")] == ["100", "101", "never"]
    assert state.query("old") == []
    assert state.sweep(10**30) == 2
    state.close()


FULL = """
import resource, sys
from pathlib import Path
from shared.store.local.state import SqliteState
from shared.store.ports import PutNew, StoreUnavailable
state = SqliteState(Path(sys.argv[1]))
state.transact([PutNew("p", "first", {})])
resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, resource.RLIM_INFINITY))
done = 0
try:
    while done < 1000:
        state.transact([PutNew("p", f"{done:04}-{n}", {"t": "x" * 200_000}) for n in range(3)])
        done += 1
except StoreUnavailable:
    pass
try:
    state.transact([PutNew("p", f"z-{n}", {"t": "x" * 300_000}) for n in range(9)])
    print("no error")
except StoreUnavailable:
    pass
assert state.get("p", "first") is not None
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
state.transact([PutNew("p", "last", {})])
print(done)
"""


def test_a_disk_that_is_full_is_unavailable_and_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the write fails in the middle of a transaction."""
    path = tmp_path / "state.sqlite"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", FULL, str(path)]
    said = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    done = int(said)
    assert 1 <= done < 100
    state = SqliteState(path)
    expected = [f"{step:04}-{n}" for step in range(done) for n in range(3)] + ["first", "last"]
    assert [item.sort for item in state.query("p", limit=1000)] == expected
    state.close()
