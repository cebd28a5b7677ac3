"""`/v1/exec` over the wire with a scripted executor: shapes, statuses, continuing, stopping (exec.md A3, A7, A8)."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.errors import Code
from shared.limits import Limits
from tests.wire.scripted import Scripted, program
from tests.wire.service import Door, Service, expect_eventually, open_test_room, read_answer, serving, sessions

ID = re.compile(r"[A-Za-z0-9_-]{21}")
BASES = ("/v1/exec", "/v1/exec/exec")


def body(**script: Any) -> dict[str, Any]:
    return {"lang": "py", "code": program(**script)}


@pytest.mark.parametrize("base", BASES)
def test_a_run_answers_the_members_of_the_contract_and_no_others(service: Service, base: str) -> None:
    with service.client() as client:
        answer = client.post(base, json=body(stdout="rows: 2\n", write={"out/plot.png": "x" * 1843}))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    made = answer.json()
    session, file = made["session_id"], made["files"][0]["id"]
    assert ID.fullmatch(session)
    assert ID.fullmatch(file)
    assert made == {
        "session_id": session,
        "stdout": "rows: 2\n",
        "stderr": "",
        "files": [
            {
                "id": file,
                "name": "out/plot.png",
                "path": "out/plot.png",
                "storage_session_id": session,
                "session_id": session,
                "size": 1843,
            }
        ],
        "deleted_files": [],
        "code": 0,
        "signal": None,
        "status": None,
        "message": None,
        "wall_time": 7,
    }


def test_G7_a_program_that_fails_is_200(service: Service) -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"code": 1, "stderr": "ZeroDivisionError\n"}, {"code": 1, "signal": None, "status": None}),
        ({"signal": 9, "stderr": "killed\n"}, {"code": None, "signal": "SIGKILL", "status": "SG"}),
        ({"signal": 11}, {"code": None, "signal": "SIGSEGV", "status": "SG"}),
        ({"signal": 9, "reason": "time", "stderr": "late\n"}, {"code": None, "signal": "SIGKILL", "status": "TO"}),
        ({"signal": 9, "reason": "output", "cut": True}, {"signal": "SIGKILL", "status": "OL"}),
        ({"code": 0, "cut": True}, {"code": 0, "status": "OL"}),
        ({"signal": 9, "reason": "memory"}, {"signal": "SIGKILL", "status": "SG"}),
    ]
    with service.client() as client:
        for script, expected in rows:
            answer = client.post("/v1/exec", json=body(stdout="so far\n", **script))
            assert answer.status_code == 200, script
            made = answer.json()
            assert expected.items() <= made.items(), script
            assert made["stdout"] == "so far\n"
            assert ID.fullmatch(made["session_id"])


def test_B1_B2_output_is_json_text_exactly(service: Service) -> None:
    outputs = ["a\0b", "\ufffd\ufffd\0ok", "π 🤣\r\n\t", "  lead and trail \n\n", "\u2028\u0085\x1b[0m", '"\\/', ""]
    with service.client() as client:
        for text in outputs:
            answer = client.post("/v1/exec", json=body(stdout=text, stderr=text))
            assert (answer.json()["stdout"], answer.json()["stderr"]) == (text, text)
            assert json.loads(answer.content.decode("utf-8"))["stdout"] == text


FAILURES = [
    ("unavailable", 503, "executor_unavailable"),
    ("broken", 502, "executor_failed"),
    ("timeout", 504, "executor_timeout"),
]


@pytest.mark.parametrize(("kind", "status", "code"), FAILURES)
def test_an_executor_that_fails_is_an_error_and_leaves_nothing(
    service: Service, kind: str, status: int, code: str
) -> None:
    before = sessions(service.room)
    with service.client() as client:
        answer = client.post("/v1/exec", json=body(fail=kind))
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "message"}
    assert answer.json()["error"] == code
    assert sessions(service.room) == before


def test_an_unexpected_error_is_500_and_says_nothing(service: Service) -> None:
    with service.client() as client:
        answer = client.post("/v1/exec", json=body(**{"raise": "secret /some/path wr_key"}))
    assert answer.status_code == 500
    assert answer.json() == {"error": "internal_error", "message": "The service met an unexpected condition."}
    assert answer.headers["x-request-id"]


def test_the_query_of_a_run_is_ignored(service: Service) -> None:
    query = "?lang=js&code=x&session_id=AAAAAAAAAAAAAAAAAAAAA&timeout=nonsense&%ff=%00"
    with service.client() as client:
        answer = client.post("/v1/exec" + query, json=body(stdout="body"))
    assert answer.status_code == 200
    assert answer.json()["stdout"] == "body"


def test_members_of_older_clients_and_null_are_ignored(service: Service) -> None:
    more = {
        "LIBRECHAT_CODE_API_KEY": "k",
        "apiKey": "k",
        "intent": "x",
        "workspace_instance_id": "0" * 64,
        "anything": {"deep": [1, None]},
        "session_id": None,
        "timeout": None,
        "files": None,
        "args": None,
        "user_id": None,
        "entity_id": None,
        "runtime_session_hint": None,
    }
    headers = {"X-CodeAPI-Expected-Profile": "stateful", "X-LibreChat-Code-Worker-ID": "w", "Content-Type": "text/x"}
    with service.client() as client:
        answer = client.post("/v1/exec", content=json.dumps({**body(show="args"), **more}), headers=headers)
    assert answer.status_code == 200
    assert answer.json()["stdout"] == "[]"


def test_of_two_members_with_one_name_the_last_counts(service: Service) -> None:
    code = json.dumps(program(show="args"))
    raw = '{"lang":"js","code":"no","lang":"py","code":' + code + ',"args":["a"],"args":["b"]}'
    answer = service.ask("POST", "/v1/exec", body=raw.encode())
    assert answer.status == 200
    assert json.loads(json.loads(answer.body)["stdout"]) == ["b"]


def test_D2_both_spellings_of_a_files_home_are_read(service: Service) -> None:
    with service.client() as client:
        up = client.post("/v1/upload", files={"file": ("in/data.csv", b"1,2\n")}).json()
        home, file = up["storage_session_id"], up["files"][0]["fileId"]
        for home_name in ("storage_session_id", "session_id"):
            for reference in (
                {"id": file, "name": "in/data.csv", home_name: home},
                {"id": file, "name": "in/data.csv", home_name: home, "kind": "user", "resource_id": "r", "version": 1},
            ):
                made = client.post("/v1/exec", json={**body(show="files"), "files": [reference]}).json()
                assert made["session_id"] == home, "the run happens in the session that the file names"
                assert json.loads(made["stdout"]) == ["in/data.csv"]
                assert made["stderr"] == ""
        both = {"id": file, "name": "x.csv", "storage_session_id": home, "session_id": "B" * 21}
        made = client.post("/v1/exec", json={**body(show="files"), "files": [both]}).json()
        assert made["session_id"] == home


def test_D2_a_file_of_another_session_is_mounted_under_the_name_of_the_request(service: Service) -> None:
    with service.client() as client:
        up = client.post("/v1/upload", files={"file": ("a.csv", b"1")}).json()
        here = client.post("/v1/exec", json=body(write={"own.txt": "x"})).json()["session_id"]
        reference = {"id": up["files"][0]["fileId"], "name": "sub/b.csv", "storage_session_id": up["session_id"]}
        made = client.post("/v1/exec", json={**body(show="files"), "session_id": here, "files": [reference]}).json()
        assert made["session_id"] == here
        assert set(json.loads(made["stdout"])) >= {"own.txt", "sub/b.csv"}


def test_an_input_that_is_not_there_is_one_line_on_stderr(service: Service) -> None:
    with service.client() as client, service.client(service.other_key) as other:
        foreign = other.post("/v1/upload", files={"file": ("a.csv", b"1")}).json()
        mine = client.post("/v1/upload", files={"file": ("b.csv", b"1")}).json()
        lines = set()
        for home, file in (
            (foreign["session_id"], foreign["files"][0]["fileId"]),
            ("C" * 21, "D" * 21),
            (mine["session_id"], "E" * 21),
            ("", "F" * 21),
        ):
            reference = {"id": file, "name": "a.csv", "storage_session_id": home}
            answer = client.post("/v1/exec", json={**body(stdout="on"), "files": [reference]})
            assert answer.status_code == 200
            made = answer.json()
            assert made["stdout"] == "on"
            assert made["session_id"] not in (foreign["session_id"], "C" * 21)
            lines.add(made["stderr"])
        assert len(lines) == 1
        assert lines.pop().count("\n") == 1


def test_a_hint_finds_the_same_session_again(service: Service) -> None:
    with service.client() as client, service.client(service.other_key) as other:
        hint = {"runtime_session_hint": "conversation:1", "user_id": "u"}
        first = client.post("/v1/exec", json={**body(write={"a": "a"}), **hint}).json()["session_id"]
        assert client.post("/v1/exec", json={**body(), **hint}).json()["session_id"] == first
        assert client.post("/v1/exec", json={**body(), **hint, "user_id": "v"}).json()["session_id"] != first
        assert other.post("/v1/exec", json={**body(), **hint}).json()["session_id"] != first


def test_an_idempotency_key_runs_once_and_answers_again(service: Service) -> None:
    with service.client() as client, service.client(service.other_key) as other:
        started = service.executor.started
        headers = {"Idempotency-Key": "order 66"}
        first = client.post("/v1/exec", json=body(stdout="once"), headers=headers)
        again = client.post("/v1/exec/exec", json={**body(stdout="once"), "apiKey": "ignored"}, headers=headers)
        assert first.status_code == again.status_code == 200
        assert first.content == again.content
        assert service.executor.started == started + 1
        changed = client.post("/v1/exec", json=body(stdout="twice"), headers=headers)
        assert changed.status_code == 422
        assert changed.json()["error"] == "idempotency_conflict"
        assert (
            other.post("/v1/exec", json=body(stdout="once"), headers=headers).json()["session_id"]
            != (first.json()["session_id"])
        )


def test_an_idempotency_key_is_409_while_its_run_goes_on_and_free_after_a_failure(service: Service) -> None:
    headers = {"Idempotency-Key": "slow"}
    with service.client() as client:
        done: list[httpx.Response] = []
        waiting = threading.Thread(
            target=lambda: done.append(client.post("/v1/exec", json=body(wait=1, stdout="end"), headers=headers))
        )
        waiting.start()
        assert service.executor.begun.acquire(timeout=10)
        with service.client() as second:
            busy = second.post("/v1/exec", json=body(wait=1, stdout="end"), headers=headers)
        waiting.join(20)
        assert busy.status_code == 409
        assert busy.json()["error"] == "in_progress"
        assert done[0].status_code == 200
        fails = {"Idempotency-Key": "fails"}
        for _ in range(2):
            started = service.executor.started
            assert client.post("/v1/exec", json=body(fail="broken"), headers=fails).status_code == 502
            assert service.executor.started == started + 1, "a failure of ours is not stored"


def test_an_asynchronous_run_is_fetched_later(service: Service) -> None:
    with service.client() as client:
        for preference in ("respond-async", "Respond-Async, wait=5", "wait=1;x, respond-async; y=1"):
            answer = client.post("/v1/exec", json=body(stdout="late"), headers={"Prefer": preference})
            assert answer.status_code == 202
            assert answer.headers["preference-applied"] == "respond-async"
            record = answer.json()
            assert set(record) == {"id", "status"}
            assert record["status"] == "running"
            where = answer.headers["location"]
            assert where == f"/v1/exec/runs/{record['id']}"
            expect_eventually(lambda where=where: client.get(where).json()["status"] != "running")
            finished = client.get(where).json()
            assert finished["status"] == "finished"
            assert finished["result"]["stdout"] == "late"
        for preference in ("wait=5", "respond-asynchronously", 'x="respond-async"'):
            assert client.post("/v1/exec", json=body(), headers={"Prefer": preference}).status_code == 200


def test_an_asynchronous_run_that_fails_says_so(service: Service) -> None:
    with service.client() as client:
        answer = client.post("/v1/exec", json=body(fail="unavailable"), headers={"Prefer": "respond-async"})
        where = answer.headers["location"]
        expect_eventually(lambda: client.get(where).json()["status"] != "running")
        record = client.get(where).json()
        assert record["status"] == "failed"
        assert record["error"]["error"] == "executor_unavailable"
        assert "result" not in record


def post_raw(service: Service, sock: socket.socket, content: bytes, *more: str) -> None:
    lines = ["POST /v1/exec HTTP/1.1", "Host: h", f"X-API-Key: {service.key}", f"Content-Length: {len(content)}", *more]
    sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)


@pytest.mark.doors("local", why="an event cannot be taken back: nobody tells the function that its client went away")
def test_a_closed_socket_stops_the_program(service: Service) -> None:
    before = len(service.executor.stopped), sessions(service.room)
    with service.connect() as sock:
        post_raw(service, sock, json.dumps(body(wait=30, write={"a": "a"})).encode())
        assert service.executor.begun.acquire(timeout=10)
    expect_eventually(lambda: len(service.executor.stopped) == before[0] + 1)
    expect_eventually(lambda: not service.executor.running)
    time.sleep(0.1)
    assert sessions(service.room) == before[1]


@pytest.mark.doors("local", why="no closed socket reaches the function at all")
def test_a_closed_socket_does_not_stop_a_run_that_has_an_idempotency_key(service: Service) -> None:
    headers = {"Idempotency-Key": "goes on"}
    sent = json.dumps(body(wait=0.5, stdout="kept")).encode()
    stopped = len(service.executor.stopped)
    with service.connect() as sock:
        post_raw(service, sock, sent, "Idempotency-Key: goes on")
        assert service.executor.begun.acquire(timeout=10)
    started = service.executor.started
    with service.client() as client:
        expect_eventually(lambda: client.post("/v1/exec", content=sent, headers=headers).status_code == 200)
        assert client.post("/v1/exec", content=sent, headers=headers).json()["stdout"] == "kept"
    assert service.executor.started == started
    assert len(service.executor.stopped) == stopped


@pytest.mark.doors("local", why="connections end at the gateway")
def test_the_next_request_on_a_connection_does_not_stop_the_first(service: Service) -> None:
    """A pipelined request is no closed socket."""
    content = json.dumps(body(wait=0.3, stdout="first")).encode()
    with service.connect() as sock:
        post_raw(service, sock, content)
        sock.sendall(b"GET /v1/health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        first = read_answer(sock)
    assert service.executor.begun.acquire(timeout=10)
    assert first.status == 200
    assert json.loads(first.body)["stdout"] == "first"


def post(service: Service, content: dict[str, Any]) -> int:
    with service.client() as client:
        return client.post("/v1/exec", json=content).status_code


@pytest.mark.doors("local", why="each call has an environment of its own there; the platform bounds how many")
def test_more_runs_than_the_queue_holds_are_429_and_starve_nothing_else(tmp_path: Path, door: Door) -> None:
    room = open_test_room(tmp_path, Limits(run_queue=3), Scripted())
    with serving(room, door=door) as service, service.client() as client:
        running = [threading.Thread(target=post, args=(service, body(wait=20))) for _ in range(3)]
        for thread in running:
            thread.start()
        for _ in range(3):
            assert service.executor.begun.acquire(timeout=10)
        answer = client.post("/v1/exec", json=body())
        assert answer.status_code == 429
        wait = answer.json()["retry_after_seconds"]
        assert answer.json() == {
            "error": "rate_limited",
            "message": "Too many requests. Retry later.",
            "retry_after_seconds": wait,
        }
        assert answer.headers["retry-after"] == str(wait)
        began = time.monotonic()
        assert client.get("/v1/health").status_code == 200
        assert client.get("/v1/files/" + "A" * 21).status_code == 404
        assert client.post("/v1/upload", files={"file": ("a", b"a")}).status_code == 200
        assert time.monotonic() - began < 2
        service.executor.close()
        for thread in running:
            thread.join(20)


@pytest.mark.parametrize("value", ["", " ", "x" * 256, "é", "a\tb"])
def test_an_idempotency_key_that_cannot_be_one_is_400(service: Service, value: str) -> None:
    answer = service.ask("POST", "/v1/exec", headers={"Idempotency-Key": value}, body=json.dumps(body()).encode())
    assert answer.status == 400
    assert b"`Idempotency-Key`" in answer.body


def test_two_idempotency_keys_are_400(service: Service) -> None:
    with service.connect() as sock:
        post_raw(service, sock, json.dumps(body()).encode(), "Idempotency-Key: a", "Idempotency-Key: a")
        answer = read_answer(sock)
    assert answer.status == 400
    assert b"`Idempotency-Key`" in answer.body


def test_A16_a_timeout_is_honoured_within_the_cap_or_refused(service: Service) -> None:
    with service.client() as client:
        for timeout in (1, 1000, 300_000):
            assert client.post("/v1/exec", json={**body(), "timeout": timeout}).status_code == 200
            assert service.executor.wall_ms == timeout
        assert client.post("/v1/exec", json=body()).status_code == 200
        assert service.executor.wall_ms == 30_000
        started = service.executor.started
        refused: tuple[Any, ...] = (0, -1, "5", "", 10**9, 300_001, 1.5, True, [1], {}, 10**30)
        for wrong in refused:
            answer = client.post("/v1/exec", json={**body(), "timeout": wrong})
            assert answer.status_code == 400, wrong
            assert answer.json()["error"] == Code.INVALID_REQUEST.value.code
            assert "`timeout`" in answer.json()["message"]
        assert service.executor.started == started
