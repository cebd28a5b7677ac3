"""Answers of the Agents API, and the headers of each (agents.md 1.3)."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from functions.api.answers import JSON, compact
from functions.api.mcp_schema import clean
from shared.agents_errors import Refusal


def answer(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer from bytes."""
    return Response(body, status, headers, media_type=JSON)


def refusal(refused: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """The envelope of an error."""
    return answer(refused.status, compact(clean(refused.envelope())), {**refused.wire_headers(), **(headers or {})})
