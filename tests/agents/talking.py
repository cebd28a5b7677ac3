"""Sessions as a client of the wire makes them: bodies as JSON, a Turn driven to its end, one thing of each kind.

Programs are scripts of the scripted executor, so the suite that is built on this runs behind every door.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from shared.operations.room import Room
from tests.agents.asking import BETA, JSON, Asker, Pair
from tests.wire.scripted import program
from tests.wire.service import Answer, expect_eventually

SESSIONS = "/v1/agents/sessions"
ENVIRONMENTS = "/v1/agents/environments"
AGENTS = "/v1/agents"
HOSTED: dict[str, Any] = {"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}}
CANCEL = {"type": "agent.session.input.cancel"}
NOT_FOUND = (
    b'{"error":{"message":"Resource not found.","type":"not_found_error","code":"not_found_error","param":null}}'
)
SETTLED = ("idle", "failed", "requires_action")


def message(text: str) -> dict[str, Any]:
    """An event with one message of the user's."""
    content = [{"type": "input_text", "text": text}]
    return {"type": "agent.session.input.message", "input": [{"role": "user", "content": content}]}


@dataclass(frozen=True)
class Talk:
    """A running service, and a key of one of its projects."""

    asker: Asker
    key: str

    @property
    def room(self) -> Room:
        return self.asker.service.room

    def ask(self, method: str, target: str, *headers: Pair, body: bytes = b"", beta: bool = True) -> Answer:
        """One request with the beta header and the key."""
        return self.asker.ask(method, target, *([BETA] if beta else []), *headers, body=body, key=self.key)

    def post(self, target: str, body: Any, *headers: Pair) -> Answer:
        """A POST of JSON."""
        return self.ask("POST", target, JSON, *headers, body=json.dumps(body).encode())

    def get(self, target: str) -> Any:
        """The JSON of an answer of 200."""
        answer = self.ask("GET", target)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def data(self, target: str) -> list[Any]:
        """The rows of a list."""
        found: list[Any] = self.get(target)["data"]
        return found

    def create(self, *headers: Pair, **members: Any) -> dict[str, Any]:
        """A new Session; `members` are added to those of a hosted one."""
        answer = self.post(SESSIONS, {**HOSTED, **members}, *headers)
        assert answer.status == 201, answer.body
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def send(self, session: str, *events: Any, key: str | None = None) -> Answer:
        """A batch of events."""
        headers = () if key is None else (("Idempotency-Key", key),)
        return self.post(f"{SESSIONS}/{session}/events", {"events": list(events)}, *headers)

    def say(self, session: str, **script: Any) -> None:
        """A message that is a script; it is admitted."""
        answer = self.send(session, message(program(**script)))
        assert (answer.status, answer.body) == (202, b""), answer.body

    def settled(self, session: str) -> dict[str, Any]:
        """The Session when nothing goes on in it."""
        shown: dict[str, Any] = {}

        def look() -> bool:
            shown.update(self.get(f"{SESSIONS}/{session}"))
            return shown["status"] in SETTLED

        expect_eventually(look, 30)
        return shown

    def done(self, session: str, **script: Any) -> dict[str, Any]:
        """A message whose Turn has ended: the Turn."""
        self.say(session, **script)
        self.settled(session)
        found: dict[str, Any] = self.data(f"{SESSIONS}/{session}/turns?limit=1")[0]
        return found

    def running(self, session: str, **script: Any) -> dict[str, Any]:
        """A Turn whose program waits until it is stopped."""
        self.say(session, **{"wait": 30, **script})
        turns = f"{SESSIONS}/{session}/turns?limit=1"
        executor = self.asker.service.executor
        expect_eventually(lambda: bool(executor.running) and self.data(turns)[0]["status"] == "in_progress", 30)
        found: dict[str, Any] = self.data(turns)[0]
        return found

    def cancelled(self, session: str) -> None:
        """Cancel what goes on, and wait until it is over."""
        assert self.send(session, CANCEL).status == 202
        self.settled(session)


@dataclass(frozen=True)
class Things:
    """One of each kind of a project: a Session with one Turn, items and an Artifact, and a saved agent."""

    session: str
    environment: str
    turn: str
    item: str
    artifact: str
    agent: str

    @classmethod
    def made(cls, talk: Talk) -> Things:
        """Make them."""
        made = talk.create()
        session = made["id"]
        turn = talk.done(session, write={"outputs/a.txt": "hello"}, stdout="said")
        agent = talk.post(AGENTS, {"model": "program:py"})
        assert agent.status == 201, agent.body
        return cls(
            session,
            made["environment"]["id"],
            turn["id"],
            talk.data(f"{SESSIONS}/{session}/items?limit=1")[0]["id"],
            talk.data(f"{SESSIONS}/{session}/artifacts?limit=1")[0]["id"],
            json.loads(agent.body)["id"],
        )

    def at(self, template: str) -> str:
        """An address of these."""
        return template.format(s=self.session, e=self.environment, t=self.turn, i=self.item, x=self.artifact,
                               a=self.agent)  # fmt: skip

    def unknown(self) -> Things:
        """The same with ids that nobody has: each one's last character is another one."""

        def other(ident: str) -> str:
            return ident[:-1] + ("0" if ident[-1] != "0" else "1")

        return Things(*(other(ident) for ident in (self.session, self.environment, self.turn, self.item,
                                                   self.artifact, self.agent)))  # fmt: skip


def check_error(
    answer: Answer, status: int, message: str, code: str = "invalid_request_error", *, param: str | None = None
) -> None:
    """The envelope of an error, byte by byte."""
    kind = {404: "not_found_error", 409: "conflict_error", 503: "server_error"}.get(status, "invalid_request_error")
    error = {"message": message, "type": kind, "code": code, "param": param}
    expected = json.dumps({"error": error}, separators=(",", ":"), ensure_ascii=False).encode()
    assert (answer.status, answer.body) == (status, expected)


def check_missing(answer: Answer) -> None:
    """The one answer for ids that are unknown, malformed or another project's."""
    assert (answer.status, answer.body) == (404, NOT_FOUND)
