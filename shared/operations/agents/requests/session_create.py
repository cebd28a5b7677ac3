"""`POST /agents/sessions` (agents.md 5.1, 11.20, 11.32 to 11.34).

unknown members ── not supported ── types of the small ones ── environment, model required ── agent ── environment
    ── metadata ── input ── `none` without input ── a stream without input ── what a program cannot have
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.agents_errors import Fault, Refusal
from shared.operations.agents.requests.agent import read_agent, read_changes
from shared.operations.agents.requests.content import UserMessage, check_size, read_messages, text_message
from shared.operations.agents.requests.engines import Engines, check_environment, check_images
from shared.operations.agents.requests.environment import EnvironmentRequest, read_environment
from shared.operations.agents.requests.metadata import read_metadata
from shared.operations.agents.requests.reading import (
    as_array,
    as_flag,
    as_object,
    as_text,
    bad_type,
    bad_value,
    may_echo,
    only,
    only_default,
    required,
    unsupported,
)

_MEMBERS = (
    "environment", "agent", "agent_id", "input", "metadata", "prompt_cache_options", "review", "spend_control",
    "stream", "stream_options", "vault_ids",
)  # fmt: skip
_UNKNOWN = "Request must be a JSON object containing supported fields."
_NO_INPUT = "conversation-only sessions currently require initial input"
_NO_STREAM_INPUT = "streaming session creation requires initial input"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A Session to be made.

    `agent` is the whole definition in wire form, or None where a saved one is named; `overrides` are then the members
    that replace those of the saved one. `vault_ids` is always empty.
    """

    agent: dict[str, Any] | None
    overrides: dict[str, Any]
    agent_id: str | None
    environment: EnvironmentRequest
    input: tuple[UserMessage, ...]
    metadata: dict[str, str]
    stream: bool
    vault_ids: list[str] = field(default_factory=list)

    def resolved(self, saved: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The definition that the Session gets, `saved` being that of `agent_id` in wire form.

        Errors: 400 for what its engine cannot have; ValueError where a saved one is needed and not given.
        """
        if self.agent is not None:
            return self.agent
        if saved is None:
            raise ValueError("a Session of a saved agent without it")
        agent = {**saved, **self.overrides}
        check_engine(agent["model"], self.environment, self.input)
        return agent


def read_session(data: Mapping[str, Any], engines: Engines) -> SessionRequest:
    """Read the body. Errors: 400, the first one in the order above."""
    _known(data)
    _supported(data)
    stream = as_flag(data["stream"], "stream") if "stream" in data else False
    _stream_options(data, stream)
    agent_id = as_text(data["agent_id"], "agent_id") if "agent_id" in data else None
    environment = required(data, "environment", "")
    given = data["agent"] if data.get("agent") is not None else {}
    agent = read_agent(given, "agent", engines) if agent_id is None else None
    request = SessionRequest(
        agent=agent,
        overrides={} if agent_id is None else read_changes(given, "agent", engines),
        agent_id=agent_id,
        environment=read_environment(environment),
        metadata=read_metadata(data),
        input=_input(data.get("input")),
        stream=stream,
    )
    if not request.input and request.environment.kind == "none":
        raise Refusal(Fault.INVALID, _NO_INPUT)
    if not request.input and stream and request.environment.kind != "self_hosted":
        raise Refusal(Fault.INVALID, _NO_STREAM_INPUT)
    model = agent["model"] if agent is not None else request.overrides.get("model")
    if model is not None:
        check_engine(model, request.environment, request.input)
    return request


def check_engine(model: str, environment: EnvironmentRequest, messages: tuple[UserMessage, ...]) -> None:
    """What a model's engine cannot have: no Environment, an image. Errors: 400 (agents.md 11.32)."""
    check_environment(model, environment.kind)
    check_images(model, messages, "input")


def _known(data: Mapping[str, Any]) -> None:
    """The first unknown member in document order."""
    for name in data:
        if name not in _MEMBERS:
            raise Refusal(Fault.LOCAL, _UNKNOWN, param=name if may_echo(name) else None)


def _supported(data: Mapping[str, Any]) -> None:
    """What the contract has and this service has not may be said to be off, empty or as it is (agents.md 11.34)."""
    only_default(data, "prompt_cache_options", "", {"ttl": "30m"})
    only_default(data, "review", "", "none")
    only_default(data, "spend_control", "", {"limit": None})
    if data.get("vault_ids") is not None and as_array(data["vault_ids"], "vault_ids"):
        raise unsupported("vault_ids")


def _stream_options(data: Mapping[str, Any], stream: bool) -> None:
    """Taken and ignored (agents.md 11.43), with a stream only."""
    value = data.get("stream_options")
    if value is None:
        return
    options = as_object(value, "stream_options")
    only(options, ("include_obfuscation",), "stream_options")
    if "include_obfuscation" in options:
        as_flag(options["include_obfuscation"], "stream_options.include_obfuscation")
    if options and not stream:
        raise bad_value("stream_options", "only allowed when 'stream' is true.")


def _input(value: object) -> tuple[UserMessage, ...]:
    """A string is one message; null is none."""
    if value is None:
        return ()
    if isinstance(value, (Mapping, bool, int, float)):
        raise bad_type("input", "a string or an array", value)
    messages = (text_message(value),) if isinstance(value, str) else read_messages(value, "input")
    check_size(list(messages))
    return messages
