"""The OpenAPI document, made from the registry of operations and the table of named routes, never by hand.

Each operation publishes the statuses that it sends itself. What the door sends for all of them is declared once, in
`components`, and is the `default` of each (exec.md A8.8, DESIGN §2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema

from functions.api.agents.queries import KEYED
from functions.api.agents.streaming import CREATION
from functions.api.named import Named, Sent
from functions.api.typed import RUN, AnyOperation
from shared.agents_errors import Fault
from shared.errors import Code

Schema = dict[str, Any]
_REF = "#/components/schemas/{model}"
_WORD = re.compile(r"\W+")
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_SECURITY: list[dict[str, list[str]]] = [{"key": []}, {"bearer": []}, {"basic": []}]
_DOOR = (
    Code.INVALID_REQUEST, Code.UNAUTHORIZED, Code.NOT_FOUND, Code.METHOD_NOT_ALLOWED, Code.RATE_LIMITED,
    Code.INTERNAL, Code.STORE_UNAVAILABLE, Code.NOT_CONFIGURED,
)  # fmt: skip
_NO_SCHEMA = 501
_BEARER: list[dict[str, list[str]]] = [{"bearer": []}]
_DOORS = {"exec": "Door", "agents": "AgentsDoor"}

_ABOUT = """Runs whole programs in thirteen languages and keeps the files that they read and write.

