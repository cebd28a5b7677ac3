"""An answer that a front door lets through: the encoded JSON of a run is bounded (DESIGN §6).

What is bounded is the text that a door sends: a control character takes six bytes of it. Both outputs keep head and
tail, each list its beginning, and stderr says what is left out. The same output and bound give the same answer, so
a stored one is cut alike at every reading. What is stored stays whole.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence

from pydantic import BaseModel

from shared.operations.exec_models import RunOutput, RunRecord

LEAST_BYTES = 4_096
"""The smallest bound that is kept: below, what every answer has would not fit."""
_LINES_BYTES = 512
"""Kept for the lines of ours and for the two that say how much is left out; each has numbers of at most 20 digits."""


def encoded(output: BaseModel) -> int:
    """Bytes of an output as a door writes it: compact JSON in UTF-8. A lone surrogate counts as U+FFFD does."""
    return len(_json(output.model_dump(mode="python", by_alias=True)))


def fitted(output: RunOutput, most: int, around: int = 0) -> RunOutput:
    """The output, cut where it and `around` more bytes are above `most`; 0 is no bound."""
    if most == 0 or encoded(output) + around <= most:
        return output
    most = max(most, LEAST_BYTES) - around - _LINES_BYTES
    lines: list[str] = []
    bare = encoded(output.model_copy(update={"stdout": "", "stderr": "", "files": [], "deleted_files": []}))
    texts = min(_size(output.stdout) + _size(output.stderr), most // 4)
    files, deleted = _lists(output, most - bare - texts)
    left = [
        f"`{name}` has {len(kept)} of {len(whole)}"
        for name, kept, whole in (("files", files, output.files), ("deleted_files", deleted, output.deleted_files))
        if len(kept) < len(whole)
    ]
    if left:
        lines.append(f"workroom: {', '.join(left)}: list the session to see its files")
    cut = output.model_copy(update={"files": files, "deleted_files": deleted})
    rest = most - encoded(cut.model_copy(update={"stdout": "", "stderr": ""}))
    stdout, stderr = _texts(output.stdout, output.stderr, rest)
    update: dict[str, object] = {"stdout": stdout}
    if (stdout, stderr) != (output.stdout, output.stderr):
        lines.append("workroom: output was cut: the answer would be too large; write it to a file")
        update["status"] = "OL"
    if stderr and not stderr.endswith("\n"):
        stderr += "\n"
    return cut.model_copy(update={**update, "stderr": stderr + "".join(line + "\n" for line in lines)})


def fitted_record(record: RunRecord, most: int) -> RunRecord:
    """A record whose result is cut so that the whole fits."""
    if record.result is None:
        return record
    around = encoded(record) - encoded(record.result)
    return record.model_copy(update={"result": fitted(record.result, most, around)})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _size(text: str) -> int:
    """Bytes of a text between its quotes."""
    return len(_json(text)) - 2


def _lists(output: RunOutput, most: int) -> tuple[Sequence[object], Sequence[str]]:
    """The beginnings of both lists that fit together; removed names leave at least three quarters to files."""
    files = [len(_json(file.model_dump(mode="python"))) + 1 for file in output.files]
    deleted = [len(_json(name)) + 1 for name in output.deleted_files]
    if sum(files) + sum(deleted) <= most:
        return output.files, output.deleted_files
    kept = _fitting(files, most - min(sum(deleted), most // 4))
    gone = _fitting(deleted, most - sum(files[:kept]))
    return output.files[:kept], output.deleted_files[:gone]


def _fitting(sizes: Sequence[int], most: int) -> int:
    """How many of them, from the first on, fit."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > most:
            return count
    return len(sizes)


def _texts(stdout: str, stderr: str, most: int) -> tuple[str, str]:
    """Both outputs in `most` bytes: half for each, and what one does not need for the other."""
    out, err = _size(stdout), _size(stderr)
    if out + err <= most:
        return stdout, stderr
    half = most // 2
    for_err = min(err, max(half, most - out))
    for_out = min(out, most - for_err)
    return _ends(stdout, out, for_out), _ends(stderr, err, for_err)


def _ends(text: str, size: int, most: int) -> str:
    """Head and tail of a text, of half of `most` bytes each, with a line between them, as the runner cuts."""
    if size <= most:
        return text
    half = max(0, most // 2)
    head = text[: _longest(len(text), lambda count: _size(text[:count]), half)]
    tail = text[len(text) - _longest(len(text), lambda count: _size(text[len(text) - count :]), half) :]
    out = sum(len(part.encode("utf-8", "surrogatepass")) * sign for part, sign in ((text, 1), (head, -1), (tail, -1)))
    between = "" if not head or head.endswith("\n") else "\n"
    return f"{head}{between}[{out} bytes of output left out]\n{tail}"


def _longest(length: int, size: Callable[[int], int], most: int) -> int:
    """How many characters fit: `size` of a count grows with it."""
    return bisect_right(range(min(length, most) + 1), most, key=size) - 1
