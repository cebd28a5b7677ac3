"""The pages that anyone may read: `/`, `/docs`, and the files that they ask for. No other server is needed.

Swagger UI's script and style come from the package `fastapi-offline`, which carries them.
"""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from functions.api.typed import Handler

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
ASSETS: dict[str, tuple[str, str, str]] = {
    "start.css": ("functions.api.pages", "start.css", "text/css"),
    "docs.js": ("functions.api.pages", "docs.js", "text/javascript"),
    "swagger-ui.css": ("fastapi_offline", "static/swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": ("fastapi_offline", "static/swagger-ui-bundle.js", "text/javascript"),
}


def _read(package: str, path: str) -> bytes:
    return files(package).joinpath(path).read_bytes()


def _page(path: str) -> Response:
    return Response(_read("functions.api.pages", path), 200, _HEADERS, "text/html")


async def docs(request: Request) -> Response:
    """The documentation."""
    return _page("docs.html")


async def start(request: Request) -> Response:
    """What this is."""
    return _page("start.html")


async def asset(request: Request) -> Response:
    """A file that a page asks for."""
    package, path, media = ASSETS[request.scope["path"].rpartition("/")[2]]
    return Response(_read(package, path), 200, {**_HEADERS, "Cache-Control": "max-age=3600"}, media)


def document_handler(document: bytes) -> Handler:
    """`GET /openapi.json`."""

    async def handle(request: Request) -> Response:
        return Response(document, 200, {"X-Content-Type-Options": "nosniff"}, "application/json")

    return handle
