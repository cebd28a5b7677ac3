"""What the functions write: lines of JSON, one a request, and nothing in them that a caller or a program wrote."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from functions import telemetry
from functions.direct import app as direct
from functions.janitor import app as janitor
from functions.worker import app as worker
from shared.errors import Code
from shared.executor.wire import LANGS
from tests.events.samples import REQUEST_ID, Context, Stage
from tests.events.test_direct import eventbridge, sqs
from tests.wire.scripted import program
from tests.wire.service import expect_eventually

CANARY = "canary-5c7e21"
FORGED = f'\n{{"level":"ERROR","event":"request","x":"{CANARY}"}}\r\n\u2028{CANARY}'
MEMBERS = {
    "level", "timestamp", "service", "cold_start", "function_request_id", "event", "source", "operation", "project",
    "key", "status", "error", "ms",
}  # fmt: skip


def rows(text: str) -> list[dict[str, Any]]:
    """Every line as JSON: a line that is none fails."""
    found = []
    for line in text.splitlines():
        row = json.loads(line)
        assert isinstance(row, dict)
        found.append(row)
    return found


def requests(text: str) -> list[dict[str, Any]]:
    return [row for row in rows(text) if row.get("event") == "request"]


def test_a_request_is_one_line(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    run = {"lang": "py", "code": program(stdout="x")}
    direct.handler(stage.ask("exec.run", run), Context())
    direct.handler({**stage.ask("files.list"), "credential": "x"}, Context(aws_request_id="other"))
    out, err = capfd.readouterr()
    assert err == ""
    first, second = requests(out)
    assert set(first) == set(second) == MEMBERS
    assert (first["service"], first["level"], first["source"]) == ("direct", "INFO", "invoke")
    assert (first["operation"], first["project"], first["status"], first["error"]) == ("exec.run", "first", 200, None)
    assert (first["cold_start"], first["function_request_id"]) == (True, REQUEST_ID)
    assert 0 < first["ms"] < 60_000
    assert (second["operation"], second["project"], second["status"]) == (None, None, 403)
    assert (second["cold_start"], second["function_request_id"], second["error"]) == (False, "other", "forbidden")


def hostile(stage: Stage) -> list[dict[str, Any]]:
    """Calls with a canary wherever a caller or a program can write."""
    script = program(stdout=FORGED, stderr=FORGED, write={f"{CANARY}\nname": CANARY})
    run = {"lang": "py", "code": script, "args": [FORGED], "user_id": FORGED, "runtime_session_hint": FORGED}
    return [
        stage.ask("exec.run", run, idempotency_key=CANARY),
        stage.ask("exec.run", run, idempotency_key=CANARY),
        stage.ask("exec.run", {"lang": "py", "code": script}, idempotency_key=CANARY),
        stage.ask("exec.start", run),
        stage.ask("exec.run", {"lang": "py", "code": program(**{"raise": FORGED})}),
        stage.ask("exec.run", {"lang": "py", "code": program(fail="broken"), "args": [CANARY]}),
        stage.ask("exec.run", {"lang": CANARY, "code": CANARY, CANARY: CANARY}),
        stage.ask("exec.run", {"lang": "py", "code": CANARY, "session_id": CANARY}),
        stage.ask(FORGED, {CANARY: CANARY}),
        stage.ask("files.write", {"name": CANARY + "/a", "content": FORGED}),
        stage.ask("files.write", {"name": "../" + CANARY, "content": FORGED}),
        stage.ask("files.read", {"session_id": CANARY, "file_id": FORGED}),
        stage.ask("uploads.create", {"name": CANARY, "size": 1, "sha256": CANARY}),
        {**stage.ask("exec.run", run), FORGED: CANARY},
        {**stage.ask("exec.run", run), "credential": CANARY},
        {**stage.ask("exec.run", run), "credential": FORGED},
        {CANARY: CANARY},
    ]


def test_nothing_that_a_caller_or_a_program_wrote_is_written(
    stage: Stage, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKROOM_LOG_LEVEL", "debug")
    events = hostile(stage)
    for event in events:
        direct.handler(event, Context(aws_request_id=FORGED))
    for place, event in enumerate(events):
        with contextlib.suppress(direct.Again):
            direct.handler(eventbridge(event, f"{CANARY}{place}"), Context())
    batch = sqs(*events, CANARY, FORGED)
    for row in batch["Records"]:
        row["messageId"] += FORGED
    direct.handler(batch, Context())
    bodies = [CANARY, {"project": CANARY, "run_id": CANARY}, {"project": "first", "run_id": FORGED}, [CANARY]]
    worker.handler(sqs(*bodies), Context())
    worker.handler(CANARY, Context())
    janitor.handler({CANARY: CANARY}, Context())
    started = direct.handler(stage.ask("exec.start", {"lang": "py", "code": program(stdout=FORGED)}), Context())
    ask = stage.ask("runs.get", {"run_id": started["body"]["id"]})
    expect_eventually(lambda: direct.handler(ask, Context())["body"]["status"] == "finished")
    out, err = capfd.readouterr()
    assert err == ""
    for word in (CANARY, "forged", stage.key, stage.other_key):
        assert word not in out
    lines = rows(out)
    assert len([row for row in lines if row.get("event") == "request"]) > 3 * len(events)
    assert {row["kind"] for row in lines if row.get("event") == "error"} == {"RuntimeError"}
    for row in requests(out):
        assert set(row) == MEMBERS


def test_texts_of_other_libraries_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with no_root_handlers():
        telemetry.install("direct")
        telemetry.install("direct")
        try:
            raise ValueError(FORGED)
        except ValueError:
            logging.getLogger("botocore.x").exception("text %s", FORGED)
            logging.getLogger("workroom.run").exception("our own text", extra={"more": FORGED})
        telemetry.uninstall()
    out, err = capfd.readouterr()
    assert err == ""
    first, second = rows(out)
    assert (first["logger"], first["level"], first["kind"]) == ("botocore.x", "ERROR", "ValueError")
    assert (second["message"], second["kind"], second["service"]) == ("our own text", "ValueError", "direct")
    assert CANARY not in out


class no_root_handlers:
    """pytest has handlers of its own at the root; the platform has not."""

    def __enter__(self) -> None:
        self._kept, logging.root.handlers = logging.root.handlers, []

    def __exit__(self, *_: object) -> None:
        logging.root.handlers = self._kept


@pytest.mark.parametrize("kind", ["TEXT", "JSON"])
def test_our_lines_appear_once_beside_the_runtime_s_own_handler(capfd: pytest.CaptureFixture[str], kind: str) -> None:
    from awslambdaric import bootstrap  # type: ignore[import-untyped]  # noqa: PLC0415

    with no_root_handlers():
        bootstrap._setup_logging(bootstrap.LogFormat.from_str(kind), "INFO", bootstrap.StandardLogSink())
        level = logging.root.level
        telemetry.install("direct")
        logging.getLogger("workroom.request").info(json.dumps({"event": "request", "status": 200}))
        logging.getLogger("else").info(FORGED)
        logging.getLogger("else").warning(FORGED)
        telemetry.uninstall()
        logging.root.setLevel(level)
    first, second = rows(capfd.readouterr().out)
    assert (first["event"], first["status"]) == ("request", 200)
    assert (second["logger"], second["level"]) == ("else", "WARNING")


def test_undoing_leaves_the_loggers_as_they_were() -> None:
    ours = logging.getLogger("workroom")
    before = (ours.level, list(ours.handlers), ours.propagate, list(logging.root.handlers))
    telemetry.install("direct")
    assert (ours.level, ours.propagate) == (logging.INFO, False)
    telemetry.uninstall()
    assert (ours.level, list(ours.handlers), ours.propagate, list(logging.root.handlers)) == before


def counted(act: Callable[[telemetry.EmfMetrics], None]) -> list[dict[str, Any]]:
    stream = io.StringIO()
    act(telemetry.EmfMetrics(stream))
    return rows(stream.getvalue())


def emf(row: dict[str, Any]) -> dict[str, tuple[str, float, list[list[str]]]]:
    """The metrics of a line as CloudWatch reads them: unit, value and sets of dimensions."""
    made = {}
    assert isinstance(row["_aws"]["Timestamp"], int)
    for directive in row["_aws"]["CloudWatchMetrics"]:
        assert directive["Namespace"] == "Workroom"
        for one in directive["Metrics"]:
            (value,) = row[one["Name"]]
            made[one["Name"]] = (one["Unit"], value, directive["Dimensions"])
        for name in {name for names in directive["Dimensions"] for name in names}:
            assert isinstance(row[name], str)
    return made


def test_a_run_is_counted_by_language_and_outcome_its_phases_in_ms_and_its_bytes() -> None:
    (row,) = counted(
        lambda metrics: metrics.run(lang="py", outcome="ok", ms={"wait": 0, "total": 12}, bytes_in=3, bytes_out=4)
    )
    assert (row["lang"], row["outcome"]) == ("py", "ok")
    assert emf(row) == {
        "runs": ("Count", 1.0, [["lang", "outcome"], ["outcome"]]),
        "run_ms_wait": ("Milliseconds", 0.0, [[]]),
        "run_ms_total": ("Milliseconds", 12.0, [[]]),
        "bytes_in": ("Bytes", 3.0, [[]]),
        "bytes_out": ("Bytes", 4.0, [[]]),
    }


def test_dimensions_are_of_a_known_few(capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = ["ok", "failed", "time", "memory", "output", "killed", *(f"error:{code.value.code}" for code in Code)]
    for lang in LANGS:
        (row,) = counted(lambda metrics: metrics.run(lang=lang, outcome="ok", ms={}, bytes_in=0, bytes_out=0))  # noqa: B023
        assert row["lang"] == lang
    for outcome in outcomes:
        (row,) = counted(lambda metrics: metrics.run(lang="py", outcome=outcome, ms={}, bytes_in=0, bytes_out=0))  # noqa: B023
        assert row["outcome"] == outcome
    strange = {FORGED: 1, "x" * 99: 2, "run": 3}
    (row,) = counted(
        lambda metrics: metrics.run(lang=CANARY, outcome="error:" + CANARY, ms=strange, bytes_in=0, bytes_out=0)
    )
    assert (row["lang"], row["outcome"]) == ("other", "other")
    assert CANARY not in json.dumps(row)
    assert "run_ms_run" in emf(row)
    telemetry.EmfMetrics().run(lang="py", outcome="ok", ms={"run": "x"}, bytes_in=0, bytes_out=0)  # type: ignore[dict-item]
    assert "runs" not in capfd.readouterr().out


def test_the_environment_s_own_room_counts_its_runs() -> None:
    """What a function opens for itself is what counts: not the silent default."""
    from functions import environment  # noqa: PLC0415

    given: list[Any] = []

    def opened(*_: Any, metrics: Any, **__: Any) -> Any:
        given.append(metrics)
        return object()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "open_room", opened)
        patch.setenv("WORKROOM_DEV_KEY", "0")
        environment.Environment().room()
    assert isinstance(given[0], telemetry.EmfMetrics)


class Part:
    def __init__(self) -> None:
        self.notes: dict[str, Any] = {}

    def __enter__(self) -> Part:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.notes["seen"] = kind

    def put_annotation(self, key: str, value: Any) -> None:
        self.notes[key] = value

    def add_fault_flag(self) -> None:
        self.notes["fault"] = True


def test_the_trace_keeps_the_type_of_an_exception_and_no_answer() -> None:
    part = Part()

    class Provider:
        provider: Any

        def in_subsegment(self, name: str) -> Part:
            part.notes["name"] = name
            return part

    tracer = Provider()
    tracer.provider = tracer
    installed = telemetry.install("direct")
    installed.tracer = tracer

    @telemetry.function("direct")
    def failing(event: Any, context: Any) -> Any:
        raise ValueError(CANARY)

    with pytest.raises(ValueError, match=CANARY):
        failing({}, Context())
    assert part.notes == {"name": "## direct", "Service": "direct", "Error": "ValueError", "fault": True, "seen": None}


def test_there_is_no_tracer_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAMBDA_TASK_ROOT", "AWS_SAM_LOCAL", "POWERTOOLS_TRACE_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    assert telemetry.install("direct").tracer is None
    telemetry.uninstall()
    monkeypatch.setenv("LAMBDA_TASK_ROOT", "/var/task")
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "true")
    assert telemetry.install("direct").tracer is None
