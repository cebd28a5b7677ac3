"""The command's one way to a service: HTTP, to an address or to this very program serving on a private socket."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from functions.cli.show import Refused
from shared.settings import Settings

Headers = Mapping[str, str]

_PIECE = 256 * 1024
_PATIENT = httpx.Timeout(30, read=None, write=None)
_BASES = re.compile(r"(/v1(/exec)?)?/*\Z")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def segment(value: str) -> str:
    """One segment of an address. Errors: Refused for what an address cannot hold."""
    if value in ("", ".", "..") or "/" in value:
        raise Refused(f"{value!r} is not a valid id")
    return _quoted(value)


def path_of(name: str) -> str:
    """A relative path as the end of an address. Errors: Refused: what is not canonical would be another address."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise Refused(f"{name!r} is not a relative path in canonical form")
    return _quoted(name)


def _quoted(value: str) -> str:
    try:
        return quote(value, safe="/")
    except UnicodeEncodeError:
        raise Refused(f"{value!r} is not valid Unicode: use the file's id") from None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file to upload under a name."""

    name: str
    path: Path
    size: int


class Client:
    """Speaks HTTP for the commands. Every method's errors: Refused with the service's own sentence."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    @property
    def bearer(self) -> dict[str, str]:
        """The key as the Agents API takes it, for its addresses alone."""
        key = self._http.headers.get("X-API-Key")
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def json(
        self, method: str, path: str, *, body: Any = None, query: Any = None, headers: Headers | None = None
    ) -> Any:
        """The JSON of an answer."""
        with _speaking():
            answer = self._http.request(method, path, json=body, params=query, headers=headers)
            if answer.is_error:
                raise refusal(answer)
            return _json(answer)

    def post_any(self, path: str, body: Any, headers: Headers) -> tuple[int, Any]:
        """Status and JSON of an answer, whatever the status."""
        with _speaking():
            answer = self._http.post(path, json=body, headers=headers)
            return answer.status_code, _json(answer)

    def upload(
        self, path: str, fields: Mapping[str, str], files: Sequence[Outgoing], advance: Callable[[int], object]
    ) -> Any:
        """Post files as multipart/form-data, in pieces. `advance` is told how many bytes went."""
        boundary = secrets.token_hex(16)
        heads = [_field(boundary, name, value) for name, value in fields.items()]
        parts = [(_file_head(boundary, file), file) for file in files]
        end = f"--{boundary}--\r\n".encode()
        total = sum(map(len, heads)) + sum(len(head) + file.size + 2 for head, file in parts) + len(end)

        def body() -> Iterator[bytes]:
            yield from heads
            for head, file in parts:
                yield head
                yield from _pieces(file, advance)
                yield b"\r\n"
            yield end

        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}", "Content-Length": str(total)}
        with _speaking():
            answer = self._http.post(path, content=body(), headers=headers)
            if answer.is_error:
                raise refusal(answer)
            return _json(answer)

    @contextmanager
    def download(self, path: str) -> Iterator[tuple[int | None, Iterator[bytes]]]:
        """Size (None where it is not announced) and pieces of a file."""
        with _speaking(), self._http.stream("GET", path) as answer:
            if answer.is_redirect:
                with _granted(answer) as granted:
                    yield granted
                return
            if answer.is_error:
                answer.read()
                raise refusal(answer)
            yield _sized(answer)


@contextmanager
def connect(settings: Settings, *, programs: bool = False) -> Iterator[Client]:
    """A client of `settings.url`, or of this program on the data folder where there is none.

    `programs`: the command runs one, so the toolchains have to be there. Errors: Refused.
    """
    if settings.url is None:
        from functions.cli.embedded import embedded  # noqa: PLC0415

        with embedded(settings, programs=programs) as (transport, key):
            client = httpx.Client(
                base_url="http://workroom", transport=transport, headers=credential(key), timeout=_PATIENT
            )
            with client:
                yield Client(client)
        return
    url, headers = service(settings)
    with httpx.Client(base_url=url, headers=headers, timeout=_PATIENT) as http:
        yield Client(http)


def service(settings: Settings) -> tuple[str, dict[str, str]]:
    """The base address and the credential for `settings.url`. Errors: Refused.

    The development key is for this machine: it is sent to a loopback address, and to no other.
    """
    url = _BASES.sub("", settings.url or "")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused("WORKROOM_URL must be an http or https address")
    key = settings.key
    if key is None and parts.username is None and parts.hostname in _LOOPBACK and settings.dev_key:
        key = _development_key(settings.data / "dev.key")
    return url, credential(key)


def _development_key(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None  # no service has been started on this folder


def credential(key: str | None) -> dict[str, str]:
    """The header of a key."""
    return {} if key is None else {"X-API-Key": key}


@contextmanager
def _speaking() -> Iterator[None]:
    try:
        yield
    except httpx.ConnectError:
        raise Refused("the service cannot be reached", "unreachable") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Refused(f"the connection to the service failed ({type(error).__name__})", "unreachable") from None


def refusal(answer: httpx.Response) -> Refused:
    """The sentence of an error answer (exec.md A8.9, agents.md 1.3)."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        inner = body["error"]
        body = {"message": inner.get("message"), "error": inner.get("code") or inner.get("type")}
    if not isinstance(body, dict) or not isinstance(body.get("message"), str):
        return Refused(f"the service answered {answer.status_code}")
    wait = answer.headers.get("retry-after")
    return Refused(body["message"] + (f" Retry after {wait} s." if wait else ""), str(body.get("error", "")))


def _json(answer: httpx.Response) -> Any:
    if not answer.content and answer.is_success:
        return {}
    try:
        return answer.json()
    except ValueError:
        raise Refused("the service did not answer JSON") from None


def _field(boundary: str, name: str, value: str) -> bytes:
    return f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def _file_head(boundary: str, file: Outgoing) -> bytes:
    """`filename*` carries every name exactly, quotes and line breaks too."""
    name = _quoted(file.name).replace("/", "%2F")
    about = f"Content-Disposition: form-data; name=\"file\"; filename*=UTF-8''{name}"
    return f"--{boundary}\r\n{about}\r\nContent-Type: application/octet-stream\r\n\r\n".encode()


def _pieces(file: Outgoing, advance: Callable[[int], object]) -> Iterator[bytes]:
    """The bytes of a file; exactly as many as were announced."""
    left = file.size
    with open(os.open(file.path, os.O_RDONLY | os.O_CLOEXEC), "rb") as opened:
        while left:
            piece = opened.read(min(_PIECE, left))
            if not piece:
                raise Refused(f"{file.path} became shorter while it was read")
            left -= len(piece)
            yield piece
            advance(len(piece))


def _sized(answer: httpx.Response) -> tuple[int | None, Iterator[bytes]]:
    length = answer.headers.get("content-length")
    exact = length is not None and "content-encoding" not in answer.headers
    return (int(length) if length is not None and exact else None), answer.iter_bytes(_PIECE)


@contextmanager
def _granted(answer: httpx.Response) -> Iterator[tuple[int | None, Iterator[bytes]]]:
    """Follow a download to its grant: without the credential, which is for the service alone (exec.md A8.1)."""
    target = answer.url.join(answer.headers.get("location", ""))
    if target.scheme != "https" and target.host != answer.url.host:
        raise Refused("the service sent the download to an address that is not https")
    with httpx.stream("GET", target, timeout=_PATIENT) as granted:
        if not granted.is_success:
            raise Refused(f"the download was answered {granted.status_code}")
        yield _sized(granted)
