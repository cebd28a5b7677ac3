"""A client of event streams: bytes as they come, read frame by frame."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tests.agents.asking import Asker
from tests.wire.scripted import program

SESSIONS = "/v1/agents/sessions"
HOSTED = {"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}}


@dataclass
class Listener:
    """An open stream."""

    answer: httpx.Response
    lines: Iterator[str]

    def frame(self) -> dict[str, Any] | None:
        """The next frame; None at a clean end."""
        event = next((line for line in self.lines if not line.startswith(":") and line), None)
        if event is None:
            return None
        data, blank = next(self.lines), next(self.lines)
        assert (event[:7], data[:6], blank) == ("event: ", "data: ", "")
        frame: dict[str, Any] = json.loads(data[6:])
        assert frame["type"] == event[7:]
        return frame

    def until(self, kind: str) -> list[dict[str, Any]]:
        """The frames up to one of a type."""
        frames = []
        while frame := self.frame():
            frames.append(frame)
            if frame["type"] == f"agent.session.{kind}":
                return frames
        raise AssertionError(f"the stream ended before {kind}: {kinds(frames)}")

    def rest(self) -> list[dict[str, Any]]:
        """The frames up to the end, which is a clean one."""
        frames = []
        while frame := self.frame():
            frames.append(frame)
        return frames


def kinds(frames: list[dict[str, Any]]) -> list[str]:
    """The types of frames, shortened."""
    return [frame["type"].removeprefix("agent.session.") for frame in frames]


def client(api: Asker, key: str | None = None) -> httpx.Client:
    """A client of the Agents API."""
    headers = {"Authorization": f"Bearer {key or api.service.key}", "OpenAI-Beta": "agents=v1"}
    return httpx.Client(base_url=api.service.url, headers=headers, timeout=30, trust_env=False)


@contextlib.contextmanager
def listening(api: Asker, session: str, **more: Any) -> Iterator[Listener]:
    """The live stream of a Session. The context begins when its headers have come."""
    with client(api) as one, one.stream("GET", f"{SESSIONS}/{session}/events", **more) as answer:
        assert answer.status_code == 200, answer.read()
        yield Listener(answer, answer.iter_lines())


@contextlib.contextmanager
def creating(api: Asker, body: dict[str, Any], **headers: str) -> Iterator[Listener]:
    """The answer to a creation that asks for a stream."""
    with client(api) as one, one.stream("POST", SESSIONS, json={**body, "stream": True}, headers=headers) as answer:
        yield Listener(answer, answer.iter_lines())


def made(api: Asker, **more: Any) -> str:
    """The id of a new Session without input."""
    with client(api) as one:
        answer = one.post(SESSIONS, json={**HOSTED, **more})
    assert answer.status_code == 201, answer.text
    ident: str = answer.json()["id"]
    return ident


def say(api: Asker, session: str, **script: Any) -> None:
    """Send a message: a program that the scripted executor does."""
    text = [{"type": "input_text", "text": program(**script)}]
    event = {"type": "agent.session.input.message", "input": [{"role": "user", "content": text}]}
    with client(api) as one:
        answer = one.post(f"{SESSIONS}/{session}/events", json={"events": [event]})
    assert (answer.status_code, answer.content) == (202, b""), answer.text
