"""What the command prints. Names and sentences come from callers and programs: a terminal is never steered by them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class Refused(Exception):
    """What ends a command with exit code 1: `message` is the sentence, `code` the error's code where it has one."""

    def __init__(self, message: str, code: str = "") -> None:
        self.message = message
        self.code = code
        super().__init__(message)


def plain(text: str) -> str:
    """A text in one line: every character that does not print is written as an escape."""
    return _UNPRINTABLE.sub(lambda found: _escape(found[0]), text)


def _escape(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1] if ord(char) != 127 else "\\u007f"


def error(message: str) -> None:
    """A line on standard error."""
    print(f"error: {plain(message)}", file=sys.stderr)


def note(message: str) -> None:
    """A line on standard error that is no error."""
    print(plain(message), file=sys.stderr)


def line(text: str) -> None:
    """A line on standard output."""
    print(plain(text))


def as_json(value: object) -> None:
    """A JSON value on standard output, indented; what does not print is escaped as JSON does it."""
    for row in json.dumps(value, indent=2, ensure_ascii=False).split("\n"):
        print(plain(row))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns on standard output, the last one unpadded."""
    all_rows = [tuple(head), *(tuple(plain(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in all_rows) for column in range(len(head) - 1)]
    for row in all_rows:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        print("  ".join([*padded, row[-1]]))


def raw(text: str, *, to_stderr: bool = False) -> None:
    """A program's output, exactly: the bytes of the text, no line break added."""
    stream = sys.stderr if to_stderr else sys.stdout
    stream.flush()
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "replace")
    stream.buffer.write(data)
    stream.buffer.flush()
