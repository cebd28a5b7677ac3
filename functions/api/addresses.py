"""Addresses: the raw path of a request, the routes that it matches, and its parameters.

Matching happens on the bytes that came over the wire, never on a decoded path, so that an encoded letter, another
case or a trailing slash is another address (DESIGN §2, cases.md H2). Only `//` is collapsed. A parameter is decoded
exactly once, after matching.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import BaseRoute, Route

from shared.errors import Code, Failure

_SLASHES = re.compile("/{2,}")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class _ShortId(Convertor[str]):
    """21 characters that are no `file-…` id: what `/v1/files/` shares with another API (exec.md A8.17)."""

    regex = r"(?!file-)[A-Za-z0-9_-]{21}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("shortid", _ShortId())

_SHARED = "/v1/files/{session_id}"


def served_path(template: str) -> str:
    """The route's path for a declared template: below `/v1/files/` only ids of this contract are matched."""
    return template.replace(_SHARED, "/v1/files/{session_id:shortid}") if template.startswith(_SHARED) else template


def published_path(served: str) -> str:
    """The template as the document and the log show it: parameters without their kind."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", served)


def raw_path(scope: Mapping[str, object]) -> str:
    """The path as sent, percent-escapes kept, with `//` collapsed."""
    raw = scope.get("raw_path")
    text = raw.decode("latin-1") if isinstance(raw, bytes) and raw else str(scope["path"])
    return _SLASHES.sub("/", text)


@dataclass(frozen=True, slots=True)
class Matched:
    """What an address is: the route for its method (None: no such route), and every method that it takes."""

    route: Route | None
    template: str | None
    methods: tuple[str, ...]


class Table:
    """The routes of an application, by raw path."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes = [route for route in routes if isinstance(route, Route)]

    def match(self, path: str, method: str) -> Matched:
        """Look an address up. HEAD is taken wherever GET is. A path parameter is never empty (cases.md H2)."""
        found: Route | None = None
        template: str | None = None
        methods: set[str] = set()
        for route in self._routes:
            parameters = route.path_regex.fullmatch(path)
            if parameters is None or "" in parameters.groupdict().values():
                continue
            template = template or published_path(route.path)
            methods |= route.methods or set()
            if found is None and method in (route.methods or ()):
                found, template = route, published_path(route.path)
        return Matched(found, template, tuple(sorted(methods)))


def decoded(params: Mapping[str, str]) -> dict[str, str]:
    """Path parameters, decoded once. What cannot be an id or a path (a bad escape, not UTF-8, NUL) is not found."""
    return {name: _decode(value) for name, value in params.items()}


def _decode(raw: str) -> str:
    if _ESCAPE.search(raw):
        raise Failure(Code.NOT_FOUND)
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise Failure(Code.NOT_FOUND) from None
    if "\0" in text:
        raise Failure(Code.NOT_FOUND)
    return text
