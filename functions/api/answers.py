"""Answers of the HTTP door: typed outputs, refusals, and the body that goes with each error (exec.md A8.9)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError
from starlette.responses import Response

from functions.api.mcp_schema import clean
from shared.errors import Code, Failure

JSON = "application/json"


def output_bytes(output: BaseModel) -> bytes:
    """An output as JSON; lone surrogates become U+FFFD."""
    try:
        return output.model_dump_json(by_alias=True).encode("utf-8")
    except (PydanticSerializationError, UnicodeEncodeError):
        data = clean(output.model_dump(mode="python", by_alias=True))
        return compact(data)


def compact(data: object) -> bytes:
    """JSON in UTF-8 without needless spaces, as every answer of this door is written (exec.md A7)."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def answer(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer from bytes."""
    return Response(body, status, headers, media_type=JSON)


def refusal(failure: Failure, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a failure. A 401 names the scheme that a client may use."""
    named = {**failure.headers(), **(headers or {})}
    if failure.code is Code.UNAUTHORIZED:
        named["WWW-Authenticate"] = "Bearer"
    return answer(failure.code.status, compact(clean(failure.body())), named)
