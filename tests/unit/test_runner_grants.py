"""Grants by address against a store that misbehaves, on a socket of this machine."""

from __future__ import annotations

import hashlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_image.runner import grants, httpgrant
from sandbox_image.runner.grants import GrantFailed

BODY = bytes(range(256)) * 8_192
"""2 MiB, so that a cut lies inside a piece."""
Answer = Callable[[bytes, int], tuple[bytes, bool]]
"""From a request and how many came before: what to send, and whether the connection stays open after it."""


class Store:
    """A listening socket that answers by a script. `requests` are the whole requests, bodies included."""

    def __init__(self, answer: Answer, context: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._answer = answer
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listening.getsockname()[1]}/bucket/a%2Fb?X-Signature=s%2Bs&x=1"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for sock in self._open:
            sock.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
            while (request := self._request(sock)) is not None:
                self.requests.append(request)
                data, stays = self._answer(request, len(self.requests) - 1)
                sock.sendall(data)
                if not stays:
                    return
        except OSError:
            return
        finally:
            sock.close()

    def _request(self, sock: socket.socket) -> bytes | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = sock.recv(65_536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Le")), 0)
        while len(body) < length:
            more = sock.recv(65_536)
            if not more:
                return None
            body += more
        return head + b"\r\n\r\n" + body


@contextmanager
def store(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[Store]:
    made = Store(answer, context)
    try:
        yield made
    finally:
        made.close()


def head(status: int, length: int, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {length}", *more]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


def sound(request: bytes, _: int) -> tuple[bytes, bool]:
    """What a sound store answers."""
    if request.startswith(b"PUT "):
        return head(200, 0), True
    first, last = (int(text) for text in header(request, "Range").removeprefix("bytes=").split("-"))
    part = BODY[first : last + 1]
    return head(206, len(part), f"Content-Range: bytes {first}-{last}/{len(BODY)}") + part, True


def header(request: bytes, name: str) -> str:
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return next(line.partition(": ")[2] for line in lines if line.partition(":")[0] == name)


def whole(url: str, start: int, length: int) -> bytes:
    return b"".join(grants.read(url, start, length))


def test_a_range_is_read_exactly_and_the_address_is_sent_as_it_was_signed() -> None:
    with store(sound) as made:
        assert whole(made.url, 1_000_001, 700_003) == BODY[1_000_001:1_700_004]
        assert whole(made.url, 5, 1) == BODY[5:6]
        assert made.requests[0].split(b"\r\n")[0] == b"GET /bucket/a%2Fb?X-Signature=s%2Bs&x=1 HTTP/1.1"
        assert header(made.requests[0], "Range") == "bytes=1000001-1700003"
        assert header(made.requests[0], "Accept-Encoding") == "identity"
        assert made.connections == 1, "the second reading uses the connection of the first"


def test_a_whole_answer_to_a_range_of_the_whole_is_taken() -> None:
    with store(lambda *_: (head(200, 4) + b"four", True)) as made:
        assert whole(made.url, 0, 4) == b"four"


@pytest.mark.parametrize(
    "answer",
    [
        head(200, 4) + b"four",
        head(206, 3, "Content-Range: bytes 1-3/9") + b"fou",
        head(206, 4, "Content-Range: bytes 0-3/9") + b"four",
        head(206, 4) + b"four",
        head(206, 5, "Content-Range: bytes 1-4/9") + b"fours",
        head(403, 0),
        head(404, 0),
        head(416, 0),
        head(302, 0, "Location: http://127.0.0.1:1/other"),
        head(307, 0, "Location: http://127.0.0.1:1/other"),
    ],
    ids=["all", "short", "elsewhere", "unnamed", "long", "denied", "missing", "beyond", "redirect", "redirect-307"],
)
def test_what_is_not_the_range_is_refused_and_not_asked_for_again(answer: bytes) -> None:
    with store(lambda *_: (answer, True)) as made:
        with pytest.raises(GrantFailed) as failed:
            whole(made.url, 1, 4)
        assert len(made.requests) == 1
        assert "X-Signature" not in str(failed.value)


def test_a_reading_that_breaks_off_is_taken_up_once_where_it_stopped() -> None:
    def cut(request: bytes, number: int) -> tuple[bytes, bool]:
        data, _ = sound(request, number)
        return (data[:-500_000], False) if number == 0 else (data, True)

    with store(cut) as made:
        assert whole(made.url, 10, 1_500_000) == BODY[10:1_500_010]
        assert [header(request, "Range") for request in made.requests] == ["bytes=10-1500009", "bytes=1000010-1500009"]


@pytest.mark.parametrize(
    "answer",
    [b"", head(500, 0), head(503, 0), b"nonsense\r\n\r\n", head(206, 4, "Content-Range: bytes 1-4/9") + b"f"],
    ids=["closed", "500", "503", "no HTTP", "cut"],
)
def test_a_second_failure_of_a_reading_is_the_last(answer: bytes) -> None:
    with store(lambda *_: (answer, False)) as made:
        with pytest.raises(GrantFailed):
            whole(made.url, 1, 4)
        assert len(made.requests) == 2


def test_a_silent_store_is_waited_for_twice_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpgrant, "WAIT_S", 0.2)
    over = threading.Event()

    def silent(request: bytes, number: int) -> tuple[bytes, bool]:
        over.wait(20)
        return b"", False

    with store(silent) as made:
        with pytest.raises(GrantFailed):
            whole(made.url, 0, 4)
        assert len(made.requests) == 2
        over.set()


@pytest.mark.parametrize("size", [0, 1, httpgrant.SPOOL, httpgrant.SPOOL + 1, 5 << 20])
def test_an_object_is_sent_once_with_its_length_and_its_condition(size: int) -> None:
    body = bytes(i & 0xFF for i in range(1_009)) * (size // 1_009 + 1)
    body = body[:size]
    pieces = [body[at : at + 300_000] for at in range(0, size, 300_000)]
    with store(sound) as made:
        assert grants.create(made.url, iter(pieces)) == (size, hashlib.sha256(body).hexdigest())
        (request,) = made.requests
        assert request.startswith(b"PUT /bucket/a%2Fb?X-Signature=s%2Bs&x=1 HTTP/1.1\r\n")
        assert (header(request, "Content-Length"), header(request, "If-None-Match")) == (str(size), "*")
        assert b"\r\nTransfer-Encoding" not in request
        assert request.partition(b"\r\n\r\n")[2] == body


@pytest.mark.parametrize(
    "answer",
    [b"", head(412, 0), head(409, 0), head(403, 0), head(500, 0), head(503, 0), head(307, 0, "Location: /x"), b"x\r\n"],
    ids=["lost", "exists", "conflict", "denied", "500", "503", "redirect", "no HTTP"],
)
def test_an_object_that_is_not_known_to_be_created_is_a_failure_and_is_not_sent_again(answer: bytes) -> None:
    with store(lambda *_: (answer, False)) as made:
        with pytest.raises(GrantFailed):
            grants.create(made.url, [b"body"])
        assert len(made.requests) == 1


def test_what_the_pieces_raise_comes_through_and_nothing_is_sent() -> None:
    class Changed(Exception):
        pass

    def pieces() -> Iterator[bytes]:
        yield b"begun"
        raise Changed

    with store(sound) as made:
        with pytest.raises(Changed):
            grants.create(made.url, pieces())
        assert made.requests == []


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/x", "http:///x", "http://a:b@127.0.0.1/x", "", "/etc/passwd", "https://h/x\r\nX: y"]
)
def test_what_is_no_grant_is_refused(url: str) -> None:
    with pytest.raises(GrantFailed):
        whole(url, 0, 1)
    with pytest.raises(GrantFailed):
        grants.create(url, [b"x"])


def test_a_closed_door_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(GrantFailed):
        whole(f"http://127.0.0.1:{port}/x", 0, 1)
    with pytest.raises(GrantFailed):
        grants.create(f"http://127.0.0.1:{port}/x", [b"x"])


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key", "-out", tmp_path / "cert"],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with store(sound, context) as made:
        with pytest.raises(GrantFailed):
            whole(made.url, 0, 4)
        with pytest.raises(GrantFailed):
            grants.create(made.url, [b"secret"])
        assert made.requests == []
