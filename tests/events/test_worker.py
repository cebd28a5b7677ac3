"""The worker: which messages run what, what is announced, and what comes again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.stub import Stubber

from functions import environment
from functions.direct import app as direct
from functions.worker import app
from functions.worker.announce import EventBridge, Silent
from functions.worker.client import patience
from functions.worker.queue import SqsQueue
from shared.agents_errors import Fault, Refusal
from shared.errors import Code, Failure
from shared.operations import queued
from shared.operations.budget import RESERVE_MS
from shared.operations.exec_models import RunRecord
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable
from tests.events.samples import SETTINGS, Context, Stage
from tests.events.test_direct import again, sqs
from tests.wire.scripted import program

RUN = "r" * 21
OTHER = "s" * 21
URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/runs"


class Kept(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def finished(self, project: str, run_id: str, status: str) -> None:
        self.told.append((project, run_id, status))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """What was announced."""
    kept = Kept()
    monkeypatch.setattr(app, "_announcer", kept)
    return kept.told


Resume = Callable[[Room, str, str], RunRecord | None]


@pytest.fixture
def resume(monkeypatch: pytest.MonkeyPatch) -> Callable[[Resume], None]:
    """Puts something else where the operations resume a run."""
    return lambda code: monkeypatch.setattr(queued, "resume", code)


def message(run_id: str = RUN, project: str = "first") -> dict[str, str]:
    return {"project": project, "run_id": run_id}


def test_a_message_runs_what_it_names_and_its_end_is_announced(
    stage: Stage, told: list[Any], resume: Callable[[Resume], None]
) -> None:
    asked: list[tuple[str, str, int]] = []

    def run(room: Room, project: str, run_id: str) -> RunRecord:
        asked.append((project, run_id, room.limits.answer_ms))
        return RunRecord(id=run_id, status="finished" if run_id == RUN else "failed")

    resume(run)
    assert again(app.handler(sqs(message(), message(OTHER, "second")), Context(left_ms=800_000))) == []
    bound = 800_000 - environment.MARGIN_MS
    assert asked == [("first", RUN, bound), ("second", OTHER, bound)]
    assert told == [("first", RUN, "finished"), ("second", OTHER, "failed")]


def test_a_message_for_which_the_time_would_not_do_comes_again_and_its_run_stays_queued(
    stage: Stage, told: list[Any], resume: Callable[[Resume], None]
) -> None:
    resume(lambda room, project, run_id: RunRecord(id=run_id, status="finished"))
    assert again(app.handler(sqs(message(), message(OTHER)), Context(left_ms=100_000))) == ["m1"]
    assert told == [("first", RUN, "finished")]


@pytest.mark.parametrize(
    "body",
    [
        *("", "x", "[" * 100_000, [], None, {}, {"run_id": RUN}, {"project": 1, "run_id": 2}),
        *(message("../x"), message("x"), message(RUN, "a/b")),
    ],
    ids=lambda one: str(one)[:20],
)
def test_a_message_that_is_none_of_ours_runs_nothing_and_is_done_with(
    stage: Stage, told: list[Any], resume: Callable[[Resume], None], body: Any
) -> None:
    def run(room: Room, project: str, run_id: str) -> RunRecord:
        raise AssertionError("it was run")

    resume(run)
    assert again(app.handler(sqs(body), Context())) == []
    assert told == []


SESSION = "sess_1kcc5ok00" + "A" * 24


def of_session(session: str = SESSION, project: str = "first") -> dict[str, str]:
    return {"project": project, "session": session}


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Room, str, str], None]], None]:
    """Puts something else where a Session's work is done."""
    return lambda code: monkeypatch.setattr(app, "work", code)


def test_a_message_that_names_a_session_has_its_work_done_within_the_calls_time(
    stage: Stage, told: list[Any], works: Any
) -> None:
    asked: list[tuple[str, str, int]] = []
    works(lambda room, project, session: asked.append((project, session, room.limits.answer_ms)))
    assert again(app.handler(sqs(of_session()), Context(left_ms=800_000))) == []
    assert asked == [("first", SESSION, 800_000 - environment.MARGIN_MS)]
    assert told == []