A run, an upload and a listing belong to a session; name its id to continue it. Every operation needs a credential
unless it says otherwise, and every answer has an `X-Request-Id`. An error is `{"error": code, "message": text}`. An
address is matched exactly: another case, a trailing slash or an encoded letter is another address."""

_GROUPS = {
    "exec": "Running programs.",
    "runs": "Runs that were started in the background.",
    "files": "The files of a session.",
    "uploads": "Large uploads by grant.",
    "sources": "Source files of the project: OpenAI's Files and Uploads.",
    "agents": "Saved agents of the project.",
    "sessions": "Sessions of an agent.",
    "events": "Input to a Session, and the stream of what happens in it.",
    "turns": "The Turns of a Session.",
    "items": "The items of a Session.",
    "environments": "The Environments of Sessions, and their files.",
    "artifacts": "Files that the Turns of a Session published.",
    "health": "The state of the service.",
    "mcp": "The Model Context Protocol.",
    "pages": "This document and its pages.",
}
_RUN_HEADERS = {
    "Idempotency-Key": "A name for this request: sent again with the same body, it gets the stored answer.",
    "Prefer": "`respond-async`: do not wait; the answer is 202 and names the run.",
}
_KEY = "A name for this request, at most 128 bytes: sent again with the same body, it is not done again."
_STREAM: Schema = {"text/event-stream": {"schema": {"type": "string", "description": "Where `stream` is true."}}}
_ERROR: Schema = {
    "type": "object",
    "description": "Why a request was refused or failed.",
    "properties": {
        "error": {
            "type": "string",
            "enum": sorted(code.value.code for code in Code),
            "description": "Code of the error.",
        },
        "message": {"type": "string", "description": "The same in words, naming the field and the limit."},
        "retry_after_seconds": {
            "type": "integer",
            "description": "With `rate_limited`: when to try again, in seconds.",
        },
    },
    "required": ["error", "message"],
}


_AGENTS_REF: Schema = {"$ref": "#/components/schemas/AgentsError"}
_AGENTS_ERROR: Schema = {
    "type": "object",
    "description": "Why a request of the Agents API was refused or failed.",
    "properties": {
        "error": {
            "type": "object",
            "description": "The error.",
            "properties": {
                "message": {"type": "string", "description": "It in words."},
                "type": {
                    "type": "string",
                    "enum": sorted({fault.value.type for fault in Fault}),
                    "description": "Kind of the error.",
                },
                "code": {"type": ["string", "null"], "description": "Code of the error, where it has one."},
                "param": {"type": ["string", "null"], "description": "Member or parameter that it is about."},
            },
            "required": ["message", "type", "code", "param"],
        }
    },
    "required": ["error"],
}


class _Generator(GenerateJsonSchema):
    """Schemas without the titles that would only repeat the field's name.

    A model whose serializer leaves members out is published with its fields, not as the serializer's bare `dict`.
    """

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        return None if schema["type"] == "function-wrap" else super().ser_schema(schema)

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().default_schema(schema)
        # Null is as absent: it is the default of a member whose type need not have it.
        return {name: value for name, value in made.items() if name != "default" or value is not None}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def document(operations: Iterable[AnyOperation], start: AnyOperation, named: Sequence[Named]) -> Schema:
    """The document. `operations` are those with a route; `start` is what `exec.run` answers under `respond-async`."""
    listed = sorted(operations, key=_place)
    models = _Models([*listed, start], named)
    paths: dict[str, Schema] = {}
    for operation in listed:
        assert operation.route is not None
        for index, path in enumerate(operation.route.paths):
            entry = _typed(operation, start, models, path, index)
            paths.setdefault(published(path), {})[operation.route.method.lower()] = entry
    for route in named:
        for index, path in enumerate(route.paths):
            paths.setdefault(published(path), {})[route.method.lower()] = _named(route, models, index)
    used = {tag for item in paths.values() for entry in item.values() for tag in entry["tags"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Workroom", "version": version("workroom"), "description": _ABOUT},
        "servers": [{"url": "/", "description": "This service."}],
        "security": _SECURITY,
        "tags": [{"name": name, "description": text} for name, text in _GROUPS.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": {**models.definitions, "Error": _ERROR, "AgentsError": _AGENTS_ERROR},
            "responses": {"Door": _door(), "AgentsDoor": _agents_door()},
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A key of this service."},
                "bearer": {"type": "http", "scheme": "bearer", "description": "The same key."},
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "The same key as the password; where that is empty, as the user name.",
                },
            },
        },
    }


def _place(operation: AnyOperation) -> int:
    """The order that a reader meets operations in: of a group, the shortest address first."""
    return len(operation.route.paths[0]) if operation.route is not None else 0


def published(path: str) -> str:
    """A path template as OpenAPI writes it."""
    return _PARAMETER.sub(r"{\1}", path)


class _Models:
    """The schemas of every model that an operation or a named route speaks, with references between them."""

    def __init__(self, operations: Sequence[AnyOperation], named: Sequence[Named]) -> None:
        wanted: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}
        for operation in operations:
            if _body_members(operation):
                wanted[operation.input, "validation"] = None
            if operation.status != _NO_SCHEMA and operation.output.model_fields:
                wanted[operation.output, "serialization"] = None
        for route in named:
            for sent in route.sent.values():
                if sent.model is not None:
                    wanted[sent.model, "serialization"] = None
        places, rest = models_json_schema(list(wanted), ref_template=_REF, schema_generator=_Generator)
        self._places = places
        self.definitions: Schema = rest.get("$defs", {})

    def reference(self, model: type[BaseModel], mode: JsonSchemaMode) -> Schema:
        return self._places[model, mode]


def _members(operation: AnyOperation) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in operation.input.model_fields.items()}


def _path_names(operation: AnyOperation) -> set[str]:
    return set(_PARAMETER.findall(operation.route.paths[0])) if operation.route is not None else set()


def _body_members(operation: AnyOperation) -> set[str]:
    if operation.route is None or operation.route.method != "POST":
        return set()
    return set(_members(operation)) - _path_names(operation)


def _typed(operation: AnyOperation, start: AnyOperation, models: _Models, path: str, index: int) -> Schema:
    assert operation.route is not None
    entry = _head(operation.name, operation.group, operation.summary, operation.description, index)
    if index:
        entry["description"] += f"\n\nThe same as `{operation.route.method} {published(operation.route.paths[0])}`."
    if operation.open:
        entry["security"] = [{}, *_SECURITY]
    parameters = [_parameter(operation, name, "path") for name in _PARAMETER.findall(path)]
    if operation.route.method != "POST":
        parameters += [_parameter(operation, name, "query") for name in _members(operation) if name not in path]
    if operation.name == RUN:
        parameters += [_header(name, False, text) for name, text in _RUN_HEADERS.items()]
    elif operation.name in KEYED:
        parameters.append(_header("Idempotency-Key", False, _KEY))
    if parameters:
        entry["parameters"] = parameters
    if _body_members(operation):
        reference = models.reference(operation.input, "validation")
        entry["requestBody"] = {
            "description": "The input.",
            "required": True,
            "content": {"application/json": {"schema": reference}},
        }
    sent: dict[int, Schema] = {}
    if not operation.output.model_fields:
        sent[operation.status] = {"description": "It is done; the answer has no body."}
    elif operation.status != _NO_SCHEMA:
        sent[operation.status] = _json("The answer.", models.reference(operation.output, "serialization"))
    if operation.name == CREATION:
        sent[operation.status]["content"] |= _STREAM
    if operation.name == RUN:
        sent[start.status] = {
            **_json("The run goes on.", models.reference(start.output, "serialization")),
            "headers": _headers(
                {"Location": "Where its result will be.", "Preference-Applied": "`respond-async`."},
            ),
        }
    entry["responses"] = _responses(sent, operation.errors, operation.route.contract)
    if operation.route.contract == "agents":
        entry["security"] = _BEARER
    return entry


def _named(route: Named, models: _Models, index: int) -> Schema:
    prose = "\n\n".join(part for part in (route.description, route.http) if part)
    entry = _head(route.name, route.group, route.summary, prose, index)
    if index:
        entry["description"] += f"\n\nThe same as `{route.method} {published(route.paths[0])}`."
    if route.free:
        entry["security"] = []
    string = {"type": "string"}
    parameters = [
        {"name": name, "in": "path", "required": True, "description": text, "schema": string}
        for name, text in route.parameters.items()
    ]
    parameters += [_header(name, required, text) for name, (required, text) in route.headers.items()]
    if parameters:
        entry["parameters"] = parameters
    if route.body:
        content = {media: {"schema": schema} for media, schema in route.body.items()}
        entry["requestBody"] = {"description": route.body_text, "required": True, "content": content}
    entry["responses"] = _responses(
        {status: _sent(sent, models) for status, sent in route.sent.items()}, route.errors, route.contract
    )
    if route.contract == "agents":
        entry["security"] = _BEARER
    return entry


def _sent(sent: Sent, models: _Models) -> Schema:
    response: Schema = {"description": sent.text}
    if sent.model is not None:
        response = _json(sent.text, models.reference(sent.model, "serialization"))
    elif sent.media:
        response["content"] = {media: {"schema": schema} for media, schema in sent.media.items()}
    if sent.headers:
        response["headers"] = _headers(sent.headers)
    return response


def _head(name: str, group: str, summary: str, description: str, index: int) -> Schema:
    ident = _WORD.sub("_", name) + ("_alias" if index else "")
    return {"operationId": ident, "tags": [group], "summary": summary, "description": description}


def _parameter(operation: AnyOperation, name: str, place: str) -> Schema:
    info = _members(operation)[name]
    schema = operation.input.model_json_schema(by_alias=True, schema_generator=_Generator)["properties"][name]
    shape = {key: value for key, value in schema.items() if key != "description"}
    if place == "path" and f"{{{name}:path}}" in "".join(operation.route.paths if operation.route else ()):
        shape["description"] = "May hold slashes."
    # A member that is an object has the form `name[key]=value`.
    deep = {"style": "deepObject"} if place == "query" and '"additionalProperties"' in json.dumps(shape) else {}
    return {
        "name": name, "in": place, "required": place == "path" or info.is_required(),
        "description": info.description or "", **deep, "schema": shape,
    }  # fmt: skip


def _header(name: str, required: bool, text: str) -> Schema:
    return {"name": name, "in": "header", "required": required, "description": text, "schema": {"type": "string"}}


def _headers(texts: Mapping[str, str]) -> Schema:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in texts.items()}


def _json(text: str, schema: Schema) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _responses(sent: Mapping[int, Schema], errors: Sequence[Code], contract: str = "exec") -> Schema:
    """The statuses of one operation, in order, and the door's as the default."""
    rows = dict(sent)
    for status in sorted({code.status for code in errors}):
        codes = [code for code in errors if code.status == status]
        rows[status] = _error(codes) if contract == "exec" else _agents_error(status)
    return {
        **{str(status): rows[status] for status in sorted(rows)},
        "default": {"$ref": f"#/components/responses/{_DOORS[contract]}"},
    }


