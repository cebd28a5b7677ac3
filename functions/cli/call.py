"""`workroom call`: any operation, its input as JSON. Also what operators alone may do, directly on the store."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from typing import Any

from pydantic import BaseModel

from functions.cli.client import Client, connect, path_of, segment
from functions.cli.opened import opened_room
from functions.cli.show import Refused, as_json, line, table
from shared.errors import Failure
from shared.identity import Caller
from shared.operations.base import Call, Operation, operations
from shared.settings import AGENTS_GROUPS, Settings

AnyOperation = Operation[Any, Any]

OPERATOR = Caller("operator", "cli")
"""Whoever may open the data folder may do what operators do."""

_PARAMETER = re.compile(r"\{(\w+)(:path)?\}")
_START = "exec.start"
_BETA = {"OpenAI-Beta": "agents=v1"}
_STREAMED = ("sessions.create", "stream")
_PROGRAMS = frozenset(("exec", "health", *AGENTS_GROUPS)) - {"agents"}
"""Groups whose operations may run a program: also who only looks at a Session has its work done."""


def call(settings: Settings, args: Namespace) -> int:
    """Call an operation and print its output."""
    import shared.operations.all  # noqa: F401, PLC0415

    known = operations()
    if args.list:
        table(("OPERATION", "SUMMARY"), [(name, one.summary) for name, one in known.items()])
        return 0
    operation = known.get(args.operation)
    if operation is None:
        raise Refused("there is no such operation: see workroom call --list")
    if args.schema:
        as_json(_schema(operation))
        return 0
    if args.help:
        _describe(operation)
        return 0
    data = _input(args.input)
    parsed = _parsed(operation, data)
    if operation.audience == "operator":
        as_json(directly(settings, operation, parsed).model_dump(mode="json", by_alias=True))
        return 0
    with connect(settings, programs=operation.group in _PROGRAMS) as client:
        as_json(over_http(client, operation, data))
    return 0


def directly(settings: Settings, operation: AnyOperation, data: BaseModel) -> Any:
    """Run an operator's operation on the data folder. Errors: Refused."""
    with opened_room(settings, programs=False) as room:
        try:
            return operation.run(room, Call(OPERATOR), data)
        except Failure as failure:
            raise Refused(failure.message, failure.code.value.code) from None


def over_http(client: Client, operation: AnyOperation, data: dict[str, Any]) -> Any:
    """Ask a service for an operation. One without a route is reached as a tool of the service's MCP door."""
    if operation.name == _START:
        return client.json("POST", "/v1/exec", body=data, headers={"Prefer": "respond-async"})
    if operation.route is None:
        return _as_tool(client, operation, data)
    post = operation.route.method == "POST"
    # What reads its members itself tells null from nothing; the other inputs and a query know no null.
    nulls = post and operation.reader is not None
    rest = {name: value for name, value in data.items() if nulls or value is not None}
    # The command prints one answer, not the events of a stream.
    rest = {name: value for name, value in rest.items() if (operation.name, name) != _STREAMED}

    def member(found: re.Match[str]) -> str:
        given = rest.pop(found[1], None)
        if given is None:
            raise Refused(f"`{found[1]}` is required", "invalid_request")
        value = str(given)
        return path_of(value) if found[2] else segment(value)

    headers = {**client.bearer, **_BETA} if operation.route.contract == "agents" else None
    path = _PARAMETER.sub(member, operation.route.paths[0])
    if post:
        return client.json("POST", path, body=rest, headers=headers)
    return client.json(operation.route.method, path, query=_pairs(rest), headers=headers)


def _pairs(members: dict[str, Any]) -> dict[str, Any]:
    """Members as a query has them: a map is a pair for each of its keys, `name[key]`."""
    made: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, dict):
            made |= {f"{name}[{key}]": inner for key, inner in value.items()}
        else:
            made[name] = value
    return made


def _as_tool(client: Client, operation: AnyOperation, data: dict[str, Any]) -> Any:
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415

    from functions.api.mcp_forward import HEADERS, Unanswered, request, result_of  # noqa: PLC0415

    params = {"name": operation.name.replace(".", "_"), "arguments": data}
    try:
        result = result_of(*client.post_any("/mcp", request("tools/call", params), HEADERS))
    except Unanswered as refused:
        raise Refused(refused.message, refused.code) from None
    except MCPError as refused:
        raise Refused(refused.message) from None
    if result.get("isError"):
        code, _, message = str(result["content"][0]["text"]).partition(": ")
        raise Refused(message, code)
    value = result["structuredContent"]
    return value if _schema_of_output(operation).get("type") == "object" else value["result"]


def _schema_of_output(operation: AnyOperation) -> dict[str, Any]:
    found: dict[str, Any] = operation.output.model_json_schema()
    return found


def _input(text: str) -> dict[str, Any]:
    """The input: JSON on the command line, or on standard input for `-`."""
    try:
        data = json.loads(sys.stdin.buffer.read() if text == "-" else text)
    except (ValueError, RecursionError):
        raise Refused("the input is not JSON") from None
    if not isinstance(data, dict):
        raise Refused("the input must be a JSON object")
    return data


def _parsed(operation: AnyOperation, data: dict[str, Any]) -> BaseModel:
    """The input as the operation reads it: refused here as any door would, and before anything is started."""
    try:
        found: BaseModel = operation.parse(data)
    except Failure as failure:
        raise Refused(failure.message, failure.code.value.code) from None
    return found


def _schema(operation: AnyOperation) -> dict[str, Any]:
    from functions.api.mcp_schema import input_schema  # noqa: PLC0415

    return input_schema(operation.input)


def _describe(operation: AnyOperation) -> None:
    line(f"workroom call {operation.name} JSON")
    line("")
    line(f"{operation.summary}.")
    for paragraph in operation.description.split("\n\n") if operation.description else ():
        line("")
        line(paragraph)
    line("")
    line("The input:")
    as_json(_schema(operation))
