"""The probe against the service of this machine: all but what needs AWS holds, and what does not hold is reported."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cases.door import served
from tests.live.checks import CHECKS
from tests.live.probe import judge, main, probe
from tests.live.target import Target

NEEDS_AWS = {"bucket rules"}


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """`workroom serve`, with its real sandbox."""
    with served() as service:
        made = Target(service.url, service.key, burst=6)
        yield made
        made.close()


def test_every_check_holds_on_one_machine(target: Target) -> None:
    out = io.StringIO()
    assert probe(target, out) == 0, out.getvalue()
    lines = out.getvalue().splitlines()
    assert len(lines) == len(CHECKS) + 1
    verdicts = {line[9:25].strip(): line[:8].strip() for line in lines[:-1]}
    assert {name for name, verdict in verdicts.items() if verdict == "skipped"} == NEEDS_AWS, out.getvalue()
    assert {name for name, verdict in verdicts.items() if verdict == "ok"} == verdicts.keys() - NEEDS_AWS, (
        out.getvalue()
    )


def test_the_command_tells_by_its_exit_code_what_failed(target: Target, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", target.url, "--key", "wrong-key"]) == 1
    assert "FAILED" in capsys.readouterr().out


_LAYERS = {name: {"active": True, "required": True} for name in ("clean", "reap", "filter", "namespaces")}


class _Careless(BaseHTTPRequestHandler):
    """A service that answers everything with 200, whose programs achieve all that they try and leave all behind."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body: dict[str, object] = {"session_id": "AAAAAAAAAAAAAAAAAAAAA", "stdout": "started\n", "code": 0}
        body |= {"signal": None, "status": None, "executor": {"ready": True}, "layers": _LAYERS}
        body |= {"upload_id": "x", "method": "PUT", "url": "/put", "headers": {"If-None-Match": "*"}}
        data = json.dumps(body).encode()
        self.send_response(201 if self.path == "/v1/exec/uploads" and asked else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def careless() -> Iterator[Target]:
    """A target at which every attack succeeds."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Careless)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    made = Target(f"http://127.0.0.1:{server.server_port}", "key", burst=2)
    yield made
    made.close()
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_a_service_that_holds_nothing_back_fails_the_probe(careless: Target) -> None:
    verdicts = {check.__name__: judge(check, careless).verdict for check in CHECKS}
    # It says of itself that all is well, and has no limit of runs at once: these two cannot tell.
    assert {name for name, verdict in verdicts.items() if verdict == "ok"} == {"layers", "too_many"}
    assert {name for name, verdict in verdicts.items() if verdict == "skipped"} == {"bucket_rules"}


def test_what_an_absent_layer_would_stop_is_open_and_no_failure(careless: Target) -> None:
    careless.layers.update({"filter": False, "namespaces": False})
    verdicts = {check.__name__: judge(check, careless).verdict for check in CHECKS[1:7]}
    assert {name for name, verdict in verdicts.items() if verdict == "open"} == {"runtime_api", "signals"}
