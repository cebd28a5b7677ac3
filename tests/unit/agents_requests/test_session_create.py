"""The body of a Session's creation: its order of checks, its defaults (agents.md 5.1, 11.32 to 11.34)."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.beta.agent_session import Agent as WireAgent

from shared.agents_errors import Refusal
from shared.executor.wire import LANGS
from shared.operations.agents.requests.engines import PROGRAMS, Engines
from shared.operations.agents.requests.session_create import read_session
from shared.operations.agents.requests.session_update import read_session_update
from tests.unit.agents_requests.refusing import expect_local, expect_refused

ENGINES = Engines((*PROGRAMS, "chat"))
CHOICES = ", ".join(f"program:{lang}" for lang in LANGS) + ", chat"
HOSTED: dict[str, Any] = {"type": "openai_hosted"}
BASE: dict[str, Any] = {"environment": HOSTED, "agent": {"model": "program:py"}}
UNKNOWN = "Request must be a JSON object containing supported fields."
NO_INPUT = "conversation-only sessions currently require initial input"
NO_STREAM = "streaming session creation requires initial input"
IMAGE = [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "u"}]}]


def with_(**members: Any) -> dict[str, Any]:
    return {**BASE, **members}


def agent(**members: Any) -> dict[str, Any]:
    return with_(agent={"model": "program:py", **members})


def tool(**members: Any) -> dict[str, Any]:
    return agent(tools=[{"type": "function", "name": "f", "description": "", "parameters": {}, **members}])


def test_what_is_not_sent_has_its_default_and_the_wire_form_is_the_clients() -> None:
    read = read_session(BASE, ENGINES)
    assert read.agent == {
        "model": "program:py",
        "instructions": None,
        "name": None,
        "multi_agent": {"enabled": False, "max_concurrent_subagents": None},
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "auto",
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tools": [],
    }
    assert (read.input, read.metadata, read.stream, read.vault_ids, read.agent_id) == ((), {}, False, [], None)
    assert read.overrides == {}
    WireAgent.model_validate({"id": "agent_1", **read.agent}, strict=True)


FULL = {
    "instructions": "say",
    "name": "n",
    "multi_agent": {"enabled": False, "max_concurrent_subagents": 3},
    "reasoning": {"effort": "xhigh", "summary": "auto"},
    "service_tier": "default",
    "text": {"format": {"type": "json_schema", "schema": {"type": "object"}}, "verbosity": "high"},
    "tools": [
        {"type": "function", "name": "f", "description": "d", "parameters": {"a": 1}, "strict": True},
        {"type": "web_search", "mode": "disabled"},
        {"type": "programmatic_tool_calling", "enabled": False},
    ],
    "compaction": {"async": True},
    "experimental": {"time_awareness": False},
}


def test_a_full_definition_is_kept_and_is_the_clients_wire_form() -> None:
    made = read_session(agent(**FULL), ENGINES).agent
    assert made is not None
    assert made["multi_agent"] == {"enabled": False, "max_concurrent_subagents": None}
    assert made["reasoning"] == FULL["reasoning"]
    assert made["text"] == FULL["text"]
    assert made["tools"][0] == {
        "type": "function", "name": "f", "description": "d", "parameters": {"a": 1}, "defer_loading": False,
        "strict": True,
    }  # fmt: skip
    assert "compaction" not in made
    wire = WireAgent.model_validate({"id": "agent_1", **made}, strict=True)
    assert [one.type for one in wire.tools] == ["function", "web_search", "programmatic_tool_calling"]


DEFAULTS = [
    {"prompt_cache_options": None}, {"prompt_cache_options": {}}, {"prompt_cache_options": {"ttl": "30m"}},
    {"review": None}, {"review": "none"}, {"spend_control": None}, {"spend_control": {"limit": None}},
    {"vault_ids": None}, {"vault_ids": []}, {"metadata": None}, {"input": None}, {"stream": False},
    {"stream_options": None}, {"stream_options": {}},
]  # fmt: skip


@pytest.mark.parametrize("members", DEFAULTS, ids=str)
def test_a_member_that_says_the_default_is_as_absent(members: dict[str, Any]) -> None:
    assert read_session(with_(**members), ENGINES) == read_session(BASE, ENGINES)


@pytest.mark.parametrize(
    "members",
    [{name: None} for name in ("multi_agent", "reasoning", "service_tier", "text", "tools", "compaction")]
    + [{"text": {"format": None, "verbosity": None}}, {"reasoning": {}}, {"multi_agent": {}}, {"experimental": {}}],
    ids=str,
)
def test_a_member_of_the_agent_that_says_the_default_is_as_absent(members: dict[str, Any]) -> None:
    assert read_session(agent(**members), ENGINES) == read_session(BASE, ENGINES)


def kinds(path: str, expected: str, got: str) -> tuple[str, str]:
    return f"Invalid type for '{path}': expected {expected}, but got {got} instead.", path


def lacks(path: str) -> tuple[str, str]:
    return f"Missing required parameter: '{path}'.", path


def no(path: str) -> tuple[str, str]:
    return f"Unsupported parameter: '{path}'.", path


def odd(path: str) -> tuple[str, str]:
    return f"Unknown parameter: '{path}'.", path


ROWS: list[tuple[dict[str, Any], tuple[str, str | None]]] = [
    (with_(stream=None), kinds("stream", "a boolean", "null")),
    (with_(stream=1), kinds("stream", "a boolean", "an integer")),
    (with_(agent_id=None), kinds("agent_id", "a string", "null")),
    (with_(stream_options=[]), kinds("stream_options", "an object", "an array")),
    (with_(stream_options={"x": 1}), odd("stream_options.x")),
    (
        with_(stream_options={"include_obfuscation": True}),
        ("Invalid value for 'stream_options': only allowed when 'stream' is true.", "stream_options"),
    ),
    (with_(prompt_cache_options={"ttl": "12h"}), no("prompt_cache_options")),
    (with_(review="auto_review"), no("review")),
    (with_(spend_control={"limit": 5}), no("spend_control")),
    (with_(spend_control={"limit": 0}), no("spend_control")),
    (with_(vault_ids=["v"]), no("vault_ids")),
    (with_(vault_ids="v"), kinds("vault_ids", "an array", "a string")),
    ({"agent": {"model": "chat"}}, lacks("environment")),
    ({"environment": HOSTED}, lacks("agent.model")),
    ({"environment": HOSTED, "agent": {}}, lacks("agent.model")),
    ({"environment": HOSTED, "agent": None}, lacks("agent.model")),
    (with_(environment=[]), kinds("environment", "an object", "an array")),
    (with_(environment={}), lacks("environment.type")),
    (with_(agent="a"), kinds("agent", "an object", "a string")),
    (agent(model=1), kinds("agent.model", "a string", "an integer")),
    (agent(model="gpt"), (f"The model 'gpt' is not available. Choose one of: {CHOICES}.", "agent.model")),
    (agent(model="\n"), (f"The model is not available. Choose one of: {CHOICES}.", "agent.model")),
    (agent(foo=1), odd("agent.foo")),
    (agent(**{"f" * 300: 1}), ("Unknown parameter.", None)),
    (agent(reasoning={"x": 1}), odd("agent.reasoning.x")),
    (
        agent(text={"verbosity": "loud"}),
        ("Invalid value for 'agent.text.verbosity': expected one of 'low', 'medium', 'high'.", "agent.text.verbosity"),
    ),
    (agent(text={"format": {"type": "json_schema"}}), lacks("agent.text.format.schema")),
    (agent(text={"format": {"type": "text", "schema": {}}}), odd("agent.text.format.schema")),
    (agent(instructions=5), kinds("agent.instructions", "a string", "an integer")),
    (agent(instructions="é" * 131_073), ("Invalid value for 'agent.instructions': at most 262144 bytes are taken.",
                                         "agent.instructions")),
    (agent(name="n" * 257), ("Invalid value for 'agent.name': at most 256 characters are taken.", "agent.name")),
    (agent(compaction={"async": False}), no("agent.compaction.async")),
    (agent(experimental={"time_awareness": True}), no("agent.experimental.time_awareness")),
    (agent(experimental={"time_awareness": 0}), no("agent.experimental.time_awareness")),
    (agent(multi_agent={"max_concurrent_subagents": 1}), lacks("agent.multi_agent.enabled")),
    (
        agent(multi_agent={"enabled": True}),
        ("Unsupported value for 'agent.multi_agent.enabled': subagents are not available.",
         "agent.multi_agent.enabled"),
    ),
    (
        agent(service_tier="flex"),
        ("Unsupported value for 'agent.service_tier': only 'auto' and 'default' are available.", "agent.service_tier"),
    ),
    (agent(tools=[{}]), lacks("agent.tools[0].type")),
    (agent(tools={}), kinds("agent.tools", "an array", "an object")),
    *(
        (
            agent(tools=[{"type": name}]),
            (f"Unsupported value for 'agent.tools[0].type': the tool '{name}' is not available.",
             "agent.tools[0].type"),
        )
        for name in ("tool_search", "programmatic_tool_calling", "mcp", "web_search", "computer_use", "automations")
    ),
    (tool(description=None), lacks("agent.tools[0].description")),
    (tool(parameters=None), lacks("agent.tools[0].parameters")),
    (tool(parameters=[]), kinds("agent.tools[0].parameters", "an object", "an array")),
    (tool(strict="yes"), kinds("agent.tools[0].strict", "a boolean", "a string")),
    (tool(defer_loading=True), no("agent.tools[0].defer_loading")),
    (tool(**{"async": True}), no("agent.tools[0].async")),
    (
        tool(name="a b"),
        ("Invalid value for 'agent.tools[0].name': expected 1 to 64 letters, digits, '_' and '-'.",
         "agent.tools[0].name"),
    ),
    (
        agent(tools=tool()["agent"]["tools"] * 2),
        ("Invalid value for 'agent.tools[1].name': another function has this name.", "agent.tools[1].name"),
    ),
    (with_(metadata=[]), kinds("metadata", "an object", "an array")),
    (with_(metadata={"k": 1}), kinds("metadata.k", "a string", "an integer")),
    (with_(metadata={"k": None}), kinds("metadata.k", "a string", "null")),
    (
        with_(metadata={"\n": 1}),
        ("Invalid type: expected a string, but got an integer instead.", None),
    ),
    (with_(input={}), kinds("input", "a string or an array", "an object")),
    (with_(input=True), kinds("input", "a string or an array", "a boolean")),
    (with_(input=[1]), kinds("input[0]", "an object", "an integer")),
    (with_(input=[{"content": []}]), lacks("input[0].role")),
    (with_(input=[{"role": "user"}]), lacks("input[0].content")),
    (with_(input=[{"role": "user", "content": "a"}]), kinds("input[0].content", "an array", "a string")),
    (
        with_(input=[{"role": "system", "content": []}]),
        ("Invalid value for 'input[0].role': expected one of 'user'.", "input[0].role"),
    ),
    (with_(input=[{"role": "user", "content": [], "id": 1}]), odd("input[0].id")),
    (with_(input=[{"role": "user", "content": [{"type": "input_text", "image_url": ""}]}]),
     odd("input[0].content[0].image_url")),
    (with_(environment={"type": "none"}), (NO_INPUT, None)),
    (with_(environment={"type": "none"}, stream=True), (NO_INPUT, None)),
    (with_(stream=True), (NO_STREAM, None)),
    (
        with_(environment={"type": "none"}, input="x"),
        ("The model 'program:py' runs programs and needs an environment.", "environment.type"),
    ),
    (
        with_(input=IMAGE),
        ("Unsupported value for 'input[0].content[1].type': the model 'program:py' takes text only.",
         "input[0].content[1].type"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "said"), ROWS, ids=[f"{n}-{row[1][1]}" for n, row in enumerate(ROWS)])
def test_each_fault_has_its_sentence_and_param(body: dict[str, Any], said: tuple[str, str | None]) -> None:
    expect_refused(lambda: read_session(body, ENGINES), *said)


@pytest.mark.parametrize("value", [1, None, {}])
def test_an_unknown_member_is_refused_whatever_its_value(value: Any) -> None:
    body = with_(foo=value, bar=1)
    expect_refused(lambda: read_session(body, ENGINES), UNKNOWN, "foo", local=True)


LOCALS: list[Any] = [
    "", [], [{"role": "user", "content": []}], [{"role": "user", "content": [{"type": "input_text", "text": ""}]}],
    [{"role": "user", "content": [{"type": "input_image", "image_url": ""}]}], "x" * (512 * 1024),
]  # fmt: skip


@pytest.mark.parametrize("value", LOCALS, ids=range(len(LOCALS)))
def test_input_that_says_nothing_or_too_much_is_refused(value: Any) -> None:
    expect_local(lambda: read_session(with_(input=value), ENGINES))


ORDER: list[tuple[str, dict[str, Any], str, bool]] = [
    ("unknown before null", with_(stream=None, foo=1), UNKNOWN, True),
    ("unsupported before null", with_(stream=None, review="auto_review"), no("review")[0], False),
    ("stream before agent_id", with_(stream=None, agent_id=None), kinds("stream", "a boolean", "null")[0], False),
    ("null before missing", {"stream": None}, kinds("stream", "a boolean", "null")[0], False),
    ("environment before the model", {}, lacks("environment")[0], False),
    ("the model before the environment's type", {"environment": {}}, lacks("agent.model")[0], False),
    ("an agent's unknown before its model", with_(agent={"x": 1}), odd("agent.x")[0], False),
    ("missing before metadata", {"environment": {}, "agent": {"model": "chat"}, "metadata": 1},
     lacks("environment.type")[0], False),
    ("metadata before input", with_(metadata=1, input=1), kinds("metadata", "an object", "an integer")[0], False),
    ("metadata before none", with_(metadata=1, environment={"type": "none"}),
     kinds("metadata", "an object", "an integer")[0], False),
    ("none before the stream", with_(environment={"type": "none"}, stream=True), NO_INPUT, False),
    ("none without input before a program on it", with_(environment={"type": "none"}), NO_INPUT, False),
    ("a program's environment before an image", with_(environment={"type": "none"}, input=IMAGE),
     "The model 'program:py' runs programs and needs an environment.", False),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message", "local"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER])
def test_the_earlier_fault_wins(body: dict[str, Any], message: str, local: bool) -> None:
    with pytest.raises(Refusal) as caught:
        read_session(body, ENGINES)
    assert (caught.value.message, caught.value.envelope()["error"]["code"] == "invalid_request") == (message, local)


def test_metadata_at_its_limits_is_taken_and_above_them_refused() -> None:
    most = {f"{n:064d}": "é" * 512 for n in range(16)}
    assert read_session(with_(metadata=most), ENGINES).metadata == most
    for metadata, where, part in [
        ({str(n): "" for n in range(17)}, "metadata", "too many properties. Expected an object with at most 16 "
         "properties, but got an object with 17 properties instead."),
        ({"k" * 65: ""}, "metadata", "property name too long. Expected a name with maximum length 64, but got a name "
         "with length 65 instead."),
        ({"k": "v" * 513}, "metadata.k", "string too long. Expected a string with maximum length 512, but got a "
         "string with length 513 instead."),
    ]:  # fmt: skip
        body = with_(metadata=metadata)
        expect_refused(lambda body=body: read_session(body, ENGINES), f"Invalid '{where}': {part}", where)  # type: ignore[misc]


def test_input_is_normal_and_a_stream_needs_none_on_a_machine_of_the_callers() -> None:
    assert read_session(with_(input="hi", stream=True), ENGINES).input == (
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    )
    read = read_session(with_(agent={"model": "chat"}, input=[{"type": "message", **IMAGE[0]}]), ENGINES)
    assert read.input == (IMAGE[0],)
    machine = {"type": "self_hosted", "workspace_directory": "/w"}
    assert read_session(with_(environment=machine, stream=True), ENGINES).stream


def test_the_default_engine_stands_for_no_model() -> None:
    engines = Engines(default="program:bash")
    read = read_session({"environment": HOSTED}, engines)
    assert read.agent is not None
    assert read.agent["model"] == "program:bash"
    with pytest.raises(ValueError, match="default engine"):
        Engines(("a",), "b")


def test_what_is_given_beside_a_saved_agent_overrides_it_and_nothing_else_does() -> None:
    saved = {"id": "agent_1", "model": "program:py", "instructions": "old", "tools": [1]}
    body = with_(agent_id="agent_1", agent={"tools": None, "reasoning": {"effort": "low"}}, input=IMAGE)
    read = read_session(body, ENGINES)
    assert read.agent is None
    assert read.overrides == {"tools": [], "reasoning": {"effort": "low", "summary": None}}
    assert read.resolved({**saved, "model": "chat"}) == {**saved, "model": "chat", **read.overrides}
    expect_refused(
        lambda: read.resolved(saved),
        "Unsupported value for 'input[0].content[1].type': the model 'program:py' takes text only.",
        "input[0].content[1].type",
    )
    expect_refused(
        lambda: read_session(with_(agent_id="a", input=IMAGE), ENGINES),
        "Unsupported value for 'input[0].content[1].type': the model 'program:py' takes text only.",
        "input[0].content[1].type",
    )
    with pytest.raises(ValueError, match="saved agent"):
        read.resolved()


UPDATES: list[tuple[dict[str, Any], tuple[str, str | None]]] = [
    ({}, ("At least one update field is required", None)),
    ({"foo": 1}, odd("foo")),
    ({"agent": {"model": "x"}}, no("agent")),
    ({"review": "auto_review"}, no("review")),
    ({"spend_control": {"limit": 1}}, no("spend_control")),
    ({"prompt_cache_options": {"ttl": "12h"}}, no("prompt_cache_options")),
    ({"metadata": {"k": []}}, kinds("metadata.k", "a string", "an array")),
    ({"metadata": 1, "foo": 1}, odd("foo")),
    ({"metadata": 1, "agent": {"model": "x"}}, no("agent")),
]


@pytest.mark.parametrize(("body", "said"), UPDATES, ids=str)
def test_an_update_is_of_metadata_only(body: dict[str, Any], said: tuple[str, str | None]) -> None:
    expect_refused(lambda: read_session_update(body), *said)


@pytest.mark.parametrize(
    ("body", "metadata"),
    [({"metadata": None}, {}), ({"metadata": {}}, {}), ({"metadata": {"a": "b"}}, {"a": "b"}), ({"agent": {}}, None)],
)
def test_metadata_is_replaced_where_it_is_sent(body: dict[str, Any], metadata: dict[str, str] | None) -> None:
    assert read_session_update(body).metadata == metadata
