"""Putting a deployment of one machine together: SQLite, files and a local executor behind the ports."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import secrets
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import shared.operations.all  # noqa: F401  (declares the operations)
from sandbox_image.locate import find_jail, find_root
from shared.domain.session import Owner
from shared.executor.local import LocalExecutor
from shared.limits import MIB, Limits
from shared.operations import names
from shared.operations.grants import SelfGrants
from shared.operations.keys import new_key, put_key, sort_of
from shared.operations.room import Gate, Room, now_ms
from shared.settings import Settings
from shared.store.local import open_local
from shared.store.ports import Conflict, PutNew, State, StoreUnavailable

DEV_PROJECT = "dev"
_SECRET = "secret"


def limits_of(settings: Settings) -> Limits:
    """The limits of a deployment: the defaults, with what its settings change."""
    return replace(
        Limits(),
        run_ms=settings.run_ms,
        memory_bytes=settings.memory_mib * MIB,
        session_ms=settings.session_lifetime_s * 1000,
    )


def open_room(settings: Settings, *, owner: str | None = None, limits: Limits | None = None) -> Room:
    """Open the data folder and start an executor.

    `owner` is a name that only one process has at a time, such as "serve": a process that starts again under it
    frees what the last one held. Without it the process is nobody's successor.
    """
    data = settings.data.resolve()
    limits = limits or limits_of(settings)
    closing = ExitStack()
    try:
        store = open_local(data)
        closing.callback(store.close)
        if owner is not None:
            closing.callback(os.close, _only_one(data / f"{owner}.lock"))
        executor = LocalExecutor(
            store.objects,
            root=settings.root or find_root(settings.cache),
            jail=settings.jail or find_jail(settings.cache),
            work=settings.work or _work(settings.cache, data, owner),
            required_layers=frozenset(settings.required_layers),
            capacity=settings.concurrency or max(4, 2 * (os.cpu_count() or 1)),
        )
        closing.callback(executor.close)
        secret = deployment_secret(store.state)
        room = Room(
            state=store.state,
            objects=store.objects,
            executor=executor,
            uploads=SelfGrants(secret),
            secret=secret,
            owner=Owner(owner or secrets.token_hex(8), secrets.token_hex(8)),
            limits=limits,
            dev_key=settings.dev_key,
            closing=closing,
            runs=Gate(limits.run_queue),
        )
        if settings.dev_key:
            development_key(settings, room)
    except BaseException:
        closing.close()
        raise
    return room


def _only_one(path: Path) -> int:
    """Be the one process that serves this folder: two would free each other's locks. The descriptor that holds it.

    Errors: StoreUnavailable.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreUnavailable("another service works on this data folder") from None
    return descriptor


def _work(cache: Path, data: Path, owner: str | None) -> Path:
    """Where the workspaces of running programs lie: not in the data folder, which other users may not pass through."""
    return cache / "work" / hashlib.sha256(os.fsencode(data)).hexdigest()[:16] / (owner or secrets.token_hex(8))


def close_room(room: Room) -> None:
    """End the executor, and with it every run; then close the store."""
    room.background.shutdown(wait=False, cancel_futures=True)
    room.closing.close()


def deployment_secret(state: State) -> bytes:
    """The key for ids and signatures, born once per deployment in the store (exec.md A8.2)."""
    while True:
        item = state.get(names.SYSTEM, _SECRET)
        if item is not None:
            return base64.b64decode(item.attributes["key"])
        try:
            state.transact([PutNew(names.SYSTEM, _SECRET, {"key": base64.b64encode(os.urandom(32)).decode("ascii")})])
        except Conflict:
            continue


def development_key(settings: Settings, room: Room) -> str:
    """The development key: made once for a data folder, kept there readable for its owner only."""
    path: Path = settings.data / "dev.key"
    if not path.exists():
        key = new_key()
        fresh = path.with_name(f".dev.key.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(key + "\n")
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    key = path.read_text().strip()
    if room.state.get(names.KEYS, sort_of(key)) is None:
        row = {"id": "development", "project": DEV_PROJECT, "name": "development key", "created": now_ms()}
        with contextlib.suppress(Conflict):
            put_key(room, key, {**row, "until": None, "development": True})
    return key
