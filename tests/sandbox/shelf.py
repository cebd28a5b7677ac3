"""Objects of this machine whose grants are addresses, as S3's are: what an executor function reads and creates."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from shared.store.local.objects import FileObjects
from shared.store.ports import Grant, ObjectExists, ObjectMissing


class Shelf(FileObjects):
    """`served` counts requests by method."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = ""
        self.served = {"GET": 0, "PUT": 0}

    def grant_read(self, key: str, *, seconds: int) -> Grant:
        """An address for GET."""
        return Grant("GET", f"{self.url}/{key}?signature=read", 0)

    def grant_write(self, key: str, *, seconds: int) -> Grant:
        """An address for PUT."""
        return Grant("PUT", f"{self.url}/{key}?signature=write", 0, {"If-None-Match": "*"})


@contextlib.contextmanager
def shelf(folder: Path) -> Iterator[Shelf]:
    """Serve one on a port of this machine."""
    made = Shelf(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.served["GET"] += 1
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            try:
                body = b"".join(made.read(self._key("read"), int(first), int(last) - int(first) + 1))
            except ObjectMissing:
                self._say(404, b"")
                return
            self._say(206, body, {"Content-Range": f"bytes {first}-{last}/*"})

        def do_PUT(self) -> None:
            made.served["PUT"] += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("If-None-Match") != "*":
                self._say(403, b"")
                return
            try:
                made.put_new(self._key("write"), body, hashlib.sha256(body).hexdigest())
            except ObjectExists:
                self._say(412, b"")
                return
            self._say(200, b"")

        def _key(self, leave: str) -> str:
            path, _, query = self.path.partition("?")
            return path[1:] if query == f"signature={leave}" else ""

        def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """An address is a signature: none is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
