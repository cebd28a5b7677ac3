"""The metadata of a Session or a saved agent (agents.md 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.operations.agents.requests.reading import as_object, as_text, may_echo, refusal

PAIRS = 16
KEY_CHARS = 64
VALUE_CHARS = 512


def read_metadata(data: Mapping[str, Any]) -> dict[str, str]:
    """The body's member `metadata`: at most 16 pairs; null and absent are none. Errors: 400."""
    value = data.get("metadata")
    if value is None:
        return {}
    pairs = as_object(value, "metadata")
    if len(pairs) > PAIRS:
        raise refusal(
            f"Invalid 'metadata': too many properties. Expected an object with at most {PAIRS} properties, "
            f"but got an object with {len(pairs)} properties instead.",
            "metadata",
        )
    return {key: _value(key, value) for key, value in pairs.items()}


def _value(key: str, value: object) -> str:
    if len(key) > KEY_CHARS:
        raise refusal(
            f"Invalid 'metadata': property name too long. Expected a name with maximum length {KEY_CHARS}, "
            f"but got a name with length {len(key)} instead.",
            "metadata",
        )
    path = f"metadata.{key}"
    text = as_text(value, path)
    if len(text) > VALUE_CHARS:
        where = path if may_echo(path) else "metadata"
        raise refusal(
            f"Invalid '{where}': string too long. Expected a string with maximum length {VALUE_CHARS}, "
            f"but got a string with length {len(text)} instead.",
            where,
        )
    return text
