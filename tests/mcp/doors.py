"""What the MCP tests share: operations of their own, a server on a real socket, and the official client."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import httpx2
import uvicorn
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel, Field, RootModel
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.api.bodies import Bodies
from functions.api.mcp import mcp_app
from functions.api.mcp_tools import AnyOperation
from shared.domain.session import Owner
from shared.errors import Code, Failure
from shared.identity import Caller
from shared.limits import Limits
from shared.operations.base import Call, Model, Operation
from shared.operations.room import Room
from shared.settings import Settings


class Part(Model):
    """One part."""

    name: str = Field(description="its name")
    size: int | None = Field(None, description="its size")


class EchoInput(Model):
    """What is echoed."""

    text: str = Field(description="words", max_length=100)
    parts: tuple[Part, ...] = Field((), description="more of it", strict=False)


class EchoOutput(Model):
    """The echo."""

    text: str = Field(description="the same words")
    project: str = Field(description="the caller's project")
    parts: list[Part] = Field(description="the same parts")


class FailInput(Model):
    """How to fail."""

    how: Literal["limited", "invalid", "crash"] = Field(description="the way")


class Names(RootModel[list[str]]):
    """A bare array."""


@dataclass
class Log:
    """What the operations saw."""

    ran: list[str] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)


def declare(log: Log) -> dict[str, AnyOperation]:
    """Operations that need no store: they show what the door does."""

    def echo(_room: Room, call: Call, data: EchoInput) -> EchoOutput:
        """Echo the words. The parts come back too."""
        log.ran.append("echo")
        return EchoOutput(text=data.text, project=call.project, parts=list(data.parts))

    def listed(_room: Room, _call: Call, _data: FailInput) -> Names:
        """List odd names."""
        return Names(["plain", "line\nbreak", "\udcff"])

    def fail(_room: Room, _call: Call, data: FailInput) -> EchoOutput:
        """Fail as asked."""
        if data.how == "limited":
            raise Failure(Code.RATE_LIMITED, retry_after=7)
        if data.how == "invalid":
            raise Failure(Code.INVALID_REQUEST, "`how` is not to be asked")
        raise RuntimeError("secret-text-of-a-program")

    def wait(_room: Room, call: Call, data: EchoInput) -> EchoOutput:
        """Wait until the caller goes away."""
        call.cancel.bind(log.stopped.set)
        log.started.set()
        log.stopped.wait(20)
        return EchoOutput(text=data.text, project=call.project, parts=[])

    def secret(_room: Room, _call: Call, _data: EchoInput) -> EchoOutput:
        """Only for operators."""
        raise AssertionError

    def made(
        name: str, code: Any, takes: type[BaseModel], gives: type[BaseModel], audience: Any = "caller"
    ) -> AnyOperation:
        return Operation(
            name=name,
            input=takes,
            output=gives,
            status=200,
            errors=(),
            audience=audience,
            route=None,
            open=False,
            code=code,
        )

    rows = [
        made("files.write", echo, EchoInput, EchoOutput),
        made("files.list", listed, FailInput, Names),
        made("exec.start", wait, EchoInput, EchoOutput),
        made("runs.get", fail, FailInput, EchoOutput),
        made("keys.create", secret, EchoInput, EchoOutput, "operator"),
    ]
    return {row.name: row for row in rows}


def bare_room(limits: Limits | None = None) -> Room:
    """A room without ports: for operations that touch none."""
    nothing = cast("Any", None)
    return Room(
        state=nothing,
        objects=nothing,
        executor=nothing,
        uploads=nothing,
        limits=limits or Limits(),
        secret=b"s" * 32,
        owner=Owner("tests", "1"),
    )


def gate(app: ASGIApp, callers: dict[str, Caller]) -> ASGIApp:
    """A door that admits by `X-API-Key`; an unknown key gets through without a caller, to see what then happens."""
    bodies = Bodies(Limits())

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        key = dict(scope["headers"]).get(b"x-api-key", b"").decode()
        scope["state"] = {"caller": callers.get(key), "bodies": bodies}
        await app(scope, receive, send)

    return door


CALLERS = {"key-a": Caller("project-a", "ka"), "key-b": Caller("project-b", "kb")}


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """Serve an ASGI application on a loopback port of its own; the address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        limit = time.monotonic() + 10
        while not server.started:
            assert time.monotonic() < limit
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


@contextmanager
def serving(declared: dict[str, AnyOperation], settings: Settings | None = None) -> Iterator[str]:
    """Serve MCP for the operations behind `gate`; the address."""
    settings = settings or Settings()
    room = bare_room()
    with listening(gate(mcp_app(room, settings, declared), CALLERS)) as url:
        yield url


@asynccontextmanager
async def connected(url: str, key: str, mode: str = "auto") -> AsyncIterator[Client]:
    """The official client, connected by streamable HTTP."""
    async with (
        httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def words(result: Any) -> str:
    """All text of a tool's answer."""
    return "\n".join(block.text for block in result.content if block.type == "text")


Asking = Callable[[Client], Any]
