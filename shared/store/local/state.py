"""The state port on SQLite: one file, WAL, durable at every acknowledged commit (DESIGN §3).

Writers of one machine stand in one queue: a lock between threads, then flock(2) on a file beside the state file,
held until the commit and its checkpoint are over. So no two connections ever write or checkpoint at once, which is
what SQLite before 3.51.3 can answer with a corrupt file (sqlite.org/wal.html, "the WAL-reset bug"), and no
writer starves behind SQLite's sleeping retries. Readers never wait for writers.

This module must never open the state file but through SQLite: closing any descriptor of it drops SQLite's locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from shared.store.items import check_actions, check_limit, decode, encode_all, key_bytes
from shared.store.ports import Action, Check, Conflict, DeleteIf, Item, Loss, PutIf, PutNew, StoreUnavailable

SCHEMA = 1
"""The schema that this code reads and writes (`PRAGMA user_version`)."""
_APPLICATION = 0x576B726D  # "Wkrm", `PRAGMA application_id`
_BATCH = 500  # rows that one transaction of a long deletion takes, so that others get in between
_WAL_BYTES = 6 << 20  # a log file of this size takes 1,000 pages without growing, which makes its fsync cheap
_creating = threading.Lock()

_TABLES = (
    "CREATE TABLE items (partition BLOB NOT NULL, sort BLOB NOT NULL, version INTEGER NOT NULL,"
    " attributes TEXT NOT NULL, expires_at INTEGER, PRIMARY KEY (partition, sort))",
    "CREATE INDEX items_expiry ON items (expires_at) WHERE expires_at IS NOT NULL",
)


class UnknownSchema(StoreUnavailable):
    """The state file is of another program, or of a later version of this one. It was not touched."""


class SqliteState:
    """The state port on one SQLite file. Safe between threads and between processes of one machine.

    `wait_seconds` bounds each wait for another writer; a longer one is StoreUnavailable, as are a full disk, an
    I/O error and a corrupt file. Connections are pooled: each serves one thread at a time, at most `idle` are kept.
    """

    def __init__(self, path: Path, *, wait_seconds: float = 10.0, idle: int = 8) -> None:
        """Open or create. Errors: StoreUnavailable, UnknownSchema."""
        self._path = path
        self._wait = wait_seconds
        self._most_idle = idle
        self._idle: list[sqlite3.Connection] = []
        self._pool = threading.Lock()
        self._writer = threading.Lock()
        self._closed = False
        try:
            _create_file(path)
            self._gate = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreUnavailable("the state file cannot be opened") from error
        try:
            with self._queue(), self._connection() as db:
                _prepare(db)
                _grow_log(db, path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every connection. Calls after it, or under way, are StoreUnavailable."""
        with self._writer, self._pool:
            if not self._closed:
                self._closed = True
                os.close(self._gate)
                while self._idle:
                    self._idle.pop().close()

    def get(self, partition: str, sort: str) -> Item | None:
        """As the port says."""
        with self._connection() as db:
            return _item(db, partition, sort)

    def query(
        self,
        partition: str,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int = 100,
        descending: bool = False,
    ) -> list[Item]:
        """As the port says. Errors: ValueError for a limit out of range."""
        check_limit(limit)
        text = "SELECT sort, version, attributes FROM items WHERE partition = ? AND sort >= ?"
        first = key_bytes(prefix)
        values: list[object] = [key_bytes(partition), first]
        if first:
            # No UTF-8 ends in 0xff, so the next byte string of that length bounds the prefix.
            text += " AND sort < ?"
            values.append(first[:-1] + bytes([first[-1] + 1]))
        if after is not None:
            text += " AND sort < ?" if descending else " AND sort > ?"
            values.append(key_bytes(after))
        text += f" ORDER BY sort {'DESC' if descending else 'ASC'} LIMIT ?"
        values.append(limit)
        with self._connection() as db:
            rows = db.execute(text, values).fetchall()
        return [Item(partition, sort.decode(), version, decode(attributes)) for sort, version, attributes in rows]

    def transact(self, actions: Sequence[Action]) -> list[int]:
        """As the port says. Also ValueError for a key or an expiry that `items.check_actions` refuses."""
        check_actions(actions)
        texts = encode_all(actions)
        with self._transaction() as db:
            losses = [
                Loss(index, _item(db, action.partition, action.sort))
                for index, action in enumerate(actions)
                if _version(db, action.partition, action.sort) != _required(action)
            ]
            if losses:
                raise Conflict(losses)
            return [_write(db, action, text) for action, text in zip(actions, texts, strict=True)]

    def delete_partition(self, partition: str) -> None:
        """As the port says; in batches, each all or nothing."""
        self._delete_where("partition = ?", key_bytes(partition))

    def sweep(self, now: int) -> int:
        """As the port says; in batches, each all or nothing."""
        return self._delete_where("expires_at < ?", max(min(now, 2**62), -(2**62)))

    def _delete_where(self, condition: str, value: object) -> int:
        text = f"DELETE FROM items WHERE rowid IN (SELECT rowid FROM items WHERE {condition} LIMIT {_BATCH})"
        total = 0
        while True:
            with self._transaction() as db:
                count = db.execute(text, (value,)).rowcount
            total += count
            if count < _BATCH:
                return total

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """BEGIN IMMEDIATE … COMMIT; whatever leaves the block early leaves nothing behind."""
        with self._queue(), self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextlib.contextmanager
    def _queue(self) -> Iterator[None]:
        """The right to write, among the threads and the processes of this machine."""
        deadline = time.monotonic() + self._wait
        if not self._writer.acquire(timeout=self._wait):
            raise StoreUnavailable("the state file is busy")
        try:
            self._check_open()
            while not _flock(self._gate):
                if time.monotonic() >= deadline:
                    raise StoreUnavailable("the state file is busy")
                time.sleep(random.uniform(0.0005, 0.004))
            try:
                yield
            finally:
                fcntl.flock(self._gate, fcntl.LOCK_UN)
        finally:
            self._writer.release()

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one thread at a time. After an error of SQLite's it is closed and not used again."""
        with self._pool:
            self._check_open()
            db = self._idle.pop() if self._idle else None
        healthy = False
        try:
            if db is None:
                db = _connect(self._path, self._wait)
            yield db
            healthy = True
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the state file failed: {type(error).__name__}") from error
        except (Conflict, ValueError):
            healthy = True
            raise
        finally:
            if db is not None:
                self._give_back(db, healthy)

    def _give_back(self, db: sqlite3.Connection, healthy: bool) -> None:
        with self._pool:
            if healthy and not self._closed and len(self._idle) < self._most_idle:
                self._idle.append(db)
                return
        db.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the state file was closed")


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreUnavailable("the state file cannot be locked") from error
    return True


