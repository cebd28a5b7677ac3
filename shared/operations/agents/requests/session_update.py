"""`POST /agents/sessions/{session_id}`: metadata, and nothing else (agents.md 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.operations.agents.requests.metadata import read_metadata
from shared.operations.agents.requests.reading import only, only_default, refusal


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """What is to change. `metadata` replaces all there is; None leaves it."""

    metadata: dict[str, str] | None


def read_session_update(data: Mapping[str, Any]) -> SessionUpdate:
    """Read the body, without the members of the route's path. Errors: 400.

    Checks, in order: an empty body, unknown members, members that are not supported, the metadata.
    """
    if not data:
        raise refusal("At least one update field is required")
    only(data, ("agent", "metadata", "prompt_cache_options", "review", "spend_control"), "")
    only_default(data, "agent", "")
    only_default(data, "prompt_cache_options", "", {"ttl": "30m"})
    only_default(data, "review", "", "none")
    only_default(data, "spend_control", "", {"limit": None})
    return SessionUpdate(read_metadata(data) if "metadata" in data else None)
