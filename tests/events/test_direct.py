"""The direct door: who is let in, what is refused in which order, what comes again, and what is done once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions import batch, environment
from functions.direct import app
from functions.direct.once import KEYED, OWN, REPEATABLE
from shared.identity import Caller
from shared.limits import Limits
from shared.operations.all import operations
from shared.operations.base import Call
from shared.store.ports import StoreUnavailable
from tests.events.samples import PROJECT, SETTINGS, Context, Running, Stage
from tests.wire.scripted import program
from tests.wire.service import expect_eventually, make_key, open_test_room

RUN = {"lang": "py", "code": program(stdout="out", write={"a": "1"})}
FORBIDDEN = {"status": 403, "body": {"error": "forbidden", "message": "This operation needs an admitted caller."}}
NO_KEYS = "wr_" + "x" * 42


def ask(event: Any, **more: Any) -> Any:
    return app.handler(event, Context(**more))


def sqs(*bodies: Any, fifo: bool = False) -> dict[str, Any]:
    """A batch of messages m0, m1, …"""
    arn = "arn:aws:sqs:eu-central-1:1:q" + (".fifo" if fifo else "")
    return {
        "Records": [
            {"messageId": f"m{place}", "eventSource": "aws:sqs", "eventSourceARN": arn, "body": body}
            for place, body in enumerate(one if isinstance(one, str) else json.dumps(one) for one in bodies)
        ]
    }


def again(answer: Any) -> list[str]:
    """The messages that are to come again."""
    assert set(answer) == {"batchItemFailures"}
    return [row["itemIdentifier"] for row in answer["batchItemFailures"]]


def eventbridge(detail: Any, ident: str = "e1") -> dict[str, Any]:
    return {"id": ident, "detail-type": "d", "source": "s", "detail": detail}


@pytest.mark.parametrize("credential", [None, "", 7, {}, NO_KEYS, "Bearer x", "é" * 45, "\ud800", ...])
@pytest.mark.parametrize(
    "operation", [*sorted(operations()), "no.such", "", None, 7, ["exec.run"], {"a": 1}], ids=lambda one: str(one)[:20]
)
def test_without_an_admitted_caller_everything_is_403_but_what_is_open(
    stage: Stage, operation: Any, credential: Any
) -> None:
    for extra in ({}, {"input": "not an object", "idempotency_key": 7}, {"mistyped": 1}):
        event = {"operation": operation, **extra}
        if credential is not ...:
            event["credential"] = credential
        answer = ask(event)
        if operation == "health.get":
            assert answer["status"] == (400 if extra else 200)
            assert extra or answer["body"] == {"status": "ok"}
        else:
            assert answer == FORBIDDEN
    assert stage.executor.started == 0


@pytest.mark.parametrize("event", [None, [], "x", 7, {}, {"input": {}}, {"Records": [{}]}, {"detail": {}}])
def test_an_event_of_no_known_shape_is_refused_as_one_without_a_credential(stage: Stage, event: Any) -> None:
    assert ask(event) == FORBIDDEN


def test_where_no_key_exists_the_answer_is_503_as_at_the_http_door(tmp_path: Any) -> None:
    room = open_test_room(tmp_path, Limits(), Running())
    with environment.HERE.using(room, SETTINGS):
        assert ask({"operation": "exec.run", "credential": NO_KEYS})["body"]["error"] == "not_configured"
        assert ask({"operation": "health.get"}) == {"status": 200, "body": {"status": "ok"}}
        assert again(ask(sqs({"operation": "exec.run"}))) == ["m0"]


def test_an_admitted_caller_is_told_what_is_wrong_in_order(stage: Stage) -> None:
    both = {"operation": "no.such", "credential": stage.key, "mistyped": 1, "input": 7}
    answer = ask(both)
    assert (answer["status"], answer["body"]["error"]) == (400, "invalid_request")
    assert "mistyped" not in json.dumps(answer)
    assert "event" in answer["body"]["message"]
    del both["mistyped"]
    assert (ask(both)["status"], ask(both)["body"]["error"]) == (404, "not_found")
    for wrong, field in (
        ({"operation": 7}, "operation"),
        ({}, "operation"),
        ({"operation": "exec.run", "input": 7}, "input"),
        ({"operation": "exec.run", "input": {"lang": "py"}}, "code"),
        ({"operation": "exec.run", "input": {**RUN, "cdoe": "x"}}, "cdoe"),
        ({"operation": "exec.run", "input": {**RUN, "code": "\ud800"}}, "code"),
        ({"operation": "exec.run", "input": RUN, "idempotency_key": 7}, "idempotency_key"),
        ({"operation": "exec.run", "input": RUN, "idempotency_key": ""}, "idempotency_key"),
        ({"operation": "exec.run", "input": RUN, "idempotency_key": "x" * 1_025}, "idempotency_key"),
    ):
        answer = ask({"credential": stage.key, **wrong})
        assert answer["status"] == 400
        assert field in answer["body"]["message"]
    assert stage.executor.started == 0


def test_what_operators_do_is_not_here(stage: Stage) -> None:
    operators = [name for name, one in operations().items() if one.audience == "operator"]
    assert operators
    unknown = ask(stage.ask("no.such"))
    for name in operators:
        assert ask(stage.ask(name, {"project": "first"})) == unknown


def test_an_answer_has_the_status_and_the_body_of_the_http_door(stage: Stage) -> None:
    made = ask(stage.ask("exec.run", RUN))
    assert made["status"] == 200
    assert made["body"]["stdout"] == "out"
    session = made["body"]["session_id"]
    assert ask(stage.ask("files.list", {"session_id": session}))["body"][0]["metadata"] is not None
    missing = ask(stage.ask("files.list", {"session_id": "x" * 21}))
    foreign = ask({**stage.ask("files.list", {"session_id": session}), "credential": stage.other_key})
    assert missing == foreign
    assert (missing["status"], missing["body"]["error"]) == (404, "not_found")
    assert ask(stage.ask("exec.programmatic"))["status"] == 501
    failing = ask(stage.ask("exec.run", {"lang": "py", "code": program(fail="timeout")}))
    assert (failing["status"], failing["body"]["error"]) == (504, "executor_timeout")
    broken = ask(stage.ask("exec.run", {"lang": "py", "code": program(**{"raise": "secret"})}))
    assert broken == {
        "status": 500,
        "body": {"error": "internal_error", "message": "The service met an unexpected condition."},
    }


def test_a_429_says_when_to_come_again(build: Callable[..., Stage]) -> None:
    stage = build(run_queue=1)
    stage.room.runs.take("else")
    assert ask(stage.ask("exec.run", RUN)) == {
        "status": 429,
        "body": {"error": "rate_limited", "message": "Too many requests. Retry later.", "retry_after_seconds": 2},
    }


def test_a_name_that_is_no_unicode_is_answered_as_json_can_carry_it(stage: Stage) -> None:
    made = ask(stage.ask("exec.run", {"lang": "py", "code": '{"write": {"\\udcff": "x"}}'}))
    json.dumps(made, ensure_ascii=False).encode("utf-8")
    assert made["status"] in (200, 500, 502)


def test_an_answer_above_what_lambda_carries_is_refused_in_words(stage: Stage) -> None:
    session = ask(stage.ask("files.write", {"name": "a", "content": "\x01" * 2_000_000}))["body"]["session_id"]
    answer = ask(stage.ask("files.read", {"session_id": session, "file_id": "a"}))
    assert (answer["status"], answer["body"]["error"]) == (400, "invalid_request")


def test_every_operation_is_once_for_a_key_or_changes_nothing() -> None:
    callers = {name for name, one in operations().items() if one.audience == "caller"}
    assert callers == OWN | KEYED | REPEATABLE
    assert len(callers) == len(OWN) + len(KEYED) + len(REPEATABLE)


def test_a_key_is_one_execution_of_its_project_and_another_input_is_422(stage: Stage) -> None:
    first = ask(stage.ask("exec.run", RUN, idempotency_key="k"))
    assert ask(stage.ask("exec.run", RUN, idempotency_key="k")) == first
    assert stage.executor.started == 1
    for other in (
        stage.ask("exec.run", {**RUN, "args": ["x"]}, idempotency_key="k"),
        stage.ask("exec.start", RUN, idempotency_key="k"),
        stage.ask("files.write", {"name": "a", "content": "b"}, idempotency_key="k"),
    ):
        answer = ask(other)
        assert (answer["status"], answer["body"]["error"]) == (422, "idempotency_conflict")
    assert stage.executor.started == 1
    foreign = ask({**stage.ask("exec.run", RUN, idempotency_key="k"), "credential": stage.other_key})
    assert foreign["status"] == 200
    assert foreign["body"]["session_id"] != first["body"]["session_id"]


def test_a_file_that_is_written_twice_under_one_key_is_written_once(stage: Stage) -> None:
    write = stage.ask("files.write", {"name": "a", "content": "1"}, idempotency_key="w")
    first = ask(write)
    session = first["body"]["session_id"]
    ask(stage.ask("files.write", {"name": "a", "content": "2", "session_id": session}))
    assert ask(write) == first
    read = stage.ask("files.read", {"session_id": session, "file_id": "a"})
    assert ask(read)["body"]["content"] == "2"
    delete = stage.ask("files.delete", {"session_id": session, "file_id": "a"}, idempotency_key="d")
    assert ask(delete) == ask(delete)
    assert ask(delete)["status"] == 200


def test_a_failure_leaves_its_key_free(stage: Stage) -> None:
    gone = stage.ask("files.delete", {"session_id": "x" * 21, "file_id": "a"}, idempotency_key="k")
    assert ask(gone)["status"] == 404
    assert ask(stage.ask("files.write", {"name": "a", "content": "1"}, idempotency_key="k"))["status"] == 200


def test_a_batch_gives_back_what_may_succeed_later_and_nothing_else(stage: Stage) -> None:
    fails = [{"lang": "py", "code": program(fail=kind)} for kind in ("unavailable", "broken", "timeout")]
    events = [
        stage.ask("exec.run", RUN),
        stage.ask("exec.run", fails[0]),
        stage.ask("exec.run", {"lang": "cobol"}),
        "not json",
        "",
        "[" * 100_000,
        stage.ask("exec.run", fails[1]),
        {**stage.ask("exec.run", RUN), "credential": "x"},
        stage.ask("exec.run", fails[2]),
        stage.ask("exec.programmatic"),
        stage.ask("runs.get", {"run_id": "x" * 21}),
        stage.ask("exec.run", {"lang": "py", "code": program(**{"raise": "x"})}),
    ]
    assert again(ask(sqs(*events))) == ["m1", "m6", "m8", "m11"]


def test_a_message_that_comes_again_is_one_execution(stage: Stage) -> None:
    batch = sqs(stage.ask("exec.run", RUN), stage.ask("exec.start", RUN), stage.ask("exec.run", RUN))
    for _ in range(3):
        assert again(ask(batch)) == []
    expect_eventually(lambda: stage.executor.started == 3)
    other = sqs(stage.ask("exec.run", {**RUN, "args": ["x"]}))
    other["Records"][0]["messageId"] = "else"
    ask(other)
    expect_eventually(lambda: stage.executor.started == 4)


def test_a_message_that_comes_while_its_run_goes_on_comes_again(stage: Stage) -> None:
    batch = sqs(stage.ask("exec.run", {"lang": "py", "code": program(wait=20)}))
    first = threading.Thread(target=ask, args=(batch,), daemon=True)
    first.start()
    assert stage.executor.begun.acquire(timeout=20)
    assert again(ask(batch)) == ["m0"]
    stage.executor.close()
    first.join(20)
    assert not first.is_alive()


def test_behind_a_failed_message_of_a_fifo_queue_none_is_done(stage: Stage) -> None:
    events = (stage.ask("exec.run", {"lang": "py", "code": program(fail="timeout")}), stage.ask("exec.run", RUN))
    assert again(ask(sqs(*events, fifo=True))) == ["m0", "m1"]
    assert stage.executor.started == 1
    assert again(ask(sqs(*events))) == ["m0"]


def test_what_the_time_of_a_call_would_not_do_is_given_back_unopened(stage: Stage) -> None:
    limits = stage.room.limits
    need = limits.run_ms_max + limits.lock_wait_ms + environment.MARGIN_MS
    batch = sqs(*(stage.ask("exec.run", RUN) for _ in range(3)))
    assert again(app.handler(batch, Context(left_ms=need - 1))) == ["m1", "m2"]
    assert stage.executor.started == 1
    assert again(app.handler(batch, Context(left_ms=need))) == []
    assert stage.executor.started == 3


def test_an_event_of_eventbridge_is_one_execution_and_is_raised_only_for_a_reason_of_ours(stage: Stage) -> None:
    event = eventbridge(stage.ask("exec.run", RUN))
    assert ask(event) == ask(event)
    assert stage.executor.started == 1
    ask(eventbridge(stage.ask("exec.run", RUN), "e2"))
    assert stage.executor.started == 2
    assert ask(eventbridge({"operation": "exec.run"})) == FORBIDDEN
    assert ask(eventbridge("text")) == FORBIDDEN
    with pytest.raises(app.Again, match=r"^executor_unavailable$"):
        ask(eventbridge(stage.ask("exec.run", {"lang": "py", "code": program(fail="unavailable")}), "e3"))


def test_where_the_room_cannot_be_opened_the_answer_says_so_and_the_next_call_tries_again(
    monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    def shut(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("secret place")

    monkeypatch.setattr(environment, "open_room", shut)
    fresh = environment.Environment()
    monkeypatch.setattr(app, "HERE", fresh)
    event = stage.ask("exec.run", RUN)
    assert ask(event)["body"] == {"error": "store_unavailable", "message": "The store cannot be reached at the moment."}
    monkeypatch.setattr(batch, "HERE", fresh)
    assert again(ask(sqs(event, event))) == ["m0", "m1"]
    monkeypatch.setattr(environment, "open_room", lambda *_, **__: stage.room)
    assert ask(event)["status"] == 200
    assert fresh.room() is stage.room


def test_a_key_that_was_revoked_is_no_credential(stage: Stage) -> None:
    key = make_key(stage.room, PROJECT, name="gone")
    event = {**stage.ask("files.write", {"name": "a", "content": "1"}), "credential": key}
    assert ask(event)["status"] == 200
    operator = Call(Caller("operator", "operator"))
    rows = operations()["keys.list"]
    (ident,) = [row.id for row in rows.run(stage.room, operator, rows.parse({})).keys if row.name == "gone"]
    revoke = operations()["keys.revoke"]
    revoke.run(stage.room, operator, revoke.parse({"id": ident}))
    assert ask(event) == FORBIDDEN


def test_a_setting_that_cannot_be_read_is_named_in_the_log_and_not_to_the_caller(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "HERE", environment.Environment())
    monkeypatch.setenv("WORKROOM_RUN_MS", "soon")
    answer = ask(stage.ask("health.get"))
    assert (answer["status"], answer["body"]["error"]) == (500, "internal_error")
    assert "WORKROOM_RUN_MS" not in json.dumps(answer)
    assert "WORKROOM_RUN_MS" in capfd.readouterr().out


class Tokens:
    """A verifier that knows one token."""

    def caller(self, token: str, now: int) -> Caller | None:
        return Caller("first", "token", subject="someone") if token == "a.b.c" else None


def test_where_tokens_are_taken_a_token_is_a_credential(stage: Stage) -> None:
    write = {**stage.ask("files.write", {"name": "a", "content": "1"}), "credential": "a.b.c"}
    assert ask(write) == FORBIDDEN
    with environment.HERE.using(replace(stage.room, jwt=Tokens()), SETTINGS):
        session = ask(write)["body"]["session_id"]
        assert ask({**write, "credential": "a.b.d"}) == FORBIDDEN
    assert ask(stage.ask("files.list", {"session_id": session}))["status"] == 200


def test_a_refusal_of_the_agents_api_has_its_own_form(stage: Stage) -> None:
    gone = "agent_" + "0" * 33
    # What the address names is looked for before the members are looked at (agents.md 1.1).
    for given in ({"agent_id": gone}, {"agent_id": gone, "no": "member"}):
        for more in ({}, {"idempotency_key": "k"}):
            answer = ask(stage.ask("agents.update", given, **more))
            assert answer["status"] == 404
            assert answer["body"]["error"]["code"] == "not_found_error"
    wrong = ask(stage.ask("agents.create", {"model": "program:py", "no": "member"}))
    assert (wrong["status"], wrong["body"]["error"]["type"]) == (400, "invalid_request_error")
    assert set(wrong["body"]["error"]) == {"message", "type", "code", "param"}


def test_an_event_that_makes_a_session_makes_one_and_another_input_is_its_conflict(stage: Stage) -> None:
    given = {"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}}
    first = ask(stage.ask("sessions.create", given, idempotency_key="s"))
    assert first["status"] == 201
    assert ask(stage.ask("sessions.create", given, idempotency_key="s"))["body"]["id"] == first["body"]["id"]
    other = stage.ask("sessions.create", {**given, "metadata": {"a": "b"}}, idempotency_key="s")
    assert ask(other)["body"]["error"]["code"] == "idempotency_conflict"
    assert again(ask(sqs(other))) == [], "it would be the same conflict again"
    assert len(ask(stage.ask("sessions.list"))["body"]["data"]) == 1


def test_null_is_a_value_where_the_operation_reads_its_members_itself(stage: Stage) -> None:
    agent = ask(stage.ask("agents.create", {"model": "program:py", "name": "one"}))["body"]["id"]
    assert ask(stage.ask("agents.update", {"agent_id": agent, "name": None}, idempotency_key="n"))["status"] == 200
    assert ask(stage.ask("agents.get", {"agent_id": agent}))["body"]["name"] is None
