"""Events of payload format 2.0 as an HTTP API and a function URL make them of a request.

Source: "Working with AWS Lambda proxy integrations for HTTP APIs" and "Invoking Lambda function URLs" (AWS
documentation), and platform.md for what happens to the path, the query and headers that come more than once.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import unquote

Kind = Literal["http-api", "function-url"]
Pair = tuple[str, str]

DOMAINS = {
    "http-api": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
    "function-url": "abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-central-1.on.aws",
}
_TEXT = ("text/", "application/json", "application/javascript", "application/xml")
_HOP_BY_HOP = frozenset(("connection", "transfer-encoding", "keep-alive", "expect", "upgrade"))
_numbers = itertools.count(1)


def event_of(kind: Kind, method: str, target: str, headers: Sequence[Pair], body: bytes) -> dict[str, Any]:
    """The event. `target` is a path with its query; values of `headers` are the bytes of the wire as Latin-1."""
    path, _, query = target.partition("?")
    joined: dict[str, str] = {}
    cookies: list[str] = []
    for name, value in headers:
        lower = name.lower()
        if lower == "cookie":
            cookies += [part.strip() for part in value.split(";")]
        elif lower not in _HOP_BY_HOP:
            joined[lower] = f"{joined[lower]},{value}" if lower in joined else value
    joined |= {
        "host": DOMAINS[kind],
        "x-amzn-trace-id": "Root=1-5e6722a7-cc56xmpl46db7ae02d4da47e",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-port": "443",
        "x-forwarded-proto": "https",
    }
    if body or "content-length" in joined:
        joined["content-length"] = str(len(body))
    shown = unquote(path, errors="replace") if kind == "http-api" else path
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": shown,
        "rawQueryString": query,
        "headers": joined,
        "requestContext": {
            "accountId": "anonymous" if kind == "function-url" else "123456789012",
            "apiId": DOMAINS[kind].partition(".")[0],
            "domainName": DOMAINS[kind],
            "domainPrefix": DOMAINS[kind].partition(".")[0],
            "http": {
                "method": method,
                "path": shown,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": joined.get("user-agent", ""),
            },
            "requestId": f"JKJaXmPLvHcESHA{next(_numbers)}=",
            "routeKey": "$default",
            "stage": "$default",
            "time": "12/Mar/2026:19:03:58 +0000",
            "timeEpoch": 1773342238000,
        },
        "isBase64Encoded": False,
    }
    if cookies:
        event["cookies"] = cookies
    if query:
        event["queryStringParameters"] = _parameters(query)
    if body:
        event["body"], event["isBase64Encoded"] = _carried(body, joined.get("content-type", ""))
    return event


def _parameters(query: str) -> dict[str, str]:
    """What a gateway makes of a query: lossy, and nothing may rely on it (platform.md)."""
    found: dict[str, str] = {}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        name, value = unquote(name, errors="replace"), unquote(value, errors="replace")
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _carried(body: bytes, media: str) -> tuple[str, bool]:
    if media.lower().startswith(_TEXT):
        try:
            return body.decode("utf-8"), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode("ascii"), True
