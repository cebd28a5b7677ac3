"""The executor function: one event, one program (DESIGN §6, §7). The runner works in this process.

    {"op": "run", "run_id", "request": … | "request_at": url, "request_bytes": n, "answer": {"key", "url"}}
        -> {"run_id", "answer": …} | {"run_id", "answer_at": key} | {"run_id", "error": kind, "why"}
    {"op": "health"} -> {"health": {"trouble", "languages", "layers", "cold_ms"}}

It holds no permission, and its environment serves one tenant. Where that, or the cleaning after a run, does not hold
to the letter the process ends without an answer: the platform tells the caller that it failed and makes a new one,
which begins with ending and emptying what this one left. Only the standard library, the runner and the wire.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, NoReturn, Protocol

from sandbox_image.runner import grants, hardened, probes, sole
from sandbox_image.runner.run import Cancel, RunFailed, Runner
from shared.executor.wire import RunRequest, WireError

_BEGUN = time.monotonic()
ANSWER_BYTES = 5_500_000
"""A longer answer goes to the object store by its grant: the platform takes 6 MiB."""
REQUEST_BYTES = 64 << 20
SPARE_MS = 3_000
"""Of the function's time, for what comes after the program."""
_IDS = 10_000
"""So many run ids are remembered, the latest."""
_REQUIRED = "clean,reap,wipe,memory"
_JAIL = "/usr/libexec/workroom/jail"
_KEPT = frozenset({"PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE"})
_KEPT_PREFIX = ("AWS_LAMBDA_LOG_", "AWS_LAMBDA_FUNCTION_")


class Context(Protocol):
    """What is used of the platform's context."""

    aws_request_id: str
    tenant_id: str | None

    def get_remaining_time_in_millis(self) -> int:
        """Until the platform's own time-out."""


class Sandbox:
    """What one environment remembers. `trouble` is why no program can run, or ""."""

    def __init__(self, jail: str, required: frozenset[str], *, alone: bool) -> None:
        self._runner: Runner | None = None
        self._shown: dict[str, probes.Shown] = {}
        self._tenant: str | None = None
        self._ids: dict[str, None] = {}
        self._cold = True
        self._unclean = False
        self._unshown = False
        self._jail, self._required = jail, required
        self.trouble = "" if alone else "WORKROOM_ALONE is not set: this environment may be somebody's"
        if alone:
            self._start()
        self.cold_ms = int((time.monotonic() - _BEGUN) * 1000)

    def _start(self) -> None:
        self.trouble, self._unshown = "", False
        try:
            self._runner, self._shown = sole.prepare(self._jail)
        except sole.NotAlone as error:
            self.trouble = str(error)
        except sole.Unclean as error:
            self.trouble, self._unclean = str(error), True
        except OSError as error:
            self.trouble = f"{type(error).__name__}: {error.strerror or error}"
        for name in sorted(self._required) if self._runner is not None else ():
            shown = self._shown.get(name)
            if shown is None or not shown.active:
                self._unshown = True
                self.trouble = f"the sandbox layer `{name}` is required and not active: {shown and shown.detail}"

    def handle(self, event: Any, context: Context) -> dict[str, Any]:
        """One event. Ends the process where the environment cannot be used again."""
        begun, cold, self._cold = time.monotonic(), self._cold, False
        if type(event) is not dict or event.get("op") not in ("run", "health"):
            return {"run_id": "", "error": "broken", "why": "not an event of this function"}
        if self._tenant is None:
            self._tenant = context.tenant_id
        elif context.tenant_id != self._tenant:
            retire("another tenant", context)
        answer: dict[str, Any]
        if event["op"] == "health":
            answer, run_id, kind = {"health": self.health()}, "", "health"
        else:
            run_id = event["run_id"] if type(event.get("run_id")) is str else ""
            answer = self._run(event, run_id, context)
            kind = str(answer.get("error", "answered"))
        _log(kind, context, run_id=run_id, ms=int((time.monotonic() - begun) * 1000), cold=cold, cold_ms=self.cold_ms)
        return answer

    def health(self) -> dict[str, Any]:
        """As the executor of one machine says it, with the time that this one needed to start."""
        return {
            "trouble": self.trouble,
            "languages": {} if self._runner is None else self._runner.languages.health(),
            "layers": {name: {"active": layer.active, "detail": layer.detail} for name, layer in self._shown.items()},
            "cold_ms": self.cold_ms,
        }

    def _run(self, event: dict[str, Any], run_id: str, context: Context) -> dict[str, Any]:
        end = time.monotonic() + (context.get_remaining_time_in_millis() - SPARE_MS) / 1000
        try:
            self._claim(run_id)
            if self._unclean:
                raise sole.Unclean(self.trouble)
            if self._unshown:
                # A busy start can hold a probe up; an environment that lives for hours is not given up for that.
                self._start()
            if self.trouble or self._runner is None:
                raise RunFailed("unavailable", self.trouble)
            if not context.tenant_id:
                raise RunFailed("unavailable", "the function is not isolated by tenant")
            request = RunRequest.of(_request(event))
            if request.run_id != run_id:
                raise WireError("two run ids")
            answer = {"run_id": run_id, "answer": self._runner.run(request, Cancel(), end).to_json()}
            return _placed(answer, event.get("answer"))
        except RunFailed as error:
            return {"run_id": run_id, "error": error.kind, "why": str(error)}
        except (WireError, grants.GrantFailed) as error:
            return {"run_id": run_id, "error": "broken", "why": str(error)}
        except Exception as error:
            # What is not foreseen leaves the environment in a state that is not known.
            why = str(error) if isinstance(error, sole.Unclean) else type(error).__name__
            retire(why, context, run_id=run_id)

    def _claim(self, run_id: str) -> None:
        """A run id is taken once, whatever comes of it."""
        if not run_id or len(run_id) > 200 or run_id in self._ids:
            raise RunFailed("broken", "the run id is taken" if run_id in self._ids else "no run id")
        self._ids[run_id] = None
        if len(self._ids) > _IDS:
            del self._ids[next(iter(self._ids))]


