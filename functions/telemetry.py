"""Logs, metrics and traces of a function: powertools behind one call, and nothing in them that a caller wrote.

A line is one JSON object. Of this service's own loggers (`workroom.*`) it has the text, which is made of numbers,
our ids and a few words; of every other library's it has the logger, the level and an exception's type only, since
their texts may hold what a caller sent. Bodies, code, output, names and credentials are in none of them.

Metrics (namespace Workroom), all as EMF lines:

    runs                       Count           by lang and outcome; and by outcome
    run_ms_<phase>             Milliseconds    of each run
    bytes_in, bytes_out        Bytes           of each run
    unsettled_writes_oldest_s  Seconds         from the janitor
    sessions_removed, objects_removed   Count  from the janitor
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import EphemeralMetrics

from shared.errors import Code
from shared.executor.wire import LANGS

NAMESPACE = "Workroom"
OUTCOMES = frozenset(("ok", "failed", "time", "memory", "output", "killed"))
OTHER = "other"
REQUESTS = logging.getLogger("workroom.request")

_OURS = "workroom"
_PHASE = re.compile(r"[a-z][a-z_]{0,23}")
_REQUEST_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_ERRORS = frozenset(f"error:{code.value.code}" for code in Code)

Handler = Callable[[Any, Any], Any]


class Lines(LambdaPowertoolsFormatter):
    """powertools' formatter, that writes a message which is an object as members of the line, and no exception's text.

    A formatter of ours decides what a line holds: nothing comes in through an `extra` or a traceback.
    """

    def serialize(self, log: dict[str, Any]) -> str:  # type: ignore[override]
        """The line."""
        message = log.get("message")
        line = {name: log[name] for name in ("level", "timestamp", "service", "xray_trace_id") if log.get(name)}
        line |= {name: log[name] for name in ("cold_start", "function_request_id") if log.get(name) is not None}
        if kind := log.get("exception_name"):
            line["kind"] = kind
        if isinstance(message, dict):
            line |= {name: value for name, value in message.items() if name != "time" and name not in line}
        else:
            line["message"] = str(message)
        return json.dumps(line, separators=(",", ":"), default=lambda value: type(value).__name__)


class Foreign(logging.Formatter):
    """A line for what another library logs: who, how bad, and the type of an exception. Its text is left out.

    `end` is what the handler does not write itself: the runtime's own writes what it is given, and no end of a line.
    """

    def __init__(self, end: str = "") -> None:
        super().__init__()
        self._end = end

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {"level": record.levelname, "logger": record.name, "location": f"{record.module}:{record.lineno}"}
        if record.exc_info and record.exc_info[0] is not None:
            line["kind"] = record.exc_info[0].__name__
        return json.dumps(line, separators=(",", ":")) + self._end


@dataclass
class Telemetry:
    """What `install` set up for this process."""

    service: str
    logger: Logger
    tracer: Any
    before: list[tuple[logging.Handler, logging.Formatter | None, int]] = field(default_factory=list)
    own: logging.Handler | None = None
    cold: bool = True

    def begin(self, context: object) -> None:
        """A call begins: its lines say whether it is the environment's first, and its id as the platform knows it."""
        self.logger.append_keys(cold_start=self.cold, function_request_id=request_id(context))
        self.cold = False

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A part of the call in the trace. Of an exception only its type is kept."""
        if self.tracer is None:
            yield
            return
        raised: BaseException | None = None
        with self.tracer.provider.in_subsegment(name=name) as part:
            part.put_annotation(key="Service", value=self.service)
            try:
                yield
            except BaseException as error:
                raised = error
                part.put_annotation(key="Error", value=type(error).__name__)
                part.add_fault_flag()
        if raised is not None:
            raise raised


_INSTALLED: Telemetry | None = None


def install(service: str, stream: TextIO | None = None) -> Telemetry:
    """Route the loggers of this process into JSON lines, once; a second call changes nothing.

    `service` names the function in each line. `WORKROOM_LOG_LEVEL` is the level. The runtime has a handler of its own
    at the root: our lines do not reach it, so each appears once.
    """
    global _INSTALLED  # noqa: PLW0603  (one set of loggers a process)
    if _INSTALLED is None:
        level = os.environ.get("WORKROOM_LOG_LEVEL", "info").upper()
        handler = logging.StreamHandler(stream or sys.stdout)
        lines = Lines(utc=True, use_rfc3339=True)
        logger = Logger(service=_OURS, level=level, logger_handler=handler, logger_formatter=lines)
        logger.append_keys(service=service)
        logging.getLogger(_OURS).propagate = False
        _INSTALLED = Telemetry(service, logger, _tracer(service))
        _route_others(_INSTALLED, stream)
    return _INSTALLED


def _route_others(telemetry: Telemetry, stream: TextIO | None) -> None:
    """Give the root's handlers our formatter; where it has none, Python would write a text as it is: so it gets one."""
    runtimes = [one for one in logging.root.handlers if type(one).__module__.startswith("awslambdaric")]
    for one in runtimes:
        telemetry.before.append((one, one.formatter, one.level))
        one.setFormatter(Foreign("\n"))
        one.setLevel(logging.WARNING)  # a line below that says nothing without its text
    if not logging.root.handlers:
        telemetry.own = logging.StreamHandler(stream or sys.stdout)
        telemetry.own.setFormatter(Foreign())
        logging.root.addHandler(telemetry.own)
    logging.captureWarnings(True)


