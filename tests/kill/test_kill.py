"""kill -9 of the service at any labelled step: nothing acknowledged is lost, nothing is half there, nothing blocks.

Issue items: DESIGN §3-5, cases.md D12. 200 seeded kills are spread over the steps of a round of calls. The client
keeps the digests that it was told of. After each kill a new service on the same folder has to show them, whole, at
once; and what was asked for without an answer is there altogether or not at all.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.kill.client import Service, Zygote

KILLS = 200
SESSIONS = 3


@dataclass(slots=True)
class Session:
    """What a session must hold. `maybe` are whole outcomes of which one call may have left any or none."""

    ident: str
    files: dict[str, bytes] = field(default_factory=dict)
    maybe: dict[str, bytes] | None = None
    retry: tuple[str, str] | None = None


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    made = Zygote(tmp_path_factory.mktemp("pipes"))
    yield made
    made.close()


def run(service: Service, session: str | None, program: list[list[str]], key: str | None = None) -> str:
    """Run a program; the id of its session."""
    body = {"lang": "py", "code": json.dumps(program), **({"session_id": session} if session else {})}
    answer = service.http.post("/v1/exec", json=body, headers={"Idempotency-Key": key} if key else {})
    assert answer.status_code == 200, answer.text
    ident: str = answer.json()["session_id"]
    return ident


def upload(service: Service, session: str, files: dict[str, bytes]) -> None:
    """Upload a batch: all files in one version."""
    parts = [("file", (name, data)) for name, data in files.items()]
    answer = service.http.post("/v1/upload/batch", data={"session_id": session}, files=parts)
    assert answer.status_code == 200, answer.text


def round_of_calls(service: Service, session: Session, number: int) -> None:
    """Uploads and runs in one session: a pair of files, a large one, an appended line under an Idempotency-Key."""
    text = f"round {number}\n"

    def attempt(files: dict[str, bytes], retry: tuple[str, str] | None = None) -> None:
        session.maybe, session.retry = files, retry

    def acknowledged() -> None:
        assert session.maybe is not None
        session.files |= session.maybe
        session.maybe, session.retry = None, None

    attempt({"pair/x": text.encode(), "pair/y": text.encode()})
    run(service, session.ident, [["write", "pair/x", text], ["write", "pair/y", text]])
    acknowledged()
    large = text * 400
    attempt({"up/small.txt": text.encode(), "up/large.txt": large.encode()})
    upload(service, session.ident, {"up/small.txt": text.encode(), "up/large.txt": large.encode()})
    acknowledged()
    key, program = f"key-{session.ident}-{number}", json.dumps([["append", "log", text]])
    attempt({"log": session.files.get("log", b"") + text.encode()}, (key, program))
    run(service, session.ident, json.loads(program), key)
    acknowledged()
    attempt({"big": large.encode(), "pair/x": text.encode() * 2, "pair/y": text.encode() * 2})
    run(service, session.ident, [["write", "big", large], ["write", "pair/x", text * 2], ["write", "pair/y", text * 2]])
    acknowledged()


def present(service: Service, session: Session) -> dict[str, bytes]:
    """Every listed file with its downloaded bytes."""
    rows = service.http.get(f"/v1/files/{session.ident}").raise_for_status().json()
    found = {}
    for row in rows:
        answer = service.http.get(f"/v1/download/{row['name']}").raise_for_status()
        assert len(answer.content) == row["size"]
        found[row["metadata"]["original-filename"]] = answer.content
    return found


def check(service: Service, session: Session) -> None:
    """Compare a session with what its client was told, and repeat what it has no answer to."""
    if session.retry is not None and session.maybe is not None:
        key, program = session.retry
        run(service, session.ident, json.loads(program), key)
        session.files |= session.maybe
        session.maybe, session.retry = None, None
    found = present(service, session)
    allowed = [session.files] if session.maybe is None else [session.files, session.files | session.maybe]
    assert found in allowed, {name: hashlib.sha256(data).hexdigest()[:8] for name, data in found.items()}
    session.files, session.maybe = found, None


def test_D12_two_hundred_kills_lose_nothing_and_show_nothing_half(zygote: Zygote, tmp_path: Path) -> None:
    data = tmp_path / "data"
    service = zygote.service(data, None)
    sessions = [Session(run(service, None, [["write", "first", str(n)]])) for n in range(SESSIONS)]
    for n, session in enumerate(sessions):
        session.files["first"] = str(n).encode()
    service.arm()
    round_of_calls(service, sessions[0], 0)
    labels = service.steps()
    assert {"before state.transact", "after executor.run", "before os.link", "after os.fsync"} <= set(labels)
    service.end()
    rng = random.Random(20261130)
    order = [1 + n % len(labels) for n in range(KILLS)]
    rng.shuffle(order)
    died = 0
    for number, step in enumerate(order, 1):
        service = zygote.service(data, step)
        for one in sessions:
            check(service, one)
        service.arm()
        try:
            round_of_calls(service, sessions[number % SESSIONS], number)
        except httpx.TransportError:
            died += 1
        service.end()
    service = zygote.service(data, None)
    for one in sessions:
        check(service, one)
    service.end()
    assert died >= KILLS * 0.9
