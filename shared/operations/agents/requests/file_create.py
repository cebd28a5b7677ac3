"""`POST /agents/environments/{environment_id}/files` (agents.md 3.3). The Environment has been looked up before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.operations.agents.requests.files import FileRequest, read_file


def read_file_create(data: Mapping[str, Any]) -> FileRequest:
    """Read the body, without the members of the route's path: rows 4 to 8. Errors: 400."""
    return read_file(data, path="", index=0)
