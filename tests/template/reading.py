"""template.yaml as plain data: CloudFormation's short tags become what they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
TEMPLATE = PROJECT / "template.yaml"
FUNCTION = "AWS::Serverless::Function"
Node = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """SafeLoader with CloudFormation's tags."""


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Node:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _tagged)


def load() -> Node:
    """The template, a fresh copy."""
    loaded: Node = yaml.load(TEMPLATE.read_text("utf-8"), _Loader)
    return loaded


def of_type(template: Node, kind: str) -> dict[str, Node]:
    """The properties of every resource of a type, by logical id."""
    found = template["Resources"].items()
    return {name: row.get("Properties", {}) for name, row in found if row["Type"] == kind}


def functions(template: Node) -> dict[str, Node]:
    """The functions' properties."""
    return of_type(template, FUNCTION)


def sandboxes(template: Node) -> dict[str, Node]:
    """The functions that are images: of these there is one, the executor."""
    return {name: row for name, row in functions(template).items() if row.get("PackageType") == "Image"}


def environment(function: Node) -> Node:
    """A function's variables."""
    variables: Node = function.get("Environment", {}).get("Variables", {})
    return variables


def listed(value: Any) -> list[Any]:
    """A value that may stand alone or in a list."""
    return value if isinstance(value, list) else [value]


def statements(document: Node) -> list[Node]:
    """The statements of a policy."""
    return listed(document["Statement"])


def role_of(template: Node, function: Node) -> Node:
    """The properties of a function's role. Errors: KeyError where the template does not make it."""
    found: Node = template["Resources"][function["Role"]["Fn::GetAtt"][0]]["Properties"]
    return found


def role_statements(template: Node, role: Node) -> list[Node]:
    """Every statement of a role: its own policies and the managed ones, all of which the template makes."""
    documents = [policy["PolicyDocument"] for policy in role.get("Policies", [])]
    for arn in role.get("ManagedPolicyArns", []):
        documents.append(template["Resources"][arn["Ref"]]["Properties"]["PolicyDocument"])
    return [statement for document in documents for statement in statements(document)]


def allowed(template: Node, function: str) -> set[tuple[str, str]]:
    """What a function may do: (action, resource as text)."""
    role = role_of(template, functions(template)[function])
    return {
        (action, text(resource))
        for statement in role_statements(template, role)
        if statement["Effect"] == "Allow"
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def text(value: Any) -> str:
    """A reference as short text: `Table.Arn`, `${Bucket.Arn}/*`, `Table`."""
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        return ".".join(inner) if kind == "Fn::GetAtt" else text(inner)
    return str(value)


def nodes(value: Any) -> Iterator[Node]:
    """Every mapping in a value, itself included."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


def references(value: Any) -> set[str]:
    """Logical ids and parameters that a value names, by Ref, GetAtt or Sub."""
    found: set[str] = set()
    for node in nodes(value):
        for kind, inner in node.items():
            if kind == "Ref":
                found.add(inner)
            elif kind == "Fn::GetAtt":
                found.add(inner[0])
            elif kind == "Fn::Sub":
                pieces = (inner if isinstance(inner, str) else inner[0]).split("${")[1:]
                found |= {piece.split("}")[0].split(".")[0] for piece in pieces}
    return found
