"""Putting a deployment together: which adapters stand behind the ports, by its settings.

    store      local: SQLite and files of the data folder      aws: a DynamoDB table and an S3 bucket
    executor   local: a process of this machine                lambda: the executor function

Every pair works but a local store with the Lambda executor, which could not reach its objects.
"""

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
from typing import cast

import shared.operations.all  # noqa: F401  (declares the operations)
from sandbox_image.locate import find_jail, find_root
from shared.domain.session import Owner
from shared.executor.local import LocalExecutor
from shared.executor.port import Executor
from shared.limits import MIB, Limits
from shared.operations import names
from shared.operations.grants import SelfGrants
from shared.operations.keys import new_key, put_key, sort_of
from shared.operations.room import Gate, Isolation, JwtVerifier, Room, RunMetrics, now_ms
from shared.settings import BadSetting, Settings
from shared.store.local import open_local
from shared.store.ports import Conflict, Objects, PutNew, State, StoreUnavailable

DEV_PROJECT = "dev"
LAMBDA_CAPACITY = 64
"""Invokes of one process that wait for an answer at once, where WORKROOM_CONCURRENCY does not say."""
_SECRET = "secret"


_TURNS_END_S = 5.0


def limits_of(settings: Settings) -> Limits:
    """The limits of a deployment: the defaults, with what its settings change."""
    return replace(
        Limits(),
        run_ms=settings.run_ms,
        memory_bytes=settings.memory_mib * MIB,
        session_ms=settings.session_lifetime_s * 1000,
        environment_ms=settings.environment_lifetime_s * 1000,
        waiting_ms=settings.waiting_lifetime_s * 1000,
        turn_run_ms=settings.turn_run_ms,
        lock_wait_ms=settings.lock_wait_ms,
        answer_ms=settings.answer_ms,
        answer_bytes=settings.answer_bytes,
    )


def open_room(
    settings: Settings, *, owner: str | None = None, limits: Limits | None = None, metrics: RunMetrics | None = None
) -> Room:
    """Open the store and what runs programs.

    `owner` is a name that only one process has at a time, such as "serve": a process that starts again under it
    frees what the last one held. Without it the process is nobody's successor. On AWS nobody can be sure to be the
    only one, so it is not asked for there: a dead process's locks end with their lease.
    Errors: BadSetting, StoreUnavailable, NotInstalled.
    """
    check_settings(settings)
    limits = limits or limits_of(settings)
    closing = ExitStack()
    try:
        if settings.store == "aws":
            room = _on_aws(settings, limits, closing)
        else:
            room = _on_this_machine(settings, limits, closing, owner)
        _check_model(settings, room)
        room = replace(room, metrics=metrics or room.metrics, default_model=settings.default_model)
        if room.dev_key:
            development_key(settings, room)
    except BaseException:
        closing.close()
        raise
    return room


def check_settings(settings: Settings) -> None:
    """Refuse settings that do not go together. Errors: BadSetting."""
    if settings.store == "aws":
        for name in ("table", "bucket"):
            if getattr(settings, name) is None:
                raise BadSetting(f"WORKROOM_{name.upper()} is needed where WORKROOM_STORE is aws")
    elif settings.executor == "lambda":
        raise BadSetting("WORKROOM_EXECUTOR=lambda needs WORKROOM_STORE=aws: the function reads files by grant")
    if settings.executor == "lambda" and settings.executor_function is None:
        raise BadSetting("WORKROOM_EXECUTOR_FUNCTION is needed where WORKROOM_EXECUTOR is lambda")


def _check_model(settings: Settings, room: Room) -> None:
    """Refuse a default engine that is none. Errors: BadSetting."""
    if settings.default_model is not None and settings.default_model not in room.engines.models:
        raise BadSetting(f"WORKROOM_DEFAULT_MODEL takes {', '.join(sorted(room.engines.models))}")


def _on_this_machine(settings: Settings, limits: Limits, closing: ExitStack, owner: str | None) -> Room:
    data = settings.data.resolve()
    store = open_local(data)
    closing.callback(store.close)
    if owner is not None:
        closing.callback(os.close, _only_one(data / f"{owner}.lock"))
    executor = _local_executor(settings, store.objects, settings.work or _work(settings.cache, data, owner))
    closing.callback(executor.close)
    secret = deployment_secret(store.state)
    return Room(
        state=store.state,
        objects=store.objects,
        executor=executor,
        uploads=SelfGrants(secret),
        secret=secret,
        owner=Owner(owner or secrets.token_hex(8), secrets.token_hex(8)),
        limits=limits,
        dev_key=settings.dev_key,
        closing=closing,
        runs=Gate(limits.run_queue, limits.project_runs),
        jwt=_jwt(settings),
    )


def _on_aws(settings: Settings, limits: Limits, closing: ExitStack) -> Room:
    from functions.worker.queue import SqsQueue  # noqa: PLC0415  (boto3 is slow to import)
    from shared.executor.aws import LambdaExecutor, make_client  # noqa: PLC0415
    from shared.store.aws import open_aws  # noqa: PLC0415
    from shared.store.aws.clients import make_clients  # noqa: PLC0415

    assert settings.table is not None  # check_settings
    assert settings.bucket is not None
    store = open_aws(make_clients(), settings.table, settings.bucket)
    closing.callback(store.close)
    executor: Executor
    if settings.executor_function is not None and settings.executor == "lambda":
        capacity = settings.concurrency or LAMBDA_CAPACITY
        client = make_client(limits.run_ms_max, connections=capacity)
        executor = LambdaExecutor(client, settings.executor_function, store.objects, capacity=capacity)
    else:
        place = Path(settings.bucket)
        executor = _local_executor(settings, store.objects, settings.work or _work(settings.cache, place, None))
    closing.callback(executor.close)
    secret = deployment_secret(store.state)
    return Room(
        state=store.state,
        objects=store.objects,
        executor=executor,
        uploads=store.objects,
        downloads=store.objects,
        queue=SqsQueue(settings.queue_url) if settings.queue_url is not None else None,
        secret=secret,
        owner=Owner(secrets.token_hex(16), secrets.token_hex(8)),
        limits=limits,
        closing=closing,
        runs=Gate(limits.run_queue, limits.project_runs),
        jwt=_jwt(settings),
        isolation=cast("Isolation", settings.isolation),
    )


def _jwt(settings: Settings) -> JwtVerifier | None:
    if settings.jwt_key is None:
        return None
    from shared.operations.jwt import LibreChatTokens  # noqa: PLC0415  (its cryptography is slow to import)

    # A PEM has lines, which some ways to set a variable of the environment cannot hold.
    key = settings.jwt_key.replace("\\n", "\n")
    try:
        return LibreChatTokens(
            key, issuer=settings.jwt_issuer, audience=settings.jwt_audience, project=settings.jwt_project
        )
    except ValueError as error:
        raise BadSetting(f"WORKROOM_JWT_KEY or WORKROOM_JWT_PROJECT: {error}") from None


def _local_executor(settings: Settings, objects: Objects, work: Path) -> LocalExecutor:
    return LocalExecutor(
        objects,
        root=settings.root or find_root(settings.cache),
        jail=settings.jail or find_jail(settings.cache),
        work=work,
        required_layers=frozenset(settings.required_layers),
        capacity=settings.concurrency or max(4, 2 * (os.cpu_count() or 1)),
    )


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
    """End the executor, and with it every run; then close the store.

    Turns are stopped before that, and have a moment to write their end: nobody has to find them later.
    """
    room.background.shutdown(wait=False, cancel_futures=True)
    room.hands.stop_all()
    room.hands.ended(_TURNS_END_S)
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
