"""How long the worker's clients wait. They never retry: a lost answer is not asked again behind our back."""

from __future__ import annotations

from typing import Any


def patience() -> Any:
    """botocore's configuration: one attempt, short time-outs in seconds."""
    from botocore.config import Config  # noqa: PLC0415  (slow to import, and of no use on one machine)

    return Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1})
