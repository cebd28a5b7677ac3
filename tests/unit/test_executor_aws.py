"""The Lambda executor against an endpoint of this machine that answers by a script: every way in which a run fails."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from shared.executor import aws
from shared.executor.aws import LambdaExecutor, make_client
from shared.executor.port import ExecutorFailed
from shared.executor.wire import Entry, RunAnswer, RunRequest
from shared.store.local.objects import FileObjects
from tests.unit.runner_trees import limits

Script = Callable[[dict[str, Any], dict[str, str]], bytes | None]
"""From the event and the headers of an Invoke to the whole HTTP answer; None cuts the connection."""


@dataclass
class Endpoint:
    """What was invoked, and what is answered."""

    script: Script
    url: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    closes: bool = False


@contextmanager
def endpoint(script: Script) -> Iterator[Endpoint]:
    made = Endpoint(script)
    listening = socket.create_server(("127.0.0.1", 0))
    made.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    accepted: list[socket.socket] = []

    def serve(sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as stream:
            while line := stream.readline():
                headers = {}
                while (row := stream.readline()) not in (b"\r\n", b""):
                    name, _, value = row.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                event = json.loads(stream.read(int(headers.get("content-length", "0"))))
                made.targets.append(line.decode().split(" ")[1])
                made.headers.append(headers)
                made.events.append(event)
                answer = made.script(event, headers)
                if answer is None:
                    return
                try:
                    sock.sendall(answer)
                except OSError:
                    return
                if made.closes:
                    return

    def accept() -> None:
        while True:
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            accepted.append(sock)
            threading.Thread(target=serve, args=(sock,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for sock in accepted:
            sock.close()
        thread.join(5)


@pytest.fixture
def objects(tmp_path: Path) -> FileObjects:
    return FileObjects(tmp_path / "objects")


def executor(made: Endpoint, objects: FileObjects, *, read_s: float = 20, **how: Any) -> LambdaExecutor:
    client = boto3.client(
        "lambda", region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b", endpoint_url=made.url,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=read_s),
    )  # fmt: skip
    return LambdaExecutor(client, "runner", objects, **{"spare_ms": 10_000} | how)


def request(run_id: str = "run-1", **how: Any) -> RunRequest:
    values: dict[str, Any] = {
        "run_id": run_id, "workspace": "w", "lang": "py", "code": "print(1)", "args": ("a",), "tenant": "s_tenant",
        "limits": limits(), "writes": (("p/s/one", ""), ("p/s/two", "")),
    }  # fmt: skip
    return RunRequest(**values | how)


def answered(run_id: str = "run-1", **how: Any) -> RunAnswer:
    values: dict[str, Any] = {
        "run_id": run_id, "phase": "run", "code": 0, "signal": None, "reason": None, "stdout": "1\n", "stderr": "",
        "pack": b"bytes", "changes": (Entry("n\udcff", "file", 0o644, 5, 7, hashlib.sha256(b"bytes").hexdigest()),),
    }  # fmt: skip
    return RunAnswer(**values | how)


def reply(data: Any, status: int = 200, **headers: str) -> bytes:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def sound(event: dict[str, Any], _: dict[str, str]) -> bytes:
    return reply({"run_id": event["run_id"], "answer": answered(event["run_id"]).to_json()})


def held_up(script: Script = sound) -> tuple[Script, threading.Event, threading.Event]:
    """A script that answers once it is let go, the event that says that it was invoked, and the one that lets it go."""
    begun, go = threading.Event(), threading.Event()

    def slow(event: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        begun.set()
        go.wait(30)
        return script(event, headers)

    return slow, begun, go


def refusal(code: str, status: int, **headers: str) -> bytes:
    return reply({"message": "no", "Type": "User"}, status, x_amzn_ErrorType=code, **headers)


def function_error(kind: str, message: str) -> bytes:
    return reply({"errorType": kind, "errorMessage": message}, X_Amz_Function_Error="Unhandled")


def test_a_run_is_one_invoke_as_its_tenant_with_its_grants(objects: FileObjects) -> None:
    key = "p/s/in"
    objects.put_new(key, b"data", hashlib.sha256(b"data").hexdigest())
    with endpoint(sound) as made:
        assert executor(made, objects).run(request(reads={key: ""})) == answered()
        assert made.targets == ["/2015-03-31/functions/runner/invocations"]
        assert made.headers[0]["x-amz-tenant-id"] == "s_tenant"
        assert made.headers[0].get("x-amz-invocation-type", "RequestResponse") == "RequestResponse"
        (event,) = made.events
        assert (event["op"], event["run_id"], event["request"]["code"]) == ("run", "run-1", "print(1)")
        assert event["request"]["reads"][key].startswith("file:/")
        assert [pair[0] for pair in event["request"]["writes"]] == ["p/s/one", "p/s/two"]
        assert all(pair[1].startswith("file:/") for pair in event["request"]["writes"])
        assert event["answer"]["key"].startswith("p/s/")
        assert event["answer"]["key"] not in ("p/s/one", "p/s/two")
        assert "tenant" not in event["request"]


FAILURES: list[tuple[str, bytes | None, str, int | None]] = [
    ("throttled", refusal("TooManyRequestsException", 429, Retry_After="7"), "throttled", 7),
    ("throttled, no word when", refusal("TooManyRequestsException", 429), "throttled", 1),
    ("throttled for a year", refusal("TooManyRequestsException", 429, Retry_After="31536000"), "throttled", 60),
    ("throttled, odd word when", refusal("TooManyRequestsException", 429, Retry_After="soon"), "throttled", 1),
    ("429 of another name", refusal("SomethingException", 429), "throttled", 1),
    ("429 of a proxy", reply(b"slow down", 429), "throttled", 1),
    ("no such function", refusal("ResourceNotFoundException", 404), "unavailable", None),
    ("not allowed", refusal("AccessDeniedException", 403), "unavailable", None),
    ("not isolated by tenant", refusal("InvalidParameterValueException", 400), "unavailable", None),
    ("request too large", refusal("RequestTooLargeException", 413), "unavailable", None),
    ("image not ready", refusal("ResourceNotReadyException", 502), "unavailable", None),
    ("service error", refusal("ServiceException", 500), "broken", None),
    ("502 of a proxy", reply(b"<html>bad gateway</html>", 502), "broken", None),
    ("503 without a name", reply(b"", 503), "broken", None),
    ("timed out", function_error("Sandbox.Timedout", "RequestId: 1 Error: Task timed out after 30.00 s"), "timeout",
     None),
    ("timed out, as the emulator says it", reply(b"Task timed out after 3.00 seconds"), "timeout", None),
    ("crashed", function_error("Runtime.ExitError", "RequestId: 1 Error: Runtime exited"), "broken", None),
    ("crashed, as the emulator says it", reply({"errorType": "Runtime.ExitError", "errorMessage": ""}), "broken", None),
    ("out of memory", function_error("Runtime.OutOfMemory", "signal: killed"), "broken", None),
    ("answer too large", function_error("Function.ResponseSizeTooLarge", "Response payload size exceeded"), "broken",
     None),
    ("raised", function_error("KeyError", "'x'"), "broken", None),
    ("no JSON", reply(b"{"), "broken", None),
    ("empty", reply(b""), "broken", None),
    ("not UTF-8", reply(b'{"run_id":"\xff"}'), "broken", None),
    ("deep", reply(b"[" * 200_000), "broken", None),
    ("a list", reply([1]), "broken", None),
    ("null", reply(None), "broken", None),
    ("another run", reply({"run_id": "run-2", "answer": answered("run-2").to_json()}), "broken", None),
    ("another run inside", reply({"run_id": "run-1", "answer": answered("run-2").to_json()}), "broken", None),
    ("no answer", reply({"run_id": "run-1"}), "broken", None),
    ("answer of another shape", reply({"run_id": "run-1", "answer": {"code": 0}}), "broken", None),
    ("answer of other types", reply({"run_id": "run-1", "answer": answered().to_json() | {"code": "0"}}), "broken",
     None),
    ("answer elsewhere", reply({"run_id": "run-1", "answer_at": "p/other/secret"}), "broken", None),
    ("answer nowhere", reply({"run_id": "run-1", "answer_at": None}), "broken", None),
    ("too many bytes", reply(b" " * (aws.PAYLOAD_BYTES + 1)), "broken", None),
    ("not able", reply({"run_id": "run-1", "error": "unavailable", "why": "layer"}), "unavailable", None),
    ("no time", reply({"run_id": "run-1", "error": "timeout", "why": ""}), "timeout", None),
    ("broken", reply({"run_id": "run-1", "error": "broken", "why": ""}), "broken", None),
    ("an error of its own making", reply({"run_id": "run-1", "error": "throttled", "why": "x" * 999}), "broken", None),
    ("an error that is no text", reply({"run_id": "run-1", "error": [], "why": {}}), "broken", None),
    ("connection lost", None, "broken", None),
    ("lost in the head", b"HTTP/1.1 200 O", "broken", None),
    ("lost in the body", reply(answered().to_json())[:-50], "broken", None),
    ("no HTTP", b"hello\r\n\r\n", "broken", None),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "kind", "after"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_every_failure_has_its_kind_and_is_invoked_once(
    answer: bytes | None, kind: str, after: int | None, objects: FileObjects
) -> None:
    def script(event: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        return answer

    with endpoint(script) as made:
        made.closes = True
        room = executor(made, objects)
        with pytest.raises(ExecutorFailed) as failed:
            room.run(request())
        assert (failed.value.kind, failed.value.retry_after) == (kind, after)
        assert len(made.events) == 1
        with pytest.raises(ExecutorFailed) as again:
            room.run(request())
        assert again.value.kind == "broken"
        assert len(made.events) == 1, "a run id is never invoked twice"
    assert objects.list("p/") == [], "nothing is stored"


def test_a_function_that_cannot_be_reached_is_unavailable(objects: FileObjects) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = Endpoint(sound, f"http://127.0.0.1:{listening.getsockname()[1]}")
    with pytest.raises(ExecutorFailed) as failed:
        executor(made, objects).run(request())
    assert failed.value.kind == "unavailable"


def test_a_silent_function_is_a_timeout_by_the_client_and_by_the_run(objects: FileObjects) -> None:
    over = threading.Event()

    def silent(event: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        over.wait(30)
        return None

    with endpoint(silent) as made:
        for read_s, spare_ms in ((0.3, 10_000), (20.0, 300)):
            begun = time.monotonic()
            with pytest.raises(ExecutorFailed) as failed:
                executor(made, objects, read_s=read_s, spare_ms=spare_ms).run(request(limits=limits(wall_ms=200)))
            assert failed.value.kind == "timeout"
            assert time.monotonic() - begun < 8
        assert len(made.events) == 2
        over.set()


def test_the_client_sends_once_and_waits_longer_than_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    client = make_client(300_000, region="eu-central-1")
    config: Any = client.meta.config
    assert config.retries["total_max_attempts"] == 1
    assert config.read_timeout > 300


def test_a_large_request_goes_by_an_object(objects: FileObjects) -> None:
    def script(event: dict[str, Any], headers: dict[str, str]) -> bytes:
        assert "request" not in event
        data = Path(event["request_at"].removeprefix("file:")).read_bytes()
        assert len(data) == event["request_bytes"]
        assert RunRequest.of(json.loads(data)).code == "x" * 6_000_000
        return sound(event, headers)

    with endpoint(script) as made:
        assert executor(made, objects).run(request(code="x" * 6_000_000)) == answered()
        assert len(json.dumps(made.events[0])) < 10_000
        with pytest.raises(ExecutorFailed) as failed:
            executor(made, objects).run(request(code="x" * 6_000_000, writes=()))
        assert failed.value.kind == "unavailable"


def place(event: dict[str, Any], data: bytes) -> bytes:
    path = Path(event["answer"]["url"].removeprefix("file:"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return reply({"run_id": event["run_id"], "answer_at": event["answer"]["key"]})


def test_a_large_answer_is_read_from_where_it_was_allowed(objects: FileObjects) -> None:
    wanted = answered(stdout="y" * 7_000_000)
    data = json.dumps({"run_id": "run-1", "answer": wanted.to_json()}).encode()
    with endpoint(lambda event, _: place(event, data)) as made:
        assert executor(made, objects).run(request()) == wanted


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"[" * 200_000,
        json.dumps({"run_id": "run-2", "answer": answered("run-2").to_json()}).encode(),
        json.dumps({"run_id": "run-1", "answer": answered("run-2").to_json()}).encode(),
        json.dumps({"run_id": "run-1", "error": "unavailable"}).encode(),
    ],
    ids=["empty", "cut", "list", "deep", "another run", "another run inside", "error"],
)  # fmt: skip
def test_a_large_answer_is_as_hostile_as_a_small_one(data: bytes, objects: FileObjects) -> None:
    with endpoint(lambda event, _: place(event, data)) as made:
        with pytest.raises(ExecutorFailed) as failed:
            executor(made, objects).run(request())
        assert failed.value.kind == "broken"


BOMBS = {
    "lists": b'{"run_id":"run-1","answer":[' + b"[]," * 2_000_000 + b"0]}",
    "objects": b'{"run_id":"run-1","answer":[' + b"{}," * 2_000_000 + b"0]}",
    "numbers": b'{"run_id":"run-1","answer":[' + b"7777," * 1_200_000 + b"0]}",
    "texts": b'{"run_id":"run-1","answer":[' + b'"ab",' * 1_200_000 + b"0]}",
    "behind a text": b'{"run_id":"run-1","x":"\\\\\\"","answer":[' + b"[]," * 2_000_000 + b"0]}",
    "UTF-16": ('{"run_id":"run-1","answer":[' + "[]," * 1_000_000 + "0]}").encode("utf-16"),
}
"""Some 6 MB each, and some hundred of memory if anything is made of them."""


@pytest.mark.parametrize("by_object", [False, True])
@pytest.mark.parametrize("bomb", BOMBS)
def test_an_answer_of_too_many_values_is_refused_before_anything_is_made_of_it(
    bomb: str, by_object: bool, objects: FileObjects
) -> None:
    data = BOMBS[bomb]
    with endpoint(lambda event, _: place(event, data) if by_object else reply(data)) as made:
        tracemalloc.start()
        try:
            with pytest.raises(ExecutorFailed) as failed:
                executor(made, objects).run(request())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert failed.value.kind == "broken"
    assert peak < 12 * len(data), f"{peak >> 20} MiB of {len(data) >> 20}"


@pytest.mark.parametrize("sign", [",", '"', "\\", "[{", '\\"[,'])
def test_an_answer_of_the_most_entries_and_of_any_text_is_read(sign: str, objects: FileObjects) -> None:
    entries = limits().workspace_entries
    rows = tuple(Entry(f"{place}{sign}", "file", 0o644, 5, 7, "0" * 64, "", "p/s/one", 9) for place in range(entries))
    gone = tuple(f"{place}" for place in range(entries))
    wanted = answered(changes=rows, deleted=gone, stdout=sign * 500_000)
    data = json.dumps({"run_id": "run-1", "answer": wanted.to_json()}).encode()
    before = tuple(Entry(name, "dir", 0o755) for name in gone)
    with endpoint(lambda event, _: place(event, data)) as made:
        assert executor(made, objects).run(request(manifest=before)) == wanted


def test_an_answer_object_above_the_bound_is_not_read(objects: FileObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "ANSWER_BYTES", 1_000)
    with endpoint(lambda event, _: place(event, b" " * 1_001)) as made:
        with pytest.raises(ExecutorFailed) as failed:
            executor(made, objects).run(request())
        assert failed.value.kind == "broken"


def test_a_cancelled_run_answers_at_once_and_its_late_answer_is_dropped(objects: FileObjects) -> None:
    slow, begun, go = held_up()
    with endpoint(slow) as made:
        room = executor(made, objects)
        answers: list[RunAnswer] = []
        thread = threading.Thread(target=lambda: answers.append(room.run(request())))
        thread.start()
        assert begun.wait(10)
        room.cancel("another")
        assert not answers
        room.cancel("run-1")
        thread.join(5)
        assert not thread.is_alive()
        (answer,) = answers
        assert (answer.reason, answer.code, answer.signal, answer.stdout) == ("stopped", None, 9, "")
        assert answer.stderr == "killed: the run was cancelled\n"
        assert (answer.changes, answer.deleted, answer.pack) == ((), (), b"")
        go.set()
        assert room.run(request("run-2")).run_id == "run-2"


def test_a_run_that_waits_for_a_place_can_be_cancelled_and_is_then_not_invoked(objects: FileObjects) -> None:
    slow, begun, go = held_up()
    with endpoint(slow) as made:
        room = executor(made, objects, capacity=1)
        answers: dict[str, str | None] = {}

        def run(name: str) -> None:
            answers[name] = room.run(request(name)).reason

        threads = [threading.Thread(target=run, args=(name,)) for name in ("run-1", "run-2")]
        threads[0].start()
        assert begun.wait(10)
        threads[1].start()
        time.sleep(0.2)
        room.cancel("run-2")
        go.set()
        for thread in threads:
            thread.join(10)
        assert answers == {"run-1": None, "run-2": "stopped"}
        assert [event["run_id"] for event in made.events] == ["run-1"]


def test_no_place_for_the_length_of_a_run_is_throttled(objects: FileObjects) -> None:
    slow, begun, go = held_up()
    with endpoint(slow) as made:
        room = executor(made, objects, capacity=1)
        thread = threading.Thread(target=lambda: room.run(request()))
        thread.start()
        assert begun.wait(10)
        room._spare_ms = 100
        with pytest.raises(ExecutorFailed) as failed:
            room.run(request("run-2", limits=limits(wall_ms=100)))
        assert (failed.value.kind, failed.value.retry_after) == ("throttled", 1)
        go.set()
        thread.join(10)


def test_a_closed_executor_lets_go_of_its_runs_and_takes_none(objects: FileObjects) -> None:
    slow, begun, go = held_up(lambda *_: None)
    with endpoint(slow) as made:
        room = executor(made, objects)
        kinds: list[str] = []

        def run(name: str) -> None:
            try:
                room.run(request(name))
            except ExecutorFailed as failed:
                kinds.append(failed.kind)

        thread = threading.Thread(target=run, args=("run-1",))
        thread.start()
        assert begun.wait(10)
        room.close()
        thread.join(5)
        run("run-2")
        assert kinds == ["unavailable", "unavailable"]
        assert len(made.events) == 1
        go.set()


def test_a_run_without_a_tenant_is_not_invoked(objects: FileObjects) -> None:
    with endpoint(sound) as made:
        with pytest.raises(ExecutorFailed) as failed:
            executor(made, objects).run(request(tenant=""))
        assert failed.value.kind == "unavailable"
        assert made.events == []


def test_a_cancel_while_it_waits_for_a_place_is_noticed_at_once(objects: FileObjects) -> None:
    slow, begun, go = held_up()
    with endpoint(slow) as made:
        room = executor(made, objects, capacity=1)
        first = threading.Thread(target=lambda: room.run(request("run-1")))
        first.start()
        assert begun.wait(10)
        reasons: list[str | None] = []
        second = threading.Thread(target=lambda: reasons.append(room.run(request("run-2")).reason))
        second.start()
        time.sleep(0.1)
        room.cancel("run-2")
        second.join(5)
        assert reasons == ["stopped"]
        go.set()
        first.join(10)


@pytest.mark.parametrize(
    ("stdout", "heard"), [("all of π\n", [("stdout", "all of π\n")]), ("", []), ("no \ud800 text", [])]
)
def test_the_output_is_told_once_at_the_end(objects: FileObjects, stdout: str, heard: list[tuple[str, str]]) -> None:
    told: list[tuple[str, str]] = []
    wanted = answered(stdout=stdout, stderr="not this")
    with endpoint(lambda event, _: reply({"run_id": event["run_id"], "answer": wanted.to_json()})) as made:
        answer = executor(made, objects).run(request(), lambda stream, text: told.append((stream, text)))
    assert answer == wanted
    assert told == heard
