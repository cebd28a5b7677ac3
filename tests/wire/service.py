"""A service on a loopback port, as the suite calls it: an address, keys of two projects, and raw sockets."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from functions.api.agents.streaming import Pace
from functions.api.aws import Front
from functions.api.serve import Server, make_config
from functions.room import deployment_secret
from shared.domain.session import Owner
from shared.executor.port import Executor
from shared.limits import Limits
from shared.operations.all import operations
from shared.operations.base import Call
from shared.operations.grants import SelfGrants
from shared.operations.room import Gate, Room, now_ms
from shared.settings import Settings
from shared.store.aws import open_aws
from shared.store.local import open_local
from tests.gateway.front import Environments, gateway
from tests.gateway.shapes import Kind
from tests.ministack import shared
from tests.wire.scripted import Scripted

ON_AWS = os.environ.get("TEST_STORE") == "aws"
"""Whether the suite runs on DynamoDB and S3 of the emulator."""


def local_store(why: str) -> pytest.MarkDecorator:
    """A mark for a test that holds on the local store alone."""
    return pytest.mark.skipif(ON_AWS, reason=why)


def make_key(room: Room, project: str, **more: Any) -> str:
    """A key of a project, as an operator makes one."""
    made = operations()["keys.create"]
    call = Call(_operator())
    return str(made.run(room, call, made.parse({"project": project, **more})).key)


def _operator() -> Any:
    from shared.identity import Caller  # noqa: PLC0415

    return Caller("operator", "operator")


Door = Literal["local", "http-api", "function-url"]
DOORS: tuple[Door, ...] = ("local", "http-api", "function-url")
"""The front doors that this suite drives: uvicorn, and the Lambda handler behind what AWS has in front of it."""


@dataclass(frozen=True)
class Answer:
    """An answer as it came over a raw socket."""

    status: int
    head: bytes
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def comparable(self) -> bytes:
        """Everything but the date and the request's id."""
        lines = self.head.split(b"\r\n")
        kept = [line for line in lines if not line.lower().startswith((b"date:", b"x-request-id:"))]
        return b"\r\n".join(kept) + b"\r\n\r\n" + self.body


@dataclass
class Service:
    """A running service."""

    host: str
    port: int
    key: str
    other_key: str
    room: Room
    door: Door = "local"

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def executor(self) -> Scripted:
        assert isinstance(self.room.executor, Scripted)
        return self.room.executor

    def client(self, key: str | None = None, **more: Any) -> httpx.Client:
        """A client with a key: the first project's, unless another is given; "" sends none."""
        headers = {} if key == "" else {"X-API-Key": key or self.key}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, **more)

    def connect(self) -> socket.socket:
        """A raw connection."""
        return socket.create_connection((self.host, self.port), timeout=20)

    def send(self, raw: bytes) -> Answer:
        """Send bytes as they are and read one answer."""
        with self.connect() as sock:
            sock.sendall(raw)
            return read_answer(sock)

    def ask(
        self,
        method: str,
        target: str,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """One request with exactly this target."""
        lines = [f"{method} {target} HTTP/1.1", "Host: h", "Connection: close"]
        if key != "":
            lines.append(f"X-API-Key: {key or self.key}")
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


def read_answer(sock: socket.socket, *, head_only: bool = False) -> Answer:
    """Read one answer: by its Content-Length, its chunks, or up to the end of the connection."""
    file = sock.makefile("rb")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = file.readline()
        if not line:
            raise ConnectionError("the connection ended before an answer")
        head += line
    answer = Answer(int(head.split(b" ", 2)[1]), head[:-4], b"")
    if head_only:
        return answer
    if "content-length" in answer.headers:
        body = file.read(int(answer.headers["content-length"]))
    elif answer.headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(file.readline(), 16):
            body += file.read(size)
            file.readline()
    else:
        body = file.read()
    return replace(answer, body=body)


def open_test_room(folder: Path, limits: Limits, executor: Executor, *, clock: Callable[[], int] = now_ms) -> Room:
    """A room on a fresh data folder, with an executor of the test's own; for ON_AWS on a fresh table and bucket."""
    if ON_AWS:
        return _aws_room(limits, executor, clock)
    store = open_local(folder)
    secret = deployment_secret(store.state)
    return Room(
        state=store.state,
        objects=store.objects,
        executor=executor,
        uploads=SelfGrants(secret),
        secret=secret,
        owner=Owner("tests", secrets.token_hex(8)),
        limits=limits,
        runs=Gate(limits.run_queue),
        clock=clock,
    )


def _aws_room(limits: Limits, executor: Executor, clock: Callable[[], int]) -> Room:
    name = f"wire-{secrets.token_hex(8)}"
    aws = shared()
    store = open_aws(aws.clients(), aws.table(name), aws.bucket(name))
    return Room(
        state=store.state,
        objects=store.objects,
        executor=executor,
        uploads=store.objects,
        downloads=store.objects,
        secret=deployment_secret(store.state),
        owner=Owner("tests", secrets.token_hex(8)),
        limits=limits,
        runs=Gate(limits.run_queue, limits.project_runs),
        clock=clock,
    )


@contextlib.contextmanager
def serving(
    room: Room, settings: Settings | None = None, *, keys: bool = True, door: Door = "local"
) -> Iterator[Service]:
    """Serve a room in this process, exactly as `serve` or the function does."""
    settings = settings or Settings(port=0, dev_key=False)
    with started(room, settings) if door == "local" else _function(room, settings, door) as (host, port, *_):
        first, second = (make_key(room, "first"), make_key(room, "second")) if keys else ("", "")
        yield Service(host, port, first, second, room, door)


@contextlib.contextmanager
def started(room: Room, settings: Settings, pace: Pace | None = None) -> Iterator[tuple[str, int, Server]]:
    """A server in a thread of this process, as `serve` has it: where it listens, and it. Its room ends with it."""
    config, workers = make_config(settings, room, pace=pace)
    ready = threading.Event()
    where: list[tuple[str, int]] = []

    def say(host: str, port: int) -> None:
        where.append((host, port))
        ready.set()

    server = Server(config, workers, say)
    thread = threading.Thread(target=server.run, name="service", daemon=True)
    thread.start()
    try:
        assert ready.wait(20), "the service did not start"
        yield *where[0], server
    finally:
        server.should_exit = True
        thread.join(40)
        assert not thread.is_alive(), "the service did not end"
        room.background.shutdown(wait=True)
        room.executor.close()


@contextlib.contextmanager
def _function(room: Room, settings: Settings, door: Kind) -> Iterator[tuple[str, int]]:
    """Environments of the function on one store: each with a room of its own, as processes of their own have."""

    def environment() -> Front:
        one = replace(room, owner=Owner(secrets.token_hex(8), secrets.token_hex(8)), runs=Gate(room.limits.run_queue))
        return Front(lambda: one, lambda: settings)

    try:
        with gateway(door, Environments(environment)) as where:
            yield where
    finally:
        room.background.shutdown(wait=True)
        room.executor.close()


def expect_eventually(check: Any, seconds: float = 10) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.01)


def stored_things(room: Room, folder: Path) -> tuple[int, set[str]]:
    """How many objects there are, and which files lie in the stages: what a refused request leaves alone."""
    objects = len(room.objects.list("p/", limit=1000))
    staged = {str(path) for path in folder.rglob("*.part")}
    return objects, staged


def sessions(room: Room, project: str = "first") -> set[str]:
    """The sessions of a project, by its index rows."""
    return {item.sort for item in room.state.query(f"p/{project}", "session/", limit=1000)}


def state_of_machine() -> int:
    """Open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
