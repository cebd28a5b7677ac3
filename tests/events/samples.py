"""The samples of `events/`, their placeholders filled, and an environment to answer them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from functions.environment import HERE
from shared.executor.port import Output
from shared.executor.wire import RunAnswer, RunRequest
from shared.identity import Caller
from shared.limits import Limits
from shared.operations.base import Call, operations
from shared.operations.grants import finish_grant, open_grant
from shared.operations.room import Room
from shared.operations.source_uploads import add_part
from shared.operations.sources import create_source
from shared.settings import Settings
from tests.wire.scripted import Scripted, program
from tests.wire.service import expect_eventually, make_key, open_test_room

EVENTS = Path(__file__).parents[2] / "events"
PROJECT = "first"
SETTINGS = Settings(dev_key=False)
REQUEST_ID = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"


@dataclass
class Context:
    """What a function is handed beside its event."""

    aws_request_id: str = REQUEST_ID
    left_ms: int | None = 900_000
    tenant_id: str | None = "sample"
    times: list[int] = field(default_factory=list)

    def get_remaining_time_in_millis(self) -> int:
        """What is left: each of `times` once, then `left_ms`."""
        return self.times.pop(0) if self.times else self.left_ms or 0


class Running(Scripted):
    """The scripted executor, that runs a program of plain Python too: as the samples have it."""

    def run(self, request: RunRequest, output: Output | None = None) -> RunAnswer:
        if not request.code.lstrip().startswith("{"):
            command = [sys.executable, "-I", "-c", request.code, *request.args]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            script = program(stdout=ran.stdout, stderr=ran.stderr, code=ran.returncode)
            request = replace(request, code=script)
        return super().run(request)


@dataclass
class Stage:
    """A room behind the functions, and the key that its callers have."""

    room: Room
    key: str
    other_key: str

    @property
    def executor(self) -> Running:
        assert isinstance(self.room.executor, Running)
        return self.room.executor

    def do(self, operation: str, /, **given: Any) -> Any:
        """Run an operation as the project of `key`, behind every door."""
        one = operations()[operation]
        return one.run(self.room, Call(Caller(PROJECT, "test")), one.parse(given))

    def ask(self, operation: str, given: Any = None, **more: Any) -> dict[str, Any]:
        """An event of the direct door."""
        event = {"operation": operation, "credential": self.key, "input": given or {}, **more}
        return {name: value for name, value in event.items() if value is not ...}

    def values(self) -> dict[str, str]:
        """Something real for each placeholder of the samples."""
        session = str(self.do("files.write", name="notes/one.txt", content="one\n").session_id)
        run_id = str(self.do("exec.start", lang="py", code=program(stdout="done")).id)
        expect_eventually(lambda: self.do("runs.get", run_id=run_id).status == "finished")
        body = b"large\n"
        grant = self.do("uploads.create", name="l", size=len(body), sha256=hashlib.sha256(body).hexdigest())
        self.put(grant.url, body)
        return {
            "credential": self.key,
            "session_id": session,
            "run_id": run_id,
            "upload_id": str(grant.upload_id),
            "project": PROJECT,
            **self.sources(),
            **self.session(),
        }

    def sources(self) -> dict[str, str]:
        """A source file, and an upload with its one part."""
        call = Call(Caller(PROJECT, "test"))
        about = {"bytes": 6, "filename": "l", "mime_type": "text/plain", "purpose": "user_data"}
        begun = str(self.do("sources.begin_upload", **about).id)
        with self.room.objects.stage() as one, self.room.objects.stage() as other:
            one.write(b"one\n")
            other.write(b"large\n")
            return {
                "source_id": create_source(self.room, call, "one.txt", one).id,
                "source_upload_id": begun,
                "part_id": add_part(self.room, call, begun, other).id,
            }

    def session(self) -> dict[str, str]:
        """A saved agent, and an idle Session whose Turn has published a file."""
        agent = str(self.do("agents.create", model="program:py").id)
        script = program(stdout="42\n", write={"outputs/one.txt": "one\n"})
        hosted = {"type": "openai_hosted"}
        session = str(self.do("sessions.create", agent_id=agent, environment=hosted, input=script).id)
        expect_eventually(lambda: self.do("sessions.get", session_id=session).status == "idle")
        (turn,) = self.do("turns.list", session_id=session).data
        (artifact,) = self.do("artifacts.list", session_id=session).data
        return {
            "agent_id": agent,
            "sess_id": session,
            "environment_id": str(artifact.environment_id),
            "turn_id": str(turn.id),
            "artifact_id": str(artifact.id),
        }

    def put(self, url: str, body: bytes) -> None:
        """Send the bytes of an upload grant as a client does."""
        grant = open_grant(self.room, url.rpartition("/")[2])
        with self.room.objects.stage() as stage:
            stage.write(body)
            finish_grant(self.room, grant, stage)


@contextmanager
def staged(folder: Path, **limits: Any) -> Iterator[Stage]:
    """An environment whose functions have a room of their own on this machine."""
    room = open_test_room(folder, Limits(**limits), Running())
    with HERE.using(room, SETTINGS):
        try:
            yield Stage(room, make_key(room, PROJECT), make_key(room, "second"))
        finally:
            room.background.shutdown(wait=True)
            room.executor.close()


def names(folder: str) -> list[str]:
    """The samples of one function."""
    return sorted(path.stem for path in (EVENTS / folder).glob("*.json"))


def load(name: str, values: dict[str, str]) -> Any:
    """A sample with its placeholders filled. One that has no value is a defect of the sample."""
    text = (EVENTS / f"{name}.json").read_text("utf-8")
    for placeholder, value in values.items():
        text = text.replace(f"<{placeholder}>", value)
    assert "<" not in text, f"{name} has a placeholder that nobody fills"
    return json.loads(text)