@pytest.mark.parametrize(
    "body",
    [
        of_session("sess_x"), of_session("turn" + SESSION[4:]), of_session(project="a/b"), of_session(project=""),
        {"session": SESSION}, {**of_session(), "run_id": RUN}, {"project": "first", "session": [SESSION]},
        {"project": "first", "session": SESSION + "\n"},
    ],
    ids=lambda one: str(one)[:40],
)  # fmt: skip
def test_a_message_that_names_no_session_does_nothing_and_is_done_with(stage: Stage, works: Any, body: Any) -> None:
    asked: list[str] = []
    works(lambda room, project, session: asked.append(session))
    assert again(app.handler(sqs(body), Context())) == []
    assert asked == []


@pytest.mark.parametrize(
    ("error", "comes"),
    [
        (StoreUnavailable("x"), True), (Failure(Code.STORE_UNAVAILABLE), True), (Failure(Code.RATE_LIMITED), True),
        (Refusal(Fault.NOT_FOUND), False), (Failure(Code.EXECUTOR_BROKEN), False), (RuntimeError("secret"), False),
    ],
    ids=repr,
)  # fmt: skip
def test_a_session_comes_again_only_where_the_store_or_a_place_was_missing(
    stage: Stage, works: Any, error: Exception, comes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(room: Room, project: str, session: str) -> None:
        raise error

    works(broken)
    assert again(app.handler(sqs(of_session()), Context())) == (["m0"] if comes else [])
    assert "secret" not in caplog.text


def test_a_session_waits_while_this_process_takes_no_more_runs(stage: Stage, works: Any) -> None:
    asked: list[str] = []
    works(lambda room, project, session: asked.append(session))
    for _ in range(stage.room.limits.run_queue):
        stage.room.runs.take("first")
    assert again(app.handler(sqs(of_session()), Context())) == ["m0"]
    for _ in range(stage.room.limits.run_queue):
        stage.room.runs.leave("first")
    assert again(app.handler(sqs(of_session()), Context())) == []
    assert asked == [SESSION]


def test_a_run_that_nobody_queued_is_not_run(stage: Stage, told: list[Any]) -> None:
    assert again(app.handler(sqs(message()), Context())) == []
    assert told == []
    assert stage.executor.started == 0


@pytest.mark.parametrize("error", [StoreUnavailable("x"), RuntimeError("x"), KeyError("x")], ids=repr)
def test_a_message_comes_again_where_the_end_could_not_be_stored(
    stage: Stage, told: list[Any], resume: Callable[[Resume], None], error: Exception
) -> None:
    def run(room: Room, project: str, run_id: str) -> RunRecord | None:
        if run_id == OTHER:
            raise error
        return RunRecord(id=run_id, status="finished")

    resume(run)
    assert again(app.handler(sqs(message(), message(OTHER), message()), Context())) == ["m1"]
    assert told == [("first", RUN, "finished")] * 2


def test_a_redelivery_announces_the_stored_end_again_and_runs_nothing(stage: Stage, told: list[Any]) -> None:
    values = stage.values()
    before = stage.executor.started
    for _ in range(2):
        assert again(app.handler(sqs(message(values["run_id"])), Context())) == []
    assert told == [("first", values["run_id"], "finished")] * 2
    assert stage.executor.started == before


class Queue:
    """A run queue that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, str]] = []

    def send(self, message: Mapping[str, str]) -> None:
        self.sent.append(dict(message))


@pytest.fixture
def queue(stage: Stage) -> Iterator[Queue]:
    """The environment's room, with a queue behind it."""
    made = Queue()
    with environment.HERE.using(replace(stage.room, queue=made), SETTINGS):
        yield made


@pytest.mark.parametrize(("script", "status"), [({"stdout": "late"}, "finished"), ({"fail": "broken"}, "failed")])
def test_a_run_that_was_started_through_the_direct_door_is_run_once_by_the_worker(
    stage: Stage, queue: Queue, told: list[Any], script: dict[str, Any], status: str
) -> None:
    start = stage.ask("exec.start", {"lang": "py", "code": program(**script)})
    batch = sqs(start)
    for _ in range(2):
        assert again(direct.handler(batch, Context())) == []
    (named,) = queue.sent
    assert set(named) == {"project", "run_id"}
    assert stage.executor.started == 0
    for _ in range(3):
        assert again(app.handler(sqs(named, named), Context())) == []
    assert stage.executor.started == 1
    assert set(told) == {("first", named["run_id"], status)}
    found = direct.handler(stage.ask("runs.get", {"run_id": named["run_id"]}), Context())["body"]
    assert found["status"] == status
    assert found.get("result", {}).get("stdout", "") == script.get("stdout", "")
    assert found.get("error", {}).get("error", "") == ("executor_failed" if status == "failed" else "")


def test_a_message_waits_while_this_process_takes_no_more_runs(stage: Stage, queue: Queue, told: list[Any]) -> None:
    direct.handler(stage.ask("exec.start", {"lang": "py", "code": program()}), Context())
    (named,) = queue.sent
    for _ in range(stage.room.limits.run_queue):
        stage.room.runs.take("first")
    assert again(app.handler(sqs(named), Context())) == ["m0"]
    for _ in range(stage.room.limits.run_queue):
        stage.room.runs.leave("first")
    assert again(app.handler(sqs(named), Context())) == []
    assert told == [("first", named["run_id"], "finished")]


def test_where_there_is_no_bus_nobody_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_announcer", None)
    assert isinstance(app.announcer(), Silent)


def client(service: str) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        region_name="eu-central-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=patience(),
    )


