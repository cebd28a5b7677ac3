"""The definition of an agent, inline in a Session and saved (agents.md 5.1, 11.33, 11.34, 11.43).

What is read is the wire form: every member that the contract requires of an answer is there, defaults filled in. Of the
tools only functions do anything; a built-in tool may be named where it is disabled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from shared.operations.agents.requests.engines import Engines
from shared.operations.agents.requests.reading import (
    as_array,
    as_flag,
    as_object,
    as_text,
    at,
    bad_type,
    bad_value,
    json_bytes,
    one_of,
    only,
    only_default,
    required,
    unsupported,
)

INSTRUCTIONS_BYTES = 256 * 1024
NAME_CHARS = 256
TOOLS_BYTES = 3 * 1024 * 1024
"""All tools of an agent as compact JSON in UTF-8 (the SDK's own limit)."""

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARIES = ("concise", "detailed", "auto")
_TIERS = ("auto", "default", "flex", "priority", "fast", "ultrafast")
_SERVED_TIERS = ("auto", "default")
_VERBOSITIES = ("low", "medium", "high")
_TOOLS = (
    "function", "tool_search", "programmatic_tool_calling", "mcp", "web_search", "computer_use", "automations",
)  # fmt: skip
_FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def read_agent(
    data: object, path: str = "agent", engines: Engines | None = None, *, besides: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A whole definition with every member of the wire's but `id`. `besides` are members that others read.

    Checks, in order: unknown members, the model, the other members. Errors: 400 naming the path below `path`.
    """
    body = _known(data, path, besides)
    model = (engines or Engines()).read(body.get("model"), at(path, "model"))
    return {"model": model, **{name: _MEMBERS[name](body.get(name), at(path, name)) for name in _MEMBERS}}


def read_changes(
    data: object, path: str = "agent", engines: Engines | None = None, *, besides: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The members that are given, in wire form: what replaces those of a saved agent. Null is a member's default, but
    of `model` it is as absent. Errors: 400, as `read_agent`."""
    body = _known(data, path, besides)
    changes: dict[str, Any] = {}
    if body.get("model") is not None:
        changes["model"] = (engines or Engines()).read(body["model"], at(path, "model"))
    for name, read in _MEMBERS.items():
        if name in body:
            changes[name] = read(body[name], at(path, name))
    return changes


def _known(data: object, path: str, besides: tuple[str, ...]) -> Mapping[str, Any]:
    body = as_object(data, path)
    only(body, ("model", *_MEMBERS, "compaction", "experimental", *besides), path)
    _off(body, "compaction", "async", True, path)
    _off(body, "experimental", "time_awareness", False, path)
    return body


def _off(body: Mapping[str, Any], name: str, member: str, default: bool, path: str) -> None:
    """An object whose only member may not be other than its default."""
    if body.get(name) is not None:
        inner = as_object(body[name], at(path, name))
        only(inner, (member,), at(path, name))
        only_default(inner, member, at(path, name), default)


def _instructions(value: object, path: str) -> str | None:
    if value is None:
        return None
    text = as_text(value, path)
    if len(text.encode("utf-8", "surrogatepass")) > INSTRUCTIONS_BYTES:
        raise bad_value(path, f"at most {INSTRUCTIONS_BYTES} bytes are taken.")
    return text


def _name(value: object, path: str) -> str | None:
    if value is None:
        return None
    text = as_text(value, path)
    if len(text) > NAME_CHARS:
        raise bad_value(path, f"at most {NAME_CHARS} characters are taken.")
    return text


def _multi_agent(value: object, path: str) -> dict[str, Any]:
    """Subagents are not offered; switched off they may be configured."""
    if value is not None and value != {}:
        data = as_object(value, path)
        only(data, ("enabled", "max_concurrent_subagents"), path)
        if as_flag(required(data, "enabled", path), at(path, "enabled")):
            raise unsupported(at(path, "enabled"), "subagents are not available.")
        most = data.get("max_concurrent_subagents")
        if most is not None and (isinstance(most, bool) or not isinstance(most, int)):
            raise bad_type(at(path, "max_concurrent_subagents"), "an integer", most)
        if most is not None and most < 1:
            raise bad_value(at(path, "max_concurrent_subagents"), "expected at least 1.")
    return {"enabled": False, "max_concurrent_subagents": None}


def _choice(data: Mapping[str, Any], name: str, choices: tuple[str, ...], path: str) -> str | None:
    value = data.get(name)
    return None if value is None else one_of(value, choices, at(path, name))


def _reasoning(value: object, path: str) -> dict[str, Any]:
    data = {} if value is None else as_object(value, path)
    only(data, ("effort", "summary"), path)
    return {
        "effort": _choice(data, "effort", _EFFORTS, path),
        "summary": _choice(data, "summary", _SUMMARIES, path),
    }


def _service_tier(value: object, path: str) -> str:
    if value is None:
        return "auto"
    tier = one_of(value, _TIERS, path)
    if tier not in _SERVED_TIERS:
        raise unsupported(path, "only 'auto' and 'default' are available.")
    return tier


def _text(value: object, path: str) -> dict[str, Any]:
    data = {} if value is None else as_object(value, path)
    only(data, ("format", "verbosity"), path)
    return {
        "format": _format(data.get("format"), at(path, "format")),
        "verbosity": _choice(data, "verbosity", _VERBOSITIES, path) or "medium",
    }


def _format(value: object, path: str) -> dict[str, Any]:
    if value is None:
        return {"type": "text"}
    data = as_object(value, path)
    kind = one_of(required(data, "type", path), ("text", "json_schema"), at(path, "type"))
    if kind == "text":
        only(data, ("type",), path)
        return {"type": "text"}
    only(data, ("type", "schema"), path)
    return {"type": "json_schema", "schema": dict(as_object(required(data, "schema", path), at(path, "schema")))}


def _tools(value: object, path: str) -> list[dict[str, Any]]:
    rows = [] if value is None else as_array(value, path)
    tools = [_tool(row, f"{path}[{index}]") for index, row in enumerate(rows)]
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if tool["type"] == "function":
            if tool["name"] in names:
                raise bad_value(f"{path}[{index}].name", "another function has this name.")
            names.add(tool["name"])
    if json_bytes(tools) > TOOLS_BYTES:
        raise bad_value(path, f"at most {TOOLS_BYTES} bytes of JSON are taken.")
    return tools


def _tool(value: object, path: str) -> dict[str, Any]:
    data = as_object(value, path)
    kind = one_of(required(data, "type", path), _TOOLS, at(path, "type"))
    if kind == "function":
        return _function(data, path)
    if kind == "programmatic_tool_calling" and data.get("enabled") is False:
        only(data, ("type", "enabled"), path)
        return {"type": kind, "enabled": False}
    if kind == "web_search" and data.get("mode") == "disabled":
        only(data, ("type", "mode", "allowed_domains", "context_size", "location"), path)
        for name in ("allowed_domains", "location"):
            only_default(data, name, path)
        only_default(data, "context_size", path, "medium")
        return {"type": kind, "mode": "disabled", "allowed_domains": None, "context_size": "medium", "location": None}
    raise unsupported(at(path, "type"), f"the tool '{kind}' is not available.")


def _function(data: Mapping[str, Any], path: str) -> dict[str, Any]:
    """A function of the caller's. `strict` is kept where it is given: engines hand it on."""
    only(data, ("type", "name", "description", "parameters", "strict", "defer_loading", "async"), path)
    name = as_text(required(data, "name", path), at(path, "name"))
    if not _FUNCTION_NAME.fullmatch(name):
        raise bad_value(at(path, "name"), "expected 1 to 64 letters, digits, '_' and '-'.")
    tool: dict[str, Any] = {
        "type": "function",
        "name": name,
        "description": as_text(required(data, "description", path), at(path, "description")),
        "parameters": dict(as_object(required(data, "parameters", path), at(path, "parameters"))),
        "defer_loading": False,
    }
    for later in ("defer_loading", "async"):
        only_default(data, later, path, False)
    if data.get("strict") is not None:
        tool["strict"] = as_flag(data["strict"], at(path, "strict"))
    return tool


_MEMBERS: dict[str, Callable[[object, str], Any]] = {
    "instructions": _instructions,
    "name": _name,
    "multi_agent": _multi_agent,
    "reasoning": _reasoning,
    "service_tier": _service_tier,
    "text": _text,
    "tools": _tools,
}
"""The members besides the model, in the order in which they are checked."""
