"""A progress bar on a terminal for a transfer that takes longer than a second; elsewhere nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from functions.cli.show import plain

Advance = Callable[[int], object]


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Advance]:
    """What to call with the number of bytes that went through."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from tqdm import tqdm  # noqa: PLC0415

    with tqdm(
        total=total,
        desc=plain(label),
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        delay=1,
        leave=False,
        file=sys.stderr,
    ) as bar:
        yield bar.update
