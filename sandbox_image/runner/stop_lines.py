"""The sentences at the end of stderr that say why a program was stopped (exec.md A8.5)."""

from __future__ import annotations

import signal

from shared.executor.wire import Reason, RunLimits

_SIGNAL_REASONS: dict[int, Reason] = {int(signal.SIGXFSZ): "file_bytes", int(signal.SIGXCPU): "cpu"}


def reason_of(reported: str | None, number: int | None) -> Reason | None:
    """The reason of the answer: the supervisor's own, or the limit that a signal tells of."""
    if reported in ("time", "memory", "output", "stopped", "workspace_bytes", "workspace_entries", "cpu"):
        return reported  # type: ignore[return-value]
    return _SIGNAL_REASONS.get(number or 0)


def lines(reason: Reason | None, number: int | None, limits: RunLimits) -> list[str]:
    """What is added to stderr; nothing for a program that ended by itself."""
    if reason is not None:
        return [_REASONS[reason].format(limits=limits, wall=_seconds(limits.wall_ms))]
    if number:
        return [f"killed by signal {number} ({_name(number)})"]
    return []


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time signal" if number > 31 else "unknown"


_REASONS: dict[Reason, str] = {
    "time": "timed out after {wall}",
    "memory": "killed: out of memory (limit {limits.memory_bytes} bytes for all processes and /tmp together)",
    "output": "killed: output limit of {limits.flood_bytes} bytes of one stream",
    "stopped": "killed: the run was cancelled",
    "workspace_bytes": "killed: workspace limit of {limits.workspace_bytes} bytes",
    "workspace_entries": "killed: workspace limit of {limits.workspace_entries} entries",
    "processes": "killed: limit of {limits.processes} processes",
    "file_bytes": "killed: a file reached the limit of {limits.file_bytes} bytes",
    "cpu": "killed: CPU time limit of a run of {wall}",
}