def _error(codes: Sequence[Code]) -> Schema:
    text = "\n".join(f"`{code.value.code}`: {code.value.text}" for code in codes)
    if codes[0].status == _NO_SCHEMA:
        return {"description": text}
    response = _json(text, {"$ref": "#/components/schemas/Error"})
    if any(code.status in (409, 429) for code in codes):
        response["headers"] = _headers({"Retry-After": "When a later attempt may succeed, in seconds."})
    return response


def _agents_error(status: int) -> Schema:
    codes = sorted({f"`{fault.value.code}`" for fault in Fault if fault.status == status and fault.value.code})
    return _json("The request is refused: " + ", ".join([*codes, "or null"]), _AGENTS_REF)


def _agents_door() -> Schema:
    rows = "\n".join(
        f"- {fault.status} `{fault.value.code}`: {fault.value.text}"
        for fault in Fault
        if fault.status in (401, 404, 405, 429, 500, 503) and fault.value.code
    )
    return _json("What the door answers for every operation, before or instead of it:\n\n" + rows, _AGENTS_REF)


def _door() -> Schema:
    rows = "\n".join(f"- {code.status} `{code.value.code}`: {code.value.text}" for code in _DOOR)
    return _json(
        "What the door answers for every operation, before or instead of it:\n\n" + rows,
        {"$ref": "#/components/schemas/Error"},
    )
