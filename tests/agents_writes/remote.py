"""A Session of a real service whose stores are behind a `Road`, as its caller and its operator see it."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from functions.room import deployment_secret
from shared.domain.agents.writes import Write
from shared.domain.session import Head, Owner
from shared.errors import Failure
from shared.identity import Caller
from shared.limits import Limits
from shared.operations import names, workspace
from shared.operations.agents import places
from shared.operations.base import Call, operations
from shared.operations.room import Gate, Room
from shared.store.aws import DynamoState, S3Objects, make_clients
from tests.agents.asking import Asker
from tests.agents_door.listening import SESSIONS, made
from tests.agents_writes.road import SECONDS, WAIT, Road
from tests.ministack import shared
from tests.wire.scripted import Scripted, program
from tests.wire.service import Answer, expect_eventually, serving

JSON = ("Content-Type", "application/json")
BETA = ("OpenAI-Beta", "agents=v1")
A = "/workspace/a.txt"


@dataclass(frozen=True)
class Told:
    """What a caller is told: status, the error's code, x-should-retry."""

    status: int
    code: str | None = None
    retry: str | None = None


@dataclass
class Remote:
    """One Session. `kept` and `real` are its stores past the road."""

    road: Road
    api: Asker
    real: DynamoState
    kept: S3Objects
    session: str = ""
    source: str = ""

    @property
    def room(self) -> Room:
        return self.api.service.room

    @property
    def executor(self) -> Scripted:
        return self.api.service.executor

    @property
    def partition(self) -> str:
        return names.session("first", self.session)

    @property
    def files(self) -> str:
        """Where the files of its Environment are."""
        return f"/v1/agents/environments/env_{self.session.removeprefix('sess_')}/files"

    def ask(self, method: str, target: str, body: object = None, *headers: tuple[str, str]) -> Answer:
        """One request with the beta's header."""
        raw = b"" if body is None else json.dumps(body).encode()
        return self.api.ask(method, target, BETA, *([JSON] if raw else []), *headers, body=raw)

    def create(self, path: str = A, data: bytes = b"once", source: str | None = None) -> Told:
        """Write a file, inline or as a copy of a source file."""
        inline = {"type": "inline", "data": base64.b64encode(data).decode()}
        form = inline if source is None else {"type": "file_id", "file_id": source}
        return told(self.ask("POST", self.files, {**form, "path": path}))

    def say(self, key: str | None = None, **script: Any) -> Told:
        """Send a message, a program of the scripted executor."""
        text = [{"type": "input_text", "text": program(**script)}]
        event = {"type": "agent.session.input.message", "input": [{"role": "user", "content": text}]}
        headers = [] if key is None else [("Idempotency-Key", key)]
        return told(self.ask("POST", f"{SESSIONS}/{self.session}/events", {"events": [event]}, *headers))

    def seen(self) -> dict[str, Any]:
        """The Session as its caller sees it."""
        found = self.page("")
        assert found["object"] == "agent.session"
        return found

    def page(self, below: str) -> dict[str, Any]:
        """An answer of 200 below the Session."""
        answer = self.ask("GET", f"{SESSIONS}/{self.session}{below}")
        assert answer.status == 200, answer.body
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def names(self) -> list[str]:
        """The listed paths, of an answer that must be a page."""
        answer = self.ask("GET", self.files + "?order=asc")
        assert answer.status == 200, answer.body
        return [row["path"] for row in json.loads(answer.body)["data"]]

    def idle(self) -> bool:
        """Whether the Session is at rest."""
        return bool(self.seen()["status"] == "idle")

    def settle(self, write: str, outcome: str) -> int:
        """The operator says what became of a write: the status of the answer."""
        operation = operations()["writes.settle"]
        call = Call(Caller("operator", "operator"))
        try:
            operation.call_with(self.room, call, {"id": write, "outcome": outcome})
        except Failure as failure:
            return failure.code.status
        return 200

    def content(self, path: str) -> bytes:
        """The bytes of a file of the workspace, past the road."""
        item = self.real.get(self.partition, names.HEAD)
        assert item is not None
        manifest = workspace.manifest_of(self.room, Head.of(item.attributes), hold=False)
        entry = manifest.entries[path.removeprefix("/workspace/")]
        return b"".join(self.kept.read(entry.blob, entry.offset, entry.size)) if entry.size else b""

    def records(self) -> list[Write]:
        """All records of its writes, past the road."""
        return [Write.of(row.attributes) for row in self.real.query(self.partition, places.WRITES)]

    def unsettled(self) -> int:
        """How many rows the janitor's metric counts for it."""
        rows = self.real.query(names.project("first"), places.UNSETTLED, limit=1000)
        return sum(row.attributes["session"] == self.session for row in rows)

    def frames(self) -> list[dict[str, Any]]:
        """All frames that were ever told of the Session, past the road."""
        rows = self.real.query(self.partition, places.EVENTS, limit=1000)
        return [frame for row in rows for frame in row.attributes["frames"]]

    def expect_free(self, *, records: int) -> None:
        """Nothing is unsettled, and the next write is admitted."""
        assert self.seen().get("unsettled_write") is None
        assert (self.unsettled(), len(self.records())) == (0, records)
        assert self.create("/workspace/next", b"next") == Told(201)
        assert self.content("/workspace/next") == b"next"


def told(answer: Answer) -> Told:
    """An answer in short."""
    code = json.loads(answer.body)["error"]["code"] if answer.status >= 400 else None
    return Told(answer.status, code, answer.headers.get("x-should-retry"))


@contextlib.contextmanager
def opened() -> Iterator[Remote]:
    """A service on stores of its own behind a road."""
    aws, name, limits = shared(), f"road-{secrets.token_hex(8)}", Limits()
    table, bucket = aws.table(name), aws.bucket(name)
    plain = aws.clients()
    with Road(aws.endpoint) as road:
        clients = make_clients(
            session=aws.session(), endpoint=road.endpoint, state_read_seconds=WAIT, objects_read_seconds=WAIT
        )
        state = DynamoState(clients.dynamodb, table, seconds=SECONDS)
        objects = S3Objects(clients.s3, bucket, seconds=SECONDS)
        room = Room(
            state=state,
            objects=objects,
            executor=Scripted(),
            uploads=objects,
            downloads=objects,
            secret=deployment_secret(state),
            owner=Owner("tests", secrets.token_hex(8)),
            limits=limits,
            runs=Gate(limits.run_queue, limits.project_runs),
        )
        try:
            with serving(room) as service:
                yield Remote(road, Asker(service), DynamoState(plain.dynamodb, table), S3Objects(plain.s3, bucket))
        finally:
            clients.close()


@contextlib.contextmanager
def session(remote: Remote) -> Iterator[Remote]:
    """A new Session, and a road without any fault; afterwards nothing of it goes on."""
    remote.road.reset()
    one = Remote(remote.road, remote.api, remote.real, remote.kept, made(remote.api))
    remote.road.reset()
    yield one
    remote.road.reset()
    expect_eventually(one.idle)
