"""Telling the port RunMetrics of each run: how it ended, the time of its phases, its bytes. No name and no text."""

from __future__ import annotations

import logging
import time

from shared.domain.manifest import Manifest
from shared.domain.merge import Merged
from shared.errors import Code, Failure
from shared.executor.wire import RunAnswer
from shared.operations.exec_models import RunInput
from shared.operations.room import RunMetrics
from shared.store.ports import StoreUnavailable

_LOG = logging.getLogger("workroom.run")
_REASONS = {"time": "time", "memory": "memory", "output": "output"}


class Counted:
    """One run, from its begin to `report`.

    Phases: `wait` for the session, `restore`, `run` and `collect` as the executor measured them, `store` from its
    answer on, `total`.
    """

    def __init__(self, data: RunInput) -> None:
        self._begun = self._last = time.monotonic()
        self._lang = data.lang
        self._in = len(data.code.encode("utf-8", "surrogatepass"))
        self._in += sum(len(arg.encode("utf-8", "surrogatepass")) for arg in data.args)
        self._out = 0
        self._ms: dict[str, int] = {}
        self._ended = "ok"

    def locked(self) -> None:
        """The session is ours."""
        self._ms["wait"] = self._since(self._begun)

    def brought(self, base: Manifest) -> None:
        """The workspace that the program starts on is known."""
        self._in += base.size

    def answered(self, answer: RunAnswer) -> None:
        """The executor answered, soundly."""
        self._ms |= {"restore": answer.restore_ms, "run": answer.wall_ms, "collect": answer.collect_ms}
        self._last = time.monotonic()
        self._ended = _outcome(answer)

    def stored(self, answer: RunAnswer, merged: Merged) -> None:
        """The run is committed."""
        self._ms["store"] = self._since(self._last)
        self._out = len(answer.stdout.encode("utf-8", "surrogatepass"))
        self._out += len(answer.stderr.encode("utf-8", "surrogatepass"))
        self._out += sum(entry.size for entry in merged.written)

    def report(self, metrics: RunMetrics, error: BaseException | None) -> None:
        """Tell of the run's end. Nothing that goes wrong here is the run's."""
        self._ms["total"] = self._since(self._begun)
        outcome = self._ended if error is None else f"error:{_code(error).value.code}"
        try:
            metrics.run(lang=self._lang, outcome=outcome, ms=self._ms, bytes_in=self._in, bytes_out=self._out)
        except Exception as failure:
            _LOG.error("a run was not counted: %s", type(failure).__name__)

    @staticmethod
    def _since(moment: float) -> int:
        return round((time.monotonic() - moment) * 1000)


def _outcome(answer: RunAnswer) -> str:
    if answer.reason is not None:
        return _REASONS.get(answer.reason, "killed")
    if answer.signal is not None:
        return "killed"
    return "failed" if answer.code else "ok"


def _code(error: BaseException) -> Code:
    if isinstance(error, Failure):
        return error.code
    return Code.STORE_UNAVAILABLE if isinstance(error, StoreUnavailable) else Code.INTERNAL