def _create_file(path: Path) -> None:
    """Make the file as 0600 before SQLite sees it: its log and index inherit the mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.chmod(0o600)
    # Two stores of one process: the descriptor of the maker is closed before the other one takes a lock.
    with _creating, contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _connect(path: Path, wait_seconds: float) -> sqlite3.Connection:
    # mode=rw: a state file that was taken away is an error, never a new and empty one.
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode=rw"
    db = sqlite3.connect(address, timeout=wait_seconds, isolation_level=None, check_same_thread=False, uri=True)
    try:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection) -> None:
    """Make the tables of a new file; refuse a file that this code does not know. Called with the right to write."""
    (schema,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    new = (schema, application, tables) == (0, 0, 0)
    if not new and application != _APPLICATION:
        raise UnknownSchema("the state file belongs to another program")
    if not new and schema != SCHEMA:
        raise UnknownSchema(f"the state file has schema {schema}; this version knows schema {SCHEMA} only")
    if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise StoreUnavailable("the state file lies where SQLite cannot keep a write-ahead log")
    if new:
        db.execute("BEGIN IMMEDIATE")
        for text in (*_TABLES, f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {SCHEMA}"):
            db.execute(text)
        db.execute("COMMIT")


def _grow_log(db: sqlite3.Connection, path: Path) -> None:
    """Give the log its size at once, by a large transaction that is rolled back: its pages spill into the log."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(f"{path}-wal").st_size >= _WAL_BYTES:
            return
    db.execute("BEGIN IMMEDIATE")
    try:
        # A full disk makes writes fail, each by itself; what is stored can be read all the same.
        with contextlib.suppress(sqlite3.OperationalError):
            db.execute("INSERT INTO items VALUES (x'00', x'00', 1, zeroblob(?), NULL)", (_WAL_BYTES + (2 << 20),))
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _item(db: sqlite3.Connection, partition: str, sort: str) -> Item | None:
    text = "SELECT version, attributes FROM items WHERE partition = ? AND sort = ?"
    row = db.execute(text, (key_bytes(partition), key_bytes(sort))).fetchone()
    return None if row is None else Item(partition, sort, row[0], decode(row[1]))


def _version(db: sqlite3.Connection, partition: str, sort: str) -> int | None:
    text = "SELECT version FROM items WHERE partition = ? AND sort = ?"
    row = db.execute(text, (key_bytes(partition), key_bytes(sort))).fetchone()
    return None if row is None else int(row[0])


def _required(action: Action) -> int | None:
    return None if isinstance(action, PutNew) else action.version


def _write(db: sqlite3.Connection, action: Action, attributes: str) -> int:
    """Carry out an action whose condition holds; the version that the item has then, 0 for none."""
    key = (key_bytes(action.partition), key_bytes(action.sort))
    match action:
        case PutNew():
            db.execute("INSERT INTO items VALUES (?, ?, 1, ?, ?)", (*key, attributes, action.expires_at))
            return 1
        case PutIf():
            text = "UPDATE items SET version = ?, attributes = ?, expires_at = ? WHERE partition = ? AND sort = ?"
            db.execute(text, (action.version + 1, attributes, action.expires_at, *key))
            return action.version + 1
        case DeleteIf():
            db.execute("DELETE FROM items WHERE partition = ? AND sort = ?", key)
            return 0
        case Check():
            return 0