def uninstall() -> None:
    """Undo `install`."""
    global _INSTALLED  # noqa: PLW0603
    if _INSTALLED is None:
        return
    ours = logging.getLogger(_OURS)
    for handler in list(ours.handlers):
        ours.removeHandler(handler)
    ours.propagate = True
    ours.setLevel(logging.NOTSET)
    ours.__dict__.pop("init", None)
    for handler, formatter, level in _INSTALLED.before:
        handler.setFormatter(formatter)
        handler.setLevel(level)
    if _INSTALLED.own is not None:
        logging.root.removeHandler(_INSTALLED.own)
    logging.captureWarnings(False)
    _INSTALLED = None


def function(service: str) -> Callable[[Handler], Handler]:
    """Make the decorated code a function's handler: its lines, its trace, and when the environment began."""

    def decorate(code: Handler) -> Handler:
        @functools.wraps(code)
        def handler(event: Any, context: Any) -> Any:
            telemetry = install(service)
            telemetry.begin(context)
            with telemetry.span(f"## {service}"):
                return code(event, context)

        return handler

    return decorate


def request_id(context: object) -> str:
    """The id of this call as the platform gave it, or nothing."""
    found = getattr(context, "aws_request_id", None)
    return found if isinstance(found, str) and _REQUEST_ID.fullmatch(found) else ""


def remaining_ms(context: object) -> int | None:
    """Milliseconds that are left of this call, or None where nobody counts them."""
    left = getattr(context, "get_remaining_time_in_millis", None)
    return int(left()) if callable(left) else None


def _tracer(service: str) -> Any:
    """X-Ray, where it listens: on Lambda. It keeps no answer and no exception."""
    off = os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in ("1", "true", "yes", "on", "t", "y")
    if off or not os.environ.get("LAMBDA_TASK_ROOT") or os.environ.get("AWS_SAM_LOCAL"):
        return None
    from aws_lambda_powertools import Tracer  # noqa: PLC0415  (its SDK is slow to import)

    return Tracer(service=service, patch_modules=["botocore"])


class EmfMetrics:
    """The port RunMetrics: one EMF line a run. Every dimension is one of a known few; thread-safe."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def run(self, *, lang: str, outcome: str, ms: Mapping[str, int], bytes_in: int, bytes_out: int) -> None:
        """See RunMetrics.run. Nothing of a run depends on its being counted."""
        try:
            self._run(lang, outcome, ms, {"bytes_in": bytes_in, "bytes_out": bytes_out})
        except Exception as error:
            REQUESTS.error("a run was not counted: %s", type(error).__name__)

    def _run(self, lang: str, outcome: str, ms: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        ended = outcome if outcome in OUTCOMES or outcome in _ERRORS else OTHER
        runs = _metrics()
        runs.add_dimension("lang", lang if lang in LANGS else OTHER)
        runs.add_dimension("outcome", ended)
        runs.add_dimensions(outcome=ended)
        runs.add_metric("runs", "Count", 1)
        amounts = _metrics()
        for phase, taken in list(ms.items())[:16]:
            if _PHASE.fullmatch(phase):
                amounts.add_metric(f"run_ms_{phase}", "Milliseconds", taken)
        for name, size in sizes.items():
            amounts.add_metric(name, "Bytes", size)
        self._write(runs, amounts)

    def gauges(self, **values: tuple[str, float]) -> None:
        """Other values of ours: a name with its unit and value."""
        made = _metrics()
        for name, (unit, value) in values.items():
            made.add_metric(name, unit, value)
        self._write(made)

    def _write(self, *sets: EphemeralMetrics) -> None:
        line: dict[str, Any] = {}
        directives: list[Any] = []
        for one in sets:
            row = dict(one.serialize_metric_set())
            directives += row.pop("_aws")["CloudWatchMetrics"]  # type: ignore[index]
            line |= row
        about = {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": directives}
        stream = self._stream or sys.stdout
        stream.write(json.dumps({"_aws": about, **line}, separators=(",", ":")) + "\n")
        stream.flush()


def _metrics() -> EphemeralMetrics:
    """An empty set of metrics of its own: nothing is shared between two threads' runs."""
    made = EphemeralMetrics(namespace=NAMESPACE, service="")
    made.clear_metrics()
    return made