def test_a_queued_run_is_sent_as_its_name_and_nothing_else_in_its_projects_group() -> None:
    made = client("sqs")
    with Stubber(made) as stub:
        body = json.dumps({"project": "first", "run_id": RUN}, separators=(",", ":"))
        sent = {"QueueUrl": URL, "MessageBody": body, "MessageGroupId": "first"}
        stub.add_response("send_message", {"MessageId": "m"}, sent)
        SqsQueue(URL, made).send({**message(), "code": "secret"})
        stub.assert_no_pending_responses()


def made(stage: Stage, **members: Any) -> str:
    """A Session with a queued Turn."""
    asked = {"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}, **members}
    answer = direct.handler(stage.ask("sessions.create", asked), Context())
    assert answer["status"] == 201, answer
    return str(answer["body"]["id"])


def turn_of(stage: Stage, session: str) -> dict[str, Any]:
    listed = direct.handler(stage.ask("turns.list", {"session_id": session}), Context())
    (turn,) = listed["body"]["data"]
    return dict(turn)


def test_a_turn_that_was_queued_through_the_direct_door_is_run_once_by_the_worker(
    stage: Stage, queue: Queue, told: list[Any]
) -> None:
    session = made(stage, input=program(stdout="out", write={"outputs/a": "1"}))
    assert queue.sent == [of_session(session)]
    assert stage.executor.started == 0
    for _ in range(3):
        assert again(app.handler(sqs(of_session(session), of_session(session)), Context())) == []
    assert stage.executor.started == 1
    assert turn_of(stage, session)["status"] == "completed"
    published = direct.handler(stage.ask("artifacts.list", {"session_id": session}), Context())["body"]["data"]
    assert [row["path"] for row in published] == ["/workspace/outputs/a"]
    assert told == []


def test_a_session_of_another_project_is_not_worked_on(stage: Stage, queue: Queue) -> None:
    session = made(stage, input=program(stdout="out"))
    assert again(app.handler(sqs(of_session(session, "second")), Context())) == []
    assert stage.executor.started == 0
    assert turn_of(stage, session)["status"] == "queued"


def test_a_turn_that_finds_too_little_time_fails_with_an_error_of_ours(stage: Stage, queue: Queue) -> None:
    session = made(stage, input=program(stdout="out"))
    left = environment.MARGIN_MS + 1_500
    assert again(app.handler(sqs(of_session(session)), Context(left_ms=left))) == []
    turn = turn_of(stage, session)
    assert (turn["status"], turn["error"]["code"]) == ("failed", "sandbox_error")
    assert stage.executor.started == 0


def test_what_the_time_would_not_do_for_any_more_is_queued_anew(stage: Stage, queue: Queue) -> None:
    """Preparation takes what there is; the Turn behind it gets a call of its own."""
    hosted = {"type": "openai_hosted", "setup_commands": [{"command": program()}]}
    session = made(stage, environment=hosted, input=program(stdout="out"))
    limits = stage.room.limits
    left = environment.MARGIN_MS + RESERVE_MS + min(limits.setup_ms, limits.turn_run_ms) - 10_000
    queue.sent.clear()
    assert again(app.handler(sqs(of_session(session)), Context(left_ms=left))) == []
    assert queue.sent == [of_session(session)]
    assert turn_of(stage, session)["status"] == "queued"
    assert again(app.handler(sqs(*queue.sent), Context())) == []
    assert turn_of(stage, session)["status"] == "completed"


def test_a_sessions_work_is_sent_as_its_name_and_nothing_else() -> None:
    made = client("sqs")
    with Stubber(made) as stub:
        body = json.dumps({"project": "first", "session": SESSION}, separators=(",", ":"))
        sent = {"QueueUrl": URL, "MessageBody": body, "MessageGroupId": "first"}
        stub.add_response("send_message", {"MessageId": "m"}, sent)
        SqsQueue(URL, made).send({**of_session(), "text": "secret"})
        stub.assert_no_pending_responses()


@pytest.mark.parametrize("code", ["ThrottlingException", "AccessDenied", "InternalError"])
def test_a_queue_that_refuses_is_a_store_that_cannot_be_reached(code: str) -> None:
    made = client("sqs")
    with Stubber(made) as stub:
        stub.add_client_error("send_message", code)
        with pytest.raises(StoreUnavailable):
            SqsQueue(URL, made).send(message())
        stub.assert_no_pending_responses()


@pytest.mark.parametrize("error", [ReadTimeoutError(endpoint_url="x"), ConnectTimeoutError(endpoint_url="x")])
def test_an_answer_that_is_lost_is_told_and_not_sent_again(error: Exception) -> None:
    sent: list[Any] = []

    class Lost:
        def send_message(self, **given: Any) -> Any:
            sent.append(given)
            raise error

    with pytest.raises(StoreUnavailable):
        SqsQueue(URL, Lost()).send(message())  # type: ignore[arg-type]
    assert len(sent) == 1


def test_the_clients_try_once() -> None:
    config = client("sqs").meta.config
    assert config.retries["total_max_attempts"] == 1
    assert config.read_timeout <= 10


def test_an_end_is_announced_without_a_word_of_the_run() -> None:
    made = client("events")
    detail = {"project": "first", "run_id": RUN, "status": "finished"}
    entry = {
        "Source": "workroom",
        "DetailType": "run.finished",
        "Detail": json.dumps(detail),
        "EventBusName": "bus",
    }
    with Stubber(made) as stub:
        stub.add_response("put_events", {"FailedEntryCount": 0, "Entries": []}, {"Entries": [entry]})
        EventBridge("bus", made).finished("first", RUN, "finished")
        stub.assert_no_pending_responses()


def test_a_bus_that_cannot_be_reached_harms_nothing() -> None:
    made = client("events")
    with Stubber(made) as stub:
        stub.add_client_error("put_events", "InternalException")
        stub.add_response("put_events", {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "x"}]})
        for _ in range(2):
            EventBridge("bus", made).finished("first", RUN, "failed")
        stub.assert_no_pending_responses()
