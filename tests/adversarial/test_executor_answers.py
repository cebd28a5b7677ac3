"""An executor process that was taken over: what it says fails its runs at once, and no other error comes of it."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import pytest

from shared.executor import warm
from shared.executor.local import LocalExecutor
from shared.executor.port import ExecutorFailed
from shared.executor.wire import RunAnswer, RunRequest
from shared.store.local.objects import FileObjects
from tests.adversarial.runner_helpers import limits

PROCESS = """
import json, socket, struct, sys
sock = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
def say(data): sock.sendall(struct.pack(">I", len(data)) + data)
sock.recv(65536)
say(HEALTH)
sock.recv(65536)
sock.sendall(ANSWER)
"""
HEALTH = {"health": {"trouble": "", "languages": {}, "layers": {}}}


def frame(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


def told(run: object) -> bytes:
    return frame(json.dumps(run))


ANSWERS = {
    "a deep frame": frame("[" * 200_000),
    "a deep object": frame('{"run_id":' * 100_000),
    "a number of a million digits": frame('{"run_id":' + "9" * 1_000_000 + "}"),
    "a frame above the limit": struct.pack(">I", 0xFFFFFFFF),
    "half a frame": struct.pack(">I", 100) + b"{",
    "no object": frame("[]"),
    "not UTF-8": struct.pack(">I", 2) + b"\xff\xfe",
    "nothing": b"",
    "no answer": told({"run_id": "r"}),
    "a text for an answer": told({"run_id": "r", "answer": "x"}),
    "an object for a reason": told({"run_id": "r", "answer": {"reason": {}}}),
    "a list for an error": told({"run_id": "r", "error": ["unavailable"], "why": {"a": 1}}),
}
HEALTHS: tuple[object, ...] = (
    {"health": None},
    {"health": {}},
    {"health": {"trouble": 1, "languages": {}, "layers": {}}},
    {"health": {"trouble": "", "languages": [], "layers": {}}},
    {"health": {"trouble": "", "languages": {"py": {}}, "layers": {}}},
    {"health": {"trouble": "", "languages": {}, "layers": {"filter": "active"}}},
)


def executor(folder: Path, monkeypatch: pytest.MonkeyPatch, health: object, answer: bytes) -> LocalExecutor:
    place = folder / "sandbox_image" / "runner"
    place.mkdir(parents=True)
    source = PROCESS.replace("HEALTH", repr(json.dumps(health).encode())).replace("ANSWER", repr(answer))
    (place / "__main__.py").write_text(source)
    monkeypatch.setattr(warm, "PROJECT", folder)
    objects = FileObjects(folder / "objects")
    return LocalExecutor(objects, root=folder, jail=folder, work=folder, required_layers=frozenset())


def request() -> RunRequest:
    return RunRequest(run_id="r", workspace="w", lang="py", code="", args=(), limits=limits())


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_is_none_fails_its_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = executor(tmp_path, monkeypatch, HEALTH, ANSWERS[kind])
    begun = time.monotonic()
    try:
        with pytest.raises(ExecutorFailed) as failed:
            made.run(request())
    finally:
        made.close()
    assert failed.value.kind in ("broken", "unavailable")
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize("health", HEALTHS)
def test_a_process_that_does_not_say_how_it_is_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, health: object
) -> None:
    made = executor(tmp_path, monkeypatch, health, b"")
    try:
        with pytest.raises(ExecutorFailed):
            made.run(request())
        with pytest.raises(ExecutorFailed):
            made.health()
    finally:
        made.close()


SOUND = RunAnswer(run_id="r", phase="run", code=0, signal=None, reason=None, stdout="hello", stderr="")


def piece(**changed: object) -> bytes:
    return told({"op": "output", "run_id": "r", "stream": "stdout", "data": "he"} | changed)


@pytest.mark.parametrize(
    ("frames", "heard"),
    [
        ([piece(), piece(data="llo")], "hello"),
        ([piece(run_id="other"), piece()], "he"),
        ([piece(run_id=["r"]), piece(run_id=None), piece()], "he"),
        ([piece(), piece(data="\ud800"), piece()], "he"),
        ([piece(), piece(data="x" * 20_000), piece()], "he"),
        ([piece(), piece(data=7), piece()], "he"),
        ([piece(), piece(data=""), piece()], "he"),
        ([piece(), piece(stream="stdin"), piece()], "he"),
        ([piece(), piece(stream={}), piece()], "he"),
        ([piece(data="x" * 10_000)] * 500, "x" * 100_000),
    ],
)
def test_what_is_no_sound_piece_of_output_is_never_told_nor_what_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: list[bytes], heard: str
) -> None:
    answer = b"".join(frames) + told({"run_id": "r", "answer": SOUND.to_json()})
    made = executor(tmp_path, monkeypatch, HEALTH, answer)
    pieces: list[str] = []
    asked = RunRequest(run_id="r", workspace="w", lang="py", code="", args=(), limits=limits(stdout_bytes=100_000))
    try:
        assert made.run(asked, lambda stream, text: pieces.append(text)) == SOUND
    finally:
        made.close()
    assert "".join(pieces) == heard


def test_output_that_nobody_asked_for_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = piece() + told({"run_id": "r", "answer": SOUND.to_json()})
    made = executor(tmp_path, monkeypatch, HEALTH, answer)
    try:
        assert made.run(request()) == SOUND
    finally:
        made.close()
