"""The JSON Schemas of MCP tools, made from the operations' models.

Clients differ in what they read: a published schema therefore holds no `$ref`, is an object at its root, and an
input's objects are closed at every level, so that a misspelt argument is refused instead of being lost.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel

WRAPPER = "result"
"""The member that holds an output which is no JSON object: MCP's structured content is an object at its root."""

Schema = dict[str, Any]

_NOISE = ("title", "discriminator", "$defs")
_MAPS = ("properties", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not")


def input_schema(model: type[BaseModel]) -> Schema:
    """The closed schema of an input. An optional member is left out, never `null` (exec.md A8.16).

    An object of which no member is named, such as pairs of the caller's, stays open: closed it would take none.
    """
    return _published(model.model_json_schema(by_alias=True, mode="validation"), closed=True)


def output_schema(model: type[BaseModel]) -> Schema:
    """The schema of an output as structured content; see `WRAPPER`."""
    schema = _published(model.model_json_schema(by_alias=True, mode="validation"), closed=False)
    if schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {WRAPPER: schema}, "required": [WRAPPER], "additionalProperties": False}


def structured(output: BaseModel) -> dict[str, Any]:
    """An output as structured content that `output_schema` describes. Lone surrogates become U+FFFD."""
    value = clean(output.model_dump(mode="json", by_alias=True))
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {WRAPPER: value}


def clean(value: object) -> object:
    """JSON values with every string valid Unicode: a name may hold bytes that are not UTF-8."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {text(str(key)): clean(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [clean(member) for member in value]
    return value


def text(value: str) -> str:
    """A string without lone surrogates."""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _published(schema: Schema, *, closed: bool) -> Schema:
    return _inline(schema, schema.get("$defs", {}), closed=closed, within=())


def _inline(schema: Schema, definitions: Schema, *, closed: bool, within: tuple[str, ...]) -> Schema:
    if (reference := schema.get("$ref")) is not None:
        name = str(reference).removeprefix("#/$defs/")
        if name in within:
            raise ValueError(f"{name} is recursive: a tool's schema cannot hold it")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inline({**definitions[name], **beside}, definitions, closed=closed, within=(*within, name))

    def inner(value: Schema) -> Schema:
        return _inline(value, definitions, closed=closed, within=within)

    made: Schema = {}
    for key, value in schema.items():
        if key in _NOISE:
            continue
        if key in _MAPS:
            made[key] = {name: inner(member) for name, member in value.items()}
        elif key in _LISTS:
            made[key] = [inner(member) for member in value]
        elif key in _SINGLE and isinstance(value, dict):
            made[key] = inner(value)
        else:
            made[key] = value
    if closed:
        made = _without_null(made)
        if made.get("type") == "object" and "properties" in made:
            made.setdefault("additionalProperties", False)
    return made


def _without_null(schema: Schema) -> Schema:
    """`X or null` as `X`: absent and `null` are the same, and a model has one way less to be wrong."""
    if "anyOf" not in schema:
        return schema
    rest = [member for member in schema["anyOf"] if member != {"type": "null"}]
    made = {key: value for key, value in schema.items() if key != "anyOf"}
    if made.get("default", "") is None:
        del made["default"]
    return {**rest[0], **made} if len(rest) == 1 else {**made, "anyOf": rest}