def _request(event: dict[str, Any]) -> dict[str, Any]:
    """The request, inline or by grant. Errors: WireError, GrantFailed."""
    if "request_at" not in event:
        data = event.get("request")
    else:
        url, size = event["request_at"], event.get("request_bytes")
        if type(url) is not str or type(size) is not int or not 0 < size <= REQUEST_BYTES:
            raise WireError("request_at or request_bytes")
        try:
            data = json.loads(b"".join(grants.read(url, 0, size)))
        except ValueError as error:
            raise WireError("the request is not JSON") from error
    if type(data) is not dict:
        raise WireError("request is not an object")
    return data


def _placed(answer: dict[str, Any], grant: Any) -> dict[str, Any]:
    """The answer itself, or where it was put. Errors: WireError, GrantFailed."""
    data = json.dumps(answer, separators=(",", ":")).encode("ascii")
    if len(data) <= ANSWER_BYTES:
        return answer
    if type(grant) is not dict or type(grant.get("key")) is not str or type(grant.get("url")) is not str:
        raise WireError("the answer is too large and has no grant")
    grants.create(grant["url"], [data])
    return {"run_id": answer["run_id"], "answer_at": grant["key"]}


def _log(kind: str, context: Context, **values: str | int | bool) -> None:
    """One line an event: ids, times and our own words; nothing of a program."""
    line = {"event": "sandbox", "kind": kind, "request_id": context.aws_request_id, **values}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def retire(why: str, context: Context, **values: str) -> NoReturn:
    """End the process without an answer, so that the platform makes a new environment and says that this one failed."""
    _log("retired", context, why=why, **values)
    os._exit(1)


def _keeps(name: str) -> bool:
    return name in _KEPT or name.startswith(_KEPT_PREFIX)


def _start() -> Sandbox:
    """Read the settings, then forget the environment: it holds credentials."""
    jail = os.environ.get("WORKROOM_JAIL", _JAIL)
    required = frozenset(os.environ.get("WORKROOM_REQUIRED_LAYERS", _REQUIRED).replace(" ", "").split(",")) - {""}
    alone = os.environ.get("WORKROOM_ALONE") == "1"
    if alone:
        hardened.scrub(_keeps)
        os.umask(0o022)
    return Sandbox(jail, required, alone=alone)


_NOT_ASCII = "AWS_EXECUTION_ENV" in os.environ
_sandbox = _start()


def handler(event: Any, context: Context) -> dict[str, Any] | bytes:
    """The platform's entry: see the top of this module."""
    answer = _sandbox.handle(event, context)
    # There the platform's library writes JSON that is not ASCII, which has no form for a name that is not UTF-8.
    return json.dumps(answer).encode("ascii") if _NOT_ASCII else answer
