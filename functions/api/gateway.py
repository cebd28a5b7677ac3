"""A request as a Lambda function gets it and its answer, payload format 2.0, between the event and ASGI.

    HTTP API        the path comes decoded: it is encoded again, so that what decodes it once has that text
    function URL    the path comes as it was sent
    both            the query as it was sent; headers that came twice joined by commas; cookies apart; binary bodies
                    in Base64, both ways

Mangum decodes a path once more and keeps no raw one (platform.md), so these classes stand in its place. Any other
event (REST, ALB, format 1.0, a schedule) is NotHttp.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any
from urllib.parse import quote

from mangum.types import LambdaConfig, LambdaContext, LambdaEvent, Response, Scope

from functions.api.joined import apart
from shared.errors import invalid

ANSWER_BYTES = 6_291_556
"""What Lambda carries back of a synchronous call, as JSON."""

_HEAD_BYTES = 65_536
_SMALL = 1_000_000
"""A body up to this fits whatever its escapes: each byte takes at most six."""
_DEFAULT_STAGE = "$default"
_URL_DOMAIN = ".lambda-url."
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
_DECODED_SAFE = "/!$&'()*+,-.:;=@_~"
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_TEXT = ("text/", "application/json", "application/javascript", "application/xml")


class NotHttp(Exception):
    """The event is no HTTP request of payload format 2.0, or one that cannot be read. It holds nothing of it."""


class AnswerTooLarge(Exception):
    """The answer is larger than Lambda carries."""


class HttpApi:
    """An event of an HTTP API. Mangum's protocol of a handler. Errors: NotHttp, Failure, AnswerTooLarge."""

    @classmethod
    def infer(cls, event: LambdaEvent, context: LambdaContext, config: LambdaConfig) -> bool:
        """Whether the event is one of this kind."""
        return _domain(event) is not None

    def __init__(self, event: LambdaEvent, context: LambdaContext, config: LambdaConfig) -> None:
        self._event = event
        self._about: dict[str, Any] = event["requestContext"]
        self._body = _body_of(event)
        headers = _headers_of(event)
        lengths = [value for name, value in headers if name == b"content-length"]
        if any(not value.isdigit() for value in lengths) or len(lengths) > 1:
            raise invalid("Content-Length", "must be one number")
        # What counts is what is there: the gateway has read the whole body and undone its transfer coding.
        kept = [pair for pair in headers if pair[0] not in (b"content-length", b"transfer-encoding")]
        if self._body or lengths:
            kept.append((b"content-length", str(len(self._body)).encode()))
        method = self._about["http"].get("method")
        if not isinstance(method, str) or not _METHOD.fullmatch(method):
            raise NotHttp
        path = self._path()
        address = self._about["http"].get("sourceIp")
        self._scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": path,
            "raw_path": path.encode("ascii"),
            "root_path": "",
            "query_string": _text_of(event, "rawQueryString").encode("ascii"),
            "headers": kept,
            "client": (address if isinstance(address, str) else "", 0),
            "server": (_domain(event), 443),
        }

    @property
    def body(self) -> bytes:
        """The body, decoded."""
        return self._body

    @property
    def scope(self) -> Scope:
        """The ASGI scope. `raw_path` and `query_string` are what counts; nothing reads `path`."""
        return self._scope

    def _path(self) -> str:
        path = self._event.get("rawPath")
        if not isinstance(path, str):
            raise NotHttp
        stage = self._about.get("stage", _DEFAULT_STAGE)
        if stage != _DEFAULT_STAGE and isinstance(stage, str) and f"{path}/".startswith(f"/{stage}/"):
            path = path[len(stage) + 1 :]
        return quote(path or "/", safe=_DECODED_SAFE, encoding="utf-8", errors="surrogatepass")

    def __call__(self, response: Response) -> dict[str, Any]:
        headers: dict[str, str] = {}
        cookies: list[str] = []
        for raw_name, raw_value in response["headers"]:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            if name == "set-cookie":
                cookies.append(value)
            else:
                headers[name] = f"{headers[name]},{value}" if name in headers else value
        empty = self._scope["method"] == "HEAD" or response["status"] in (204, 304)
        text, encoded = _carried(b"" if empty else response["body"], headers.get("content-type", ""))
        made = {"statusCode": response["status"], "headers": headers, "body": text, "isBase64Encoded": encoded}
        return {**made, "cookies": cookies} if cookies else made


class FunctionUrl(HttpApi):
    """An event of a function URL."""

    @classmethod
    def infer(cls, event: LambdaEvent, context: LambdaContext, config: LambdaConfig) -> bool:
        """Whether the event is one of this kind."""
        domain = _domain(event)
        return domain is not None and _URL_DOMAIN in domain

    def _path(self) -> str:
        return _text_of(self._event, "rawPath") or "/"


class Other(HttpApi):
    """Every other event."""

    @classmethod
    def infer(cls, event: LambdaEvent, context: LambdaContext, config: LambdaConfig) -> bool:
        """Always. Errors: NotHttp, before Mangum's own classes guess."""
        raise NotHttp


KINDS = [FunctionUrl, HttpApi, Other]
"""In the order in which an event is tried."""


def _domain(event: object) -> str | None:
    """The domain that was asked, None where the event is no request of format 2.0."""
    if not isinstance(event, dict) or event.get("version") != "2.0":
        return None
    about = event.get("requestContext")
    if not isinstance(about, dict) or not isinstance(about.get("http"), dict):
        return None
    domain = about.get("domainName", "")
    return domain if isinstance(domain, str) else None


def _text_of(event: LambdaEvent, name: str) -> str:
    """Text as it was sent; what is no ASCII in it is encoded."""
    text = event.get(name)
    if not isinstance(text, str):
        raise NotHttp
    return quote(text, safe=_PRINTABLE, encoding="utf-8", errors="surrogatepass")


def _headers_of(event: LambdaEvent) -> list[tuple[bytes, bytes]]:
    headers = event.get("headers") or {}
    cookies = event.get("cookies") or []
    if not isinstance(headers, dict) or not isinstance(cookies, list):
        raise NotHttp
    pairs = [*headers.items(), *([("cookie", "; ".join(map(str, cookies)))] if cookies else [])]
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise NotHttp
    return apart((_header_bytes(name), _header_bytes(value)) for name, value in pairs)


def _header_bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _body_of(event: LambdaEvent) -> bytes:
    body = event.get("body") or ""
    if not isinstance(body, str):
        raise NotHttp
    if event.get("isBase64Encoded") is not True:
        return body.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise NotHttp from None


def _carried(body: bytes, media: str) -> tuple[str, bool]:
    """The body as text, or in Base64: what is no text, and what its escapes would make longer than that."""
    text: str | None = None
    if media.lower().startswith(_TEXT):
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            text = None
    elif not body:
        text = ""
    if text is not None and (len(body) <= _SMALL or len(json.dumps(text)) <= len(body) * 4 // 3):
        carried, encoded = text, False
    else:
        carried, encoded = base64.b64encode(body).decode("ascii"), True
    if len(body) > _SMALL and (len(carried) if encoded else len(json.dumps(carried))) > ANSWER_BYTES - _HEAD_BYTES:
        raise AnswerTooLarge
    return carried, encoded
