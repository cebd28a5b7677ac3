"""The tables of the README that are made from the code: `python -m functions.cli.docs [--check] [FILE]`.

A table stands between `<!-- begin:NAME -->` and `<!-- end:NAME -->`. `--check` writes nothing and exits with 1 where
the file differs from what the code says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from shared.limits import GIB, KIB, MIB, Limits
from shared.settings import PREFIX, Settings

README = Path(__file__).resolve().parents[2] / "README.md"


def limits_table() -> str:
    """Every limit, with its unit and sentence."""
    rows = [
        (f"`{entry.name}`", amount(entry.default, entry.metadata["unit"]), entry.metadata["doc"])
        for entry in fields(Limits)
    ]
    return markdown(("limit", "default", "of"), rows)


def settings_table() -> str:
    """Every setting, with its default and sentence."""
    rows = [
        (f"`{PREFIX}{entry.name.upper()}`", code(default_of(entry.default)), entry.metadata["doc"])
        for entry in fields(Settings)
    ]
    return markdown(("setting", "default", "what"), rows)


def amount(value: Any, unit: str) -> str:
    """A limit in words: bytes in KiB, MiB or GiB and times in seconds or hours where they are whole."""
    if unit == "bytes":
        for size, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
            if value >= size and value % size == 0:
                return f"{value // size:,} {name}"
    if unit == "ms":
        for size, name in ((3_600_000, "h"), (1_000, "s")):
            if value >= size and value % size == 0:
                return f"{value // size:,} {name}"
    return f"{value:,} {unit}"


def default_of(value: Any) -> str:
    """A setting's default as the environment would have it; empty where there is none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def code(text: str) -> str:
    """A word of code in Markdown; nothing stays nothing."""
    return f"`{text}`" if text else ""


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {"limits": limits_table, "settings": settings_table}


def filled(text: str) -> str:
    """A text with each table between its marks. Errors: ValueError naming marks that are missing or twice there."""
    for name, table in TABLES.items():
        begin, end = f"<!-- begin:{name} -->", f"<!-- end:{name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"the marks {begin} and {end} must stand there once each")
        before, _, rest = text.partition(begin)
        if end not in rest:
            raise ValueError(f"{begin} must come before {end}")
        text = f"{before}{begin}\n{table()}\n{end}{rest.partition(end)[2]}"
    return text


def main(argv: Sequence[str]) -> int:
    """Update the file, or check it."""
    check = "--check" in argv
    names = [word for word in argv if word != "--check"]
    path = Path(names[0]) if names else README
    try:
        before = path.read_text(encoding="utf-8")
        after = filled(before)
    except (OSError, ValueError) as problem:
        print(f"error: {path.name}: {problem}", file=sys.stderr)
        return 1
    if before == after:
        return 0
    if check:
        print(f"error: {path.name} differs from the code: python -m functions.cli.docs", file=sys.stderr)
        return 1
    path.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
