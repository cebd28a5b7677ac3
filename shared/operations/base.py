"""The declaration of an operation, from which every door is made (DESIGN §2).

An operation is declared once, by decorating its function. The docstring is the only home of its prose: the first
sentence is the summary, the rest the description. No operation runs without an admitted caller: `Operation.run`
refuses before it looks at anything else, whatever the door.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    PrivateAttr,
    RootModel,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from shared.errors import Code, Failure, invalid
from shared.identity import Caller
from shared.operations.room import Room

Audience = Literal["caller", "operator"]


class Model(BaseModel):
    """A published shape: strict types, immutable. Members that it does not know are ignored or refused by the door."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Raw(Model):
    """An input whose members its operation reads by itself, because its contract says more of a wrong one.

    The declared members are what is published. Declare the operation with `reader=<Model>.read`.
    """

    _sent: dict[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def read(cls, data: dict[str, Any]) -> Self:
        """The input as it was sent: no member is refused. An id that is no text is an id that nothing has."""
        sent = {name: data[name] for name in cls.model_fields if name in data}
        for name, info in cls.model_fields.items():
            if info.annotation is str and not isinstance(sent.get(name), str):
                sent[name] = ""
        made = cast("Self", cls.model_construct(**sent))
        made._sent.update(data)
        return made

    def sent(self, *besides: str) -> dict[str, Any]:
        """The members as they were sent, in their order, without those that the address names."""
        return {name: value for name, value in self._sent.items() if name not in besides}


class Sparse(Model):
    """A shape whose members are left out of JSON where they are None: for clients that take presence for news."""

    @model_serializer(mode="wrap")
    def _sparse(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        row: dict[str, Any] = handler(self)
        return {name: value for name, value in row.items() if value is not None}


class Nothing(Model):
    """An operation's input without members."""


class Cancel:
    """The caller has gone away: whoever runs something for it binds what stops it. Thread-safe, fires once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None
        self.requested = False

    def bind(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the caller goes away, at once if it has gone."""
        with self._lock:
            self._stop = stop
            gone = self.requested
        if gone:
            stop()

    def __call__(self) -> None:
        """The caller has gone away."""
        with self._lock:
            if self.requested:
                return
            self.requested = True
            stop = self._stop
        if stop is not None:
            stop()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation: who calls, and what a door may add to the input.

    `caller` is None where a door admitted nobody; only an operation that is open to anyone runs then.
    """

    caller: Caller | None
    idempotency_key: str | None = None
    cancel: Cancel = field(default_factory=Cancel)

    @property
    def project(self) -> str:
        """The project of the admitted caller."""
        return admitted(self).project


def admitted(call: Call) -> Caller:
    """The admitted caller of a call, or 403: an operation's own refusal (exec.md A8.7)."""
    if call.caller is None:
        raise Failure(Code.FORBIDDEN)
    return call.caller


@dataclass(frozen=True, slots=True)
class Route:
    """How HTTP reaches an operation: a method and exact path templates, the first of which is the documented one.

    A `{name}` segment is the input's member of that name; a last `{name:path}` may hold slashes. A GET's and
    DELETE's other members come from the query, a POST's from a JSON body. `contract` decides the door: its credentials,
    bodies and errors.
    """

    method: Literal["GET", "POST", "DELETE"]
    paths: tuple[str, ...]
    contract: Literal["exec", "agents"] = "exec"


Lookup = Callable[[Room, Call, dict[str, Any]], None]
I_ = TypeVar("I_", bound=BaseModel)
O_ = TypeVar("O_", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[I_, O_]):
    """One operation.

    `name` is `group.verb`. `errors` are the codes that the operation itself sends; what a door sends for every
    operation (401, unreadable JSON, …) is not listed. `open` means that it also runs for anyone.

    `lookup` finds what the input is about, before anything else of the input is looked at: it gets the raw members and
    raises what says that it is not there. `reader` makes the input from the raw members, where a contract has more to
    say of a wrong one than `parse` has; it raises.
    """

    name: str
    input: type[I_]
    output: type[O_]
    status: int
    errors: tuple[Code, ...]
    audience: Audience
    route: Route | None
    open: bool
    code: Callable[[Room, Call, I_], O_]
    lookup: Lookup | None = None
    reader: Callable[[dict[str, Any]], I_] | None = None

    @property
    def group(self) -> str:
        """The part of the name before the dot: MCP lists by group."""
        return self.name.partition(".")[0]

    @property
    def prose(self) -> str:
        """The docstring of the code, unindented."""
        lines = (self.code.__doc__ or "").strip().splitlines()
        return "\n".join(line.strip() for line in lines)

    @property
    def summary(self) -> str:
        """The first sentence of the prose, without its full stop."""
        return " ".join(self.prose.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")

    @property
    def description(self) -> str:
        """What follows the first sentence; paragraphs are kept."""
        first, _, rest = self.prose.partition("\n\n")
        more = " ".join(first.split()).partition(". ")[2]
        paragraphs = [more, *(" ".join(part.split()) for part in rest.split("\n\n"))]
        return "\n\n".join(part for part in paragraphs if part)

    def parse(self, data: object, *, closed: bool = True) -> I_:
        """Read an input from JSON. `closed` refuses members that the model does not have. `null` is as absent.

        Errors: 400 naming the member.
        """
        if not isinstance(data, dict):
            raise Failure(Code.INVALID_REQUEST, "The input must be a JSON object.")
        if self.reader is not None:
            return self.reader(data)
        if closed:
            _refuse_unknown(self.input, data, "")
        return read_model(self.input, data)

    def run(self, room: Room, call: Call, data: I_) -> O_:
        """Run it for an admitted caller. Errors: Failure."""
        if not self.open:
            admitted(call)
        return self.code(room, call, data)

    def call_with(self, room: Room, call: Call, data: object, *, closed: bool = True) -> O_:
        """Read an input from JSON and run it. Without an admitted caller: 403, before the input is looked at.

        Errors: Failure.
        """
        if not self.open:
            admitted(call)
        if self.lookup is not None and isinstance(data, dict):
            self.lookup(room, call, data)
        return self.code(room, call, self.parse(data, closed=closed))


_REGISTRY: dict[str, Operation[Any, Any]] = {}


def operation(
    name: str,
    *,
    route: Route | None = None,
    status: int = 200,
    errors: tuple[Code, ...] = (),
    audience: Audience = "caller",
    open: bool = False,
    lookup: Lookup | None = None,
    reader: Callable[[dict[str, Any]], I_] | None = None,
) -> Callable[[Callable[[Room, Call, I_], O_]], Operation[I_, O_]]:
    """Declare the decorated function `(room, call, input) -> output` as an operation and register it."""

    def declare(code: Callable[[Room, Call, I_], O_]) -> Operation[I_, O_]:
        from typing import get_type_hints  # noqa: PLC0415

        hints = get_type_hints(code)
        *_, input_name = list(hints)[:-1]
        declared = Operation(
            name=name,
            input=cast("type[I_]", hints[input_name]),
            output=cast("type[O_]", hints["return"]),
            status=status,
            errors=errors,
            audience=audience,
            route=route,
            open=open,
            code=code,
            lookup=lookup,
            reader=reader,
        )
        if name in _REGISTRY:
            raise ValueError(f"operation {name} is declared twice")
        _REGISTRY[name] = declared
        return declared

    return declare


def operations() -> Mapping[str, Operation[Any, Any]]:
    """Every declared operation, by name. Importing `shared.operations.all` declares them."""
    return dict(sorted(_REGISTRY.items()))


_DEEPEST = 16
"""No input is nested deeper. What lies below stays as it is: no text of a caller's drives our stack."""


def _without_null(data: object, depth: int = 0) -> object:
    if depth < _DEEPEST and isinstance(data, dict):
        return {key: _without_null(value, depth + 1) for key, value in data.items() if value is not None}
    if depth < _DEEPEST and isinstance(data, list):
        return [_without_null(value, depth + 1) for value in data]
    return data


def read_model(model: type[I_], data: dict[str, Any]) -> I_:
    """Read a model from JSON values; `null` is as absent (exec.md A8.16). Errors: 400 naming the first wrong member."""
    try:
        return model.model_validate(_without_null(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        raise invalid(name or "body", _reason(first["type"], first.get("ctx", {}))) from None


_REASONS = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode text",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}


def _reason(kind: str, context: Mapping[str, Any]) -> str:
    if kind in _REASONS:
        return _REASONS[kind]
    if kind in ("literal_error", "enum"):
        return f"must be one of {context.get('expected', '')}".rstrip()
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']}"
    if kind == "string_pattern_mismatch":
        return "is not of the required form"
    if kind in ("string_too_short", "too_short"):
        return f"must not be shorter than {context['min_length']}"
    if kind in ("string_too_long", "too_long"):
        return f"must not be longer than {context['max_length']}"
    return "is not valid"


def _members(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for name, info in model.model_fields.items():
        yield info.alias or name, info.annotation


def _refuse_unknown(model: type[BaseModel], data: dict[str, Any], prefix: str) -> None:
    known = dict(_members(model))
    for key, value in data.items():
        if key not in known:
            shown = key[:64].encode("ascii", "backslashreplace").decode("ascii")
            raise invalid(f"{prefix}{shown}", "is not a member of this input")
        inner = _inner_model(known[key])
        if inner is not None:
            rows = value if isinstance(value, list) else [value]
            for index, row in enumerate(rows):
                if isinstance(row, dict):
                    place = f"{prefix}{key}[{index}]." if isinstance(value, list) else f"{prefix}{key}."
                    _refuse_unknown(inner, row, place)


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and not issubclass(annotation, RootModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _inner_model(part)
        if found is not None:
            return found
    return None
