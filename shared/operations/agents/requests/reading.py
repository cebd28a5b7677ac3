"""What every reader of a body is made of: members looked up under a path, and the sentences of what is wrong with them.

A refusal names the path of the member in its message and as `param`. Of a caller's own text a message has at most 256
printable bytes; a longer or unprintable path is not named at all (agents.md 1.4, 3.3 row 4).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.agents_errors import Fault, Refusal

_ECHO_BYTES = 256


def may_echo(text: str) -> bool:
    """Whether a caller's text may stand in a message: at most 256 bytes, printable."""
    return text.isprintable() and len(text.encode("utf-8", "surrogatepass")) <= _ECHO_BYTES


def at(path: str, name: str) -> str:
    """The path of a member; the path of the body is empty."""
    return f"{path}.{name}" if path else name


def refusal(message: str, param: str | None = None) -> Refusal:
    """A 400 of the official kind. A `param` that may not be echoed is null."""
    return Refusal(Fault.INVALID, message, param=param if param is None or may_echo(param) else None)


def local() -> Refusal:
    """The 400 of this service's own rules and limits: "Invalid resource identifier or request limits."."""
    return Refusal(Fault.LOCAL)


def unknown(path: str) -> Refusal:
    """A member that the contract does not have."""
    return refusal(f"Unknown parameter: '{path}'." if may_echo(path) else "Unknown parameter.", path)


def missing(path: str) -> Refusal:
    """A required member that is absent."""
    return refusal(f"Missing required parameter: '{path}'.", path)


def unsupported(path: str, why: str = "") -> Refusal:
    """A member, or with `why` a value of it, that the contract has and this service does not (agents.md 11.34)."""
    said = f"Unsupported value for '{path}': {why}" if why else f"Unsupported parameter: '{path}'."
    return refusal(said if may_echo(path) else "Unsupported parameter.", path)


def bad_type(path: str, expected: str, value: object) -> Refusal:
    """A value of another JSON type; `expected` has its article (agents.md 5.1)."""
    where = f" for '{path}'" if may_echo(path) else ""
    return refusal(f"Invalid type{where}: expected {expected}, but got {kind_of(value)} instead.", path)


def bad_value(path: str, why: str) -> Refusal:
    """A value of the right type that is refused; `why` is the rest of the sentence."""
    where = f" for '{path}'" if may_echo(path) else ""
    return refusal(f"Invalid value{where}: {why}", path)


def kind_of(value: object) -> str:
    """What a JSON value is, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds: tuple[tuple[type, str], ...] = (
        (str, "a string"), (int, "an integer"), (float, "a number"), (Sequence, "an array"), (Mapping, "an object"),
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), "a value")


def as_object(value: object, path: str) -> Mapping[str, Any]:
    """An object. Errors: 400."""
    if not isinstance(value, Mapping):
        raise bad_type(path, "an object", value)
    return value


def as_array(value: object, path: str) -> Sequence[Any]:
    """An array. Errors: 400."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise bad_type(path, "an array", value)
    return value


def as_text(value: object, path: str) -> str:
    """A string. Errors: 400."""
    if not isinstance(value, str):
        raise bad_type(path, "a string", value)
    return value


def as_flag(value: object, path: str) -> bool:
    """A boolean. Errors: 400."""
    if not isinstance(value, bool):
        raise bad_type(path, "a boolean", value)
    return value


def one_of(value: object, choices: Sequence[str], path: str) -> str:
    """One of the strings. Errors: 400 naming them."""
    text = as_text(value, path)
    if text not in choices:
        raise bad_value(path, f"expected one of {_listed(choices)}.")
    return text


def required(data: Mapping[str, Any], name: str, path: str) -> Any:
    """A member that must be there; `null` is as absent. Errors: 400."""
    if data.get(name) is None:
        raise missing(at(path, name))
    return data[name]


def only(data: Mapping[str, Any], known: Iterable[str], path: str) -> None:
    """No member but these, the first other one in document order refused. Errors: 400."""
    taken = frozenset(known)
    for name in data:
        if name not in taken:
            raise unknown(at(path, name))


def only_default(data: Mapping[str, Any], name: str, path: str, *defaults: object) -> None:
    """A member that is not supported may be absent, null, empty or one of the `defaults` (agents.md 11.34).

    Errors: 400 naming it.
    """
    if not any(_same(data.get(name), default) for default in (None, [], {}, *defaults)):
        raise unsupported(at(path, name))


def json_bytes(value: object) -> int:
    """The size of a value as compact JSON in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))


def _same(value: object, default: object) -> bool:
    """Equality of JSON values, where 0 is not false."""
    return value == default and json.dumps(value) == json.dumps(default)


def _listed(choices: Sequence[str]) -> str:
    return ", ".join(f"'{choice}'" for choice in choices)
