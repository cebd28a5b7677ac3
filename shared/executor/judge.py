"""What an executor answers is hostile input: nothing of it is believed before it passed here (DESIGN §6.5).

The program may have taken the executor over. So paths are canonical, kinds known, sizes and counts within the limits
of the request, bytes where they are said to be, and nothing is placed in an object that was not granted. The work is
bounded by the answer and the manifest, each looked at once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping

from shared.domain.paths import parents, program_refusal
from shared.executor.wire import Entry, RunAnswer, RunRequest

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_EMPTY = hashlib.sha256(b"").hexdigest()
_MAX_NAME = 255
_MAX_TARGET = 4_096
_LOST_MAX = 100
_REASON_MAX = 200
_TEXT_SLACK = 4_096
_MAX_MTIME = 2**63
_MAX_COUNT = 2**53


class BrokenAnswer(Exception):
    """The answer breaks the contract; the text says how, for the log, without a value of the answer."""


def judge(answer: RunAnswer, request: RunRequest, written: Callable[[str], int | None]) -> None:
    """Refuse an answer that a sound executor cannot give.

    `written` gives the size of an object that the executor created under a granted key, or None. A workspace that is
    above a limit already may stay there but not grow. Errors: BrokenAnswer.
    """
    if answer.run_id != request.run_id:
        raise BrokenAnswer("another run's answer")
    _judge_texts(answer, request)
    _judge_numbers(answer)
    if len(answer.pack) > request.limits.inline_bytes:
        raise BrokenAnswer("inline pack above its limit")
    before = {entry.path: entry for entry in request.manifest}
    gone = set(answer.deleted)
    if len(gone) != len(answer.deleted) or not gone <= before.keys():
        raise BrokenAnswer("a deleted path that was not there")
    _judge_entries(answer, request)
    _judge_changed(answer, request)
    _judge_tree(answer, request, before, gone)
    _judge_places(answer, request, before, written)
    total = sum(entry.size for path, entry in before.items() if path not in gone)
    total += sum(entry.size - (before[entry.path].size if entry.path in before else 0) for entry in answer.changes)
    if total > max(request.limits.workspace_bytes, sum(entry.size for entry in before.values())):
        raise BrokenAnswer("bytes above the limit")


def _judge_texts(answer: RunAnswer, request: RunRequest) -> None:
    """A kept byte becomes three at most (a replacement); our own lines come on top. Lone surrogates are no text."""
    limits = request.limits
    for name, text, limit in (
        ("stdout", answer.stdout, limits.stdout_bytes),
        ("stderr", answer.stderr, limits.stderr_bytes),
    ):
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise BrokenAnswer(f"{name} is no text") from None
        if size > 3 * limit + _TEXT_SLACK:
            raise BrokenAnswer(f"{name} above its limit")
    if len(answer.lost) > _LOST_MAX:
        raise BrokenAnswer("lost list above its limit")
    for path, why in answer.lost:
        if len(path) > limits.path_bytes + _TEXT_SLACK or len(why) > _REASON_MAX or not why.isprintable():
            raise BrokenAnswer("a lost path or its reason")


def _judge_numbers(answer: RunAnswer) -> None:
    if answer.code is not None and answer.signal is not None:
        raise BrokenAnswer("both a code and a signal")
    if answer.code is None and answer.signal is None and answer.reason is None:
        raise BrokenAnswer("neither a code nor a signal")
    if answer.code is not None and not 0 <= answer.code <= 255:
        raise BrokenAnswer("code out of range")
    if answer.signal is not None and not 1 <= answer.signal <= 64:
        raise BrokenAnswer("signal out of range")
    counts = (answer.wall_ms, answer.cpu_ms, answer.peak_memory, answer.restore_ms, answer.collect_ms)
    if not all(0 <= count <= _MAX_COUNT for count in counts):
        raise BrokenAnswer("a time or size out of range")


def _judge_changed(answer: RunAnswer, request: RunRequest) -> None:
    """The files that changed while they were read: none of them is kept, and there are no more than entries."""
    limits = request.limits
    if len(answer.changed) > max(limits.workspace_entries, len(request.manifest)):
        raise BrokenAnswer("changed list above its limit")
    for path in answer.changed:
        why = program_refusal(path, max_bytes=limits.path_bytes, max_depth=limits.path_depth, max_name=_MAX_NAME)
        if why is not None:
            raise BrokenAnswer(f"a changed path {why}")
    changed = set(answer.changed)
    if len(changed) != len(answer.changed) or not changed.isdisjoint(entry.path for entry in answer.changes):
        raise BrokenAnswer("a changed path twice, or one that is kept")


def _judge_entries(answer: RunAnswer, request: RunRequest) -> None:
    """Each entry by itself."""
    limits = request.limits
    for entry in answer.changes:
        why = program_refusal(entry.path, max_bytes=limits.path_bytes, max_depth=limits.path_depth, max_name=_MAX_NAME)
        if why is not None:
            raise BrokenAnswer(f"a path {why}")
        if not 0 <= entry.mode <= 0o7777 or not -_MAX_MTIME <= entry.mtime_ns < _MAX_MTIME:
            raise BrokenAnswer("mode or mtime out of range")
        if (entry.kind == "link") != bool(entry.target) or not _is_target(entry.target):
            raise BrokenAnswer("a link's target")
        if entry.kind != "file" and (entry.size or entry.sha256 or entry.blob or entry.offset):
            raise BrokenAnswer("bytes of what is no file")
        if entry.kind == "file" and (
            entry.size < 0 or _SHA256.fullmatch(entry.sha256) is None or (entry.size == 0) != (entry.sha256 == _EMPTY)
        ):
            raise BrokenAnswer("size or digest of a file")


def _is_target(target: str) -> bool:
    try:
        raw = target.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return len(raw) <= _MAX_TARGET and b"\0" not in raw


def _judge_tree(answer: RunAnswer, request: RunRequest, before: Mapping[str, Entry], gone: set[str]) -> None:
    """The paths together: each once, each in a folder, not too many. A new folder need not be named."""
    changed = {entry.path: entry.kind for entry in answer.changes}
    if len(changed) != len(answer.changes) or not gone.isdisjoint(changed):
        raise BrokenAnswer("a path twice")
    kinds: dict[str, str] = {path: entry.kind for path, entry in before.items() if path not in gone}
    kinds.update(changed)
    most = max(request.limits.workspace_entries, len(before))
    for path in changed:
        for parent in parents(path):
            if kinds.setdefault(parent, "dir") != "dir":
                raise BrokenAnswer("a parent that is no folder")
        if len(kinds) > most:
            raise BrokenAnswer("entries above the limit")
    folders = {path for path, entry in before.items() if entry.kind == "dir" and kinds.get(path) != "dir"}
    if folders and any(path.rpartition("/")[0] in folders for path in kinds):
        raise BrokenAnswer("a parent that is no folder")


def _judge_places(
    answer: RunAnswer, request: RunRequest, before: Mapping[str, Entry], written: Callable[[str], int | None]
) -> None:
    """Where the bytes lie: in the inline pack, in a granted object, or where they lay before the run."""
    granted = {key for key, _ in request.writes}
    sizes: dict[str, int | None] = {"": len(answer.pack)}
    for entry in answer.changes:
        if entry.kind != "file" or entry.size == 0 or _unmoved(before.get(entry.path), entry):
            continue
        if entry.size > request.limits.file_bytes:
            raise BrokenAnswer("a file above its limit")
        if entry.blob and entry.blob not in granted:
            raise BrokenAnswer("an object that was not granted")
        if entry.blob not in sizes:
            sizes[entry.blob] = written(entry.blob)
        size = sizes[entry.blob]
        if size is None or entry.offset < 0 or entry.offset + entry.size > size:
            raise BrokenAnswer("bytes that are not there")


def _unmoved(before: Entry | None, entry: Entry) -> bool:
    """Whether only the mode or the time of a file differs: its bytes are the ones that the request named."""
    return before is not None and (
        (before.kind, before.size, before.sha256, before.blob, before.offset)
        == (entry.kind, entry.size, entry.sha256, entry.blob, entry.offset)
    )
