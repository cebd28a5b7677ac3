"""Lambda on one machine, as far as an end-to-end run needs it: the Invoke API over environments that a test starts.

An environment is one process behind the Lambda runtime emulator and serves one event at a time, as on AWS; more at
once make more environments, up to a function's `most`, and then answer 429. With `tenants` an environment belongs to
the tenant of its first event for as long as it lives (platform.md, "Tenant isolation"). Payloads above 6 MB are
refused on the way in and replaced by an error on the way out, as Lambda does.
"""

from __future__ import annotations

import fcntl
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import httpx

PAYLOAD_BYTES = 6 * 1024 * 1024
_TENANT = "X-Amz-Tenant-Id"
_PATH = "/2015-03-31/functions/"
_EMULATOR_PATH = "/2015-03-31/functions/function/invocations"
_WAIT_S = 120.0
_ONE_START = threading.Lock()


@contextmanager
def _one_start() -> Iterator[None]:
    """One start at a time on this machine: two could draw one free port."""
    with _ONE_START, open(Path(tempfile.gettempdir()) / "workroom-e2e-start", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass
class Function:
    """A function: `start` gives the address of a fresh environment for as long as its context lasts."""

    name: str
    start: Callable[[], AbstractContextManager[str]]
    most: int = 4
    tenants: bool = False


@dataclass(eq=False)
class _Environment:
    address: str
    tenant: str
    closing: ExitStack
    busy: bool = True
    used: float = 0.0


@dataclass
class _Pool:
    function: Function
    lock: threading.Lock = field(default_factory=threading.Lock)
    environments: list[_Environment] = field(default_factory=list)
    starting: int = 0
    started: int = 0

    def take(self, tenant: str) -> _Environment | None:
        """An environment for one event, None where there may be no more."""
        idle: _Environment | None = None
        with self.lock:
            for environment in self.environments:
                if not environment.busy and environment.tenant == tenant:
                    environment.busy = True
                    return environment
            if len(self.environments) + self.starting >= self.function.most:
                others = [environment for environment in self.environments if not environment.busy]
                if not others:
                    return None
                idle = min(others, key=lambda environment: environment.used)
                self.environments.remove(idle)
            self.starting += 1
        try:
            if idle is not None:
                idle.closing.close()
            closing = ExitStack()
            with _one_start():
                fresh = _Environment(closing.enter_context(self.function.start()), tenant, closing)
            with self.lock:
                self.environments.append(fresh)
                self.started += 1
            return fresh
        finally:
            with self.lock:
                self.starting -= 1

    def give_back(self, environment: _Environment, *, broken: bool) -> None:
        """End one event. A broken environment is not used again."""
        with self.lock:
            environment.busy, environment.used = False, time.monotonic()
            if broken and environment in self.environments:
                self.environments.remove(environment)
        if broken:
            environment.closing.close()

    def close(self) -> None:
        """End every environment."""
        for environment in self.environments:
            environment.closing.close()


class Lambdas:
    """The Invoke API. `address` is what a boto3 client takes as endpoint; `invocations` counts by function."""

    def __init__(self, *functions: Function) -> None:
        self._pools = {function.name: _Pool(function) for function in functions}
        self.invocations = dict.fromkeys(self._pools, 0)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="lambdas", daemon=True)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, function: Function) -> None:
        """Add a function."""
        self._pools[function.name] = _Pool(function)
        self.invocations[function.name] = 0

    @contextmanager
    def serving(self) -> Iterator[Lambdas]:
        """Serve while the context lasts; every environment ends with it."""
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(10)
            for pool in self._pools.values():
                pool.close()

    def started(self, name: str) -> int:
        """How many environments of a function were started."""
        return self._pools[name].started

    def invoke(self, name: str, payload: bytes, tenant: str = "") -> tuple[int, dict[str, str], bytes]:
        """One event: status, headers and body as the Invoke API answers them."""
        pool = self._pools.get(name)
        if pool is None:
            return _error(404, "ResourceNotFoundException")
        if len(payload) > PAYLOAD_BYTES:
            return _error(413, "RequestTooLargeException")
        if pool.function.tenants != bool(tenant):
            return _error(400, "InvalidParameterValueException")
        environment = pool.take(tenant)
        if environment is None:
            return _error(429, "TooManyRequestsException")
        self.invocations[name] += 1
        broken = True
        try:
            headers = {_TENANT: tenant} if tenant else {}
            answer = httpx.post(
                environment.address + _EMULATOR_PATH, content=payload, headers=headers, timeout=_WAIT_S, trust_env=False
            )
            broken = answer.status_code != 200
        except httpx.HTTPError:
            return 200, {"X-Amz-Function-Error": "Unhandled"}, b'{"errorType":"Runtime.ExitError"}'
        finally:
            pool.give_back(environment, broken=broken)
        if len(answer.content) > PAYLOAD_BYTES:
            return 200, {"X-Amz-Function-Error": "Unhandled"}, b'{"errorType":"Function.ResponseSizeTooLarge"}'
        return answer.status_code, _passed(answer), answer.content


def _passed(answer: httpx.Response) -> dict[str, str]:
    """The emulator has no header for a function's error; its shape tells."""
    try:
        body = json.loads(answer.content)
    except ValueError:
        return {}
    failed = isinstance(body, dict) and "errorType" in body and "errorMessage" in body
    return {"X-Amz-Function-Error": "Unhandled"} if failed else {}


def _error(status: int, kind: str) -> tuple[int, dict[str, str], bytes]:
    body = json.dumps({"Type": "User", "message": kind}).encode()
    return status, {"x-amzn-ErrorType": kind, "Content-Type": "application/json"}, body


def _handler(lambdas: Lambdas) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            payload = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            name = unquote(self.path.removeprefix(_PATH).partition("/")[0]).rpartition("function:")[2].partition(":")[0]
            kind = self.headers.get("X-Amz-Invocation-Type", "RequestResponse")
            if kind == "Event":
                threading.Thread(target=lambdas.invoke, args=(name, payload), daemon=True).start()
                status, headers, body = 202, dict[str, str](), b""
            else:
                status, headers, body = lambdas.invoke(name, payload, self.headers.get(_TENANT, ""))
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Events hold callers' data: nothing of them is printed."""

    return Handler
