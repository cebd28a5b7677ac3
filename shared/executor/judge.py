"""What an executor answers is hostile input: nothing of it is believed before it passed here (DESIGN §6.5).

The program may have taken the executor over. So paths are canonical, kinds known, sizes and counts within the limits
of the request, bytes where they are said to be, and nothing is placed in an object that was not granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from shared.domain.paths import parents, program_refusal
from shared.executor.wire import Entry, RunAnswer, RunRequest

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MAX_NAME = 255
_MAX_TARGET = 4_096
_LOST_MAX = 100
_REASON_MAX = 200
_TEXT_SLACK = 4_096
_MAX_MTIME = 2**63


class BrokenAnswer(Exception):
    """The answer breaks the contract; the text says how, for the log, without a value of the answer."""


def judge(answer: RunAnswer, request: RunRequest, written: Callable[[str], int | None]) -> None:
    """Refuse an answer that a sound executor cannot give.

    `written` gives the size of an object that the executor created under a granted key, or None. Errors: BrokenAnswer.
    """
    limits = request.limits
    if answer.run_id != request.run_id:
        raise BrokenAnswer("another run's answer")
    if len(answer.stdout.encode("utf-8", "surrogatepass")) > 3 * limits.stdout_bytes + _TEXT_SLACK:
        raise BrokenAnswer("stdout above its limit")
    if len(answer.stderr.encode("utf-8", "surrogatepass")) > 3 * limits.stderr_bytes + _TEXT_SLACK:
        raise BrokenAnswer("stderr above its limit")
    if len(answer.pack) > limits.inline_bytes:
        raise BrokenAnswer("inline pack above its limit")
    if (answer.code is None) == (answer.signal is None) and answer.reason is None:
        raise BrokenAnswer("neither a code nor a signal")
    if answer.code is not None and not 0 <= answer.code <= 255:
        raise BrokenAnswer("code out of range")
    if answer.signal is not None and not 1 <= answer.signal <= 64:
        raise BrokenAnswer("signal out of range")
    if len(answer.lost) > _LOST_MAX or any(len(why) > _REASON_MAX for _, why in answer.lost):
        raise BrokenAnswer("lost list above its limit")
    before = {entry.path: entry for entry in request.manifest}
    _judge_tree(answer, request, before)
    _judge_places(answer, request, before, written)


def _judge_tree(answer: RunAnswer, request: RunRequest, before: Mapping[str, Entry]) -> None:
    limits = request.limits
    seen: set[str] = set()
    for entry in answer.changes:
        why = program_refusal(entry.path, max_bytes=limits.path_bytes, max_depth=limits.path_depth, max_name=_MAX_NAME)
        if why is not None:
            raise BrokenAnswer(f"a path {why}")
        if entry.path in seen:
            raise BrokenAnswer("a path twice")
        seen.add(entry.path)
        if not 0 <= entry.mode <= 0o7777 or not -_MAX_MTIME <= entry.mtime_ns < _MAX_MTIME:
            raise BrokenAnswer("mode or mtime out of range")
        if (entry.kind == "link") != bool(entry.target) or len(entry.target) > _MAX_TARGET or "\0" in entry.target:
            raise BrokenAnswer("a link's target")
    for path in answer.deleted:
        if path not in before or path in seen:
            raise BrokenAnswer("a deleted path that was not there")
    kinds = {path: entry.kind for path, entry in before.items() if path not in set(answer.deleted)}
    kinds.update((entry.path, entry.kind) for entry in answer.changes)
    if len(kinds) > limits.workspace_entries:
        raise BrokenAnswer("entries above the limit")
    for path in seen:
        if any(kinds.get(parent, "dir") != "dir" for parent in parents(path)):
            raise BrokenAnswer("a parent that is no folder")


def _judge_places(
    answer: RunAnswer, request: RunRequest, before: Mapping[str, Entry], written: Callable[[str], int | None]
) -> None:
    limits = request.limits
    granted = {key for key, _ in request.writes}
    sizes: dict[str, int | None] = {"": len(answer.pack)}
    total = {path: entry.size for path, entry in before.items() if path not in set(answer.deleted)}
    for entry in answer.changes:
        total[entry.path] = entry.size
        if entry.kind != "file":
            if entry.size or entry.sha256 or entry.blob or entry.offset:
                raise BrokenAnswer("bytes of what is no file")
            continue
        if not 0 <= entry.size <= limits.workspace_bytes or _SHA256.fullmatch(entry.sha256) is None:
            raise BrokenAnswer("size or digest of a file")
        if entry.size == 0:
            continue
        if entry.blob and entry.blob not in granted:
            raise BrokenAnswer("an object that was not granted")
        if entry.blob not in sizes:
            sizes[entry.blob] = written(entry.blob)
        size = sizes[entry.blob]
        if size is None or entry.offset < 0 or entry.offset + entry.size > size:
            raise BrokenAnswer("bytes that are not there")
    if sum(total.values()) > limits.workspace_bytes:
        raise BrokenAnswer("bytes above the limit")
