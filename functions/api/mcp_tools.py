"""MCP tools, made from the operations: the listing, and one call of a tool.

Nothing here knows a transport. A tool is called for an admitted caller that the transport hands in; each operation
asks for it itself (cases.md H3). A refused input, an unreachable executor and a rate limit are results with
`isError` and a text that begins with the error's code; a program that fails is not (G6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from functions.api.access import unexpected
from functions.api.mcp_content import content_of
from functions.api.mcp_schema import input_schema, output_schema, structured, text
from shared.errors import Code, Failure
from shared.executor.port import ExecutorFailed
from shared.identity import Caller
from shared.operations.base import Call, Cancel, Operation, operations
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable

AnyOperation = Operation[Any, Any]

_READS = frozenset({"get", "list", "read", "stat", "items", "list_files"})
_ADDS = frozenset(
    {
        "agents.create",
        "environments.create_file",
        "sessions.create",
        "uploads.create",
        "exec.programmatic",
        "exec.programmatic_cancel",
        "sources.begin_upload",
        "sources.complete_upload",
    }
)
_REPEATS = frozenset(
    {
        "agents.delete",
        "agents.update",
        "artifacts.delete",
        "sessions.delete",
        "sessions.update",
        "files.delete",
        "files.write",
        "exec.programmatic_cancel",
        "sources.cancel_upload",
        "sources.complete_upload",
        "sources.delete",
    }
)


def tool_name(operation: AnyOperation) -> str:
    """`group_verb`: many clients refuse a dot in a tool's name."""
    return operation.name.replace(".", "_")


def hints(operation: AnyOperation) -> ToolAnnotations:
    """The hints. A run may replace and delete files of its session; no operation reaches beyond the service."""
    reads = operation.name.partition(".")[2] in _READS
    return ToolAnnotations(
        title=operation.summary,
        read_only_hint=reads,
        destructive_hint=not reads and operation.name not in _ADDS,
        idempotent_hint=reads or operation.name in _REPEATS,
        open_world_hint=False,
    )


def failed(failure: Failure) -> CallToolResult:
    """A refusal or failure as a result: `code: sentence`, and when to come back where the error says so."""
    words = f"{failure.code.value.code}: {text(failure.message)}"
    if failure.headers():
        words += f" Retry after {failure.headers()['Retry-After']} s."
    return CallToolResult(content=[TextContent(text=words)], is_error=True)


class Tools:
    """The tools of one deployment: every typed operation of callers in the groups that the settings list."""

    def __init__(self, room: Room, groups: tuple[str, ...], declared: Mapping[str, AnyOperation] | None = None) -> None:
        self._room = room
        self._operations = {
            tool_name(operation): operation
            for operation in (operations() if declared is None else declared).values()
            if operation.audience == "caller" and operation.group in groups
        }
        names = "|".join(re.escape(operation.name) for operation in self._operations.values())
        self._named = re.compile(f"`({names})`")
        self.listing = [self._tool(name, operation) for name, operation in self._operations.items()]

    def _tool(self, name: str, operation: AnyOperation) -> Tool:
        # Prose names operations; a model has to find them under the names of their tools.
        prose = self._named.sub(lambda found: found[0].replace(".", "_"), operation.description)
        return Tool(
            name=name,
            title=operation.summary,
            description=f"{operation.summary}.\n\n{prose}".strip(),
            input_schema=input_schema(operation.input),
            output_schema=output_schema(operation.output),
            annotations=hints(operation),
        )

    def __contains__(self, name: object) -> bool:
        return name in self._operations

    def call(
        self, caller: Caller | None, name: str, arguments: Mapping[str, Any] | None, cancel: Cancel, request_id: str
    ) -> CallToolResult:
        """Call a listed tool, blocking. `cancel` fires when the caller has gone. Never raises but KeyError."""
        operation = self._operations[name]
        call = Call(caller=caller, cancel=cancel)
        try:
            output = operation.call_with(self._room, call, dict(arguments or {}))
            value = structured(output)
            content = content_of(self._room, call, operation.name, value)
            return CallToolResult(content=[*content], structured_content=value)
        except Failure as failure:
            return failed(failure)
        except StoreUnavailable:
            return failed(Failure(Code.STORE_UNAVAILABLE))
        except ExecutorFailed:
            return failed(Failure(Code.EXECUTOR_UNAVAILABLE))
        except Exception as error:
            unexpected(request_id, error)
            return failed(Failure(Code.INTERNAL))
