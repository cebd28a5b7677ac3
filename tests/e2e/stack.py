"""Workroom as it is deployed, on one machine: the template in the emulator, each function behind Lambda's own runtime.

    client ── HTTP ──> front ── event ──> api ── DynamoDB, S3, SQS ──> ministack
                                           └──── Invoke(TenantId) ──> sandbox, in the toolchain root, as on Lambda

The functions' settings are what the template gives them. Only the addresses of AWS itself are replaced.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.deploy import Deployed, deploy, handlers
from tests.e2e.environments import python_environment
from tests.e2e.lambdas import Function, Lambdas
from tests.faults.proxy import Proxy
from tests.gateway.front import Environments, gateway
from tests.ministack import Ministack, ministack
from tests.sandbox import emulator

_SECONDS = 900
_MOST = {"ApiFunction": 6, "SandboxFunction": 5, "DirectFunction": 2, "WorkerFunction": 2, "JanitorFunction": 1}


@dataclass(frozen=True)
class Stack:
    """The deployed service.

    `url` is the HTTP API's address here, `folder` holds what the functions printed. Between the functions and the
    stores stands `proxy`, which counts their requests and can lose them.
    """

    url: str
    proxy: Proxy
    emulator: Ministack
    deployed: Deployed
    lambdas: Lambdas
    folder: Path

    def invoke(self, function: str, event: Any) -> Any:
        """Invoke a function by its logical id; what it answers. Errors: AssertionError where it failed."""
        name = self.deployed.names[function]
        status, headers, body = self.lambdas.invoke(name, json.dumps(event).encode())
        assert status == 200, (status, body)
        assert "X-Amz-Function-Error" not in headers, body
        return json.loads(body)

    def operator(self) -> dict[str, str]:
        """The environment of an operator's commands, as the output `MakeFirstKey` gives it."""
        words = self.deployed.outputs["MakeFirstKey"].split()
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WORKROOM_")}
        return {**kept, **self.emulator.environment(), **settings}

    def make_key(self, project: str, *options: str) -> str:
        """A key of a project, made by the command that the stack's output names."""
        made = subprocess.run(
            [str(Path(sys.executable).with_name("workroom")), "keys", "create", "--project", project, *options],
            env=self.operator(), capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return made.stdout.strip()

    def serve(self, *arguments: str) -> AbstractContextManager[str]:
        """`workroom serve` on a machine of one's own, in front of the deployment: its address."""
        names = ("TABLE", "BUCKET", "EXECUTOR_FUNCTION", "QUEUE_URL", "ISOLATION", "RUN_MS", "MEMORY_MIB")
        given = self.deployed.environments["StreamFunction"]
        settings = {f"WORKROOM_{name}": given[f"WORKROOM_{name}"] for name in names} | {"WORKROOM_PORT": "0"}
        lambdas = {"AWS_ENDPOINT_URL_LAMBDA": self.lambdas.address}
        return _served(arguments, {**self.operator(), **settings, **lambdas}, self.folder / "serve")

    def log(self, function: str) -> str:
        """All that a function's environments printed."""
        path = self.folder / function
        return path.read_text("utf-8", "replace") if path.exists() else ""


@contextmanager
def running(
    parameters: Mapping[str, str] | None = None, config: emulator.Config = emulator.LIKE_LAMBDA
) -> Iterator[Stack]:
    """Deploy and serve while the context lasts. `parameters` are the template's."""
    folder = Path(tempfile.mkdtemp(prefix="workroom-e2e-"))
    names: dict[str, Callable[[], AbstractContextManager[str]]] = {}
    try:
        with ministack() as aws, Proxy(aws.endpoint) as proxy:
            lambdas = Lambdas()
            deployed = deploy(aws, lambdas.address, dict(parameters or {}))
            for logical, handler in handlers().items():
                environ = {
                    **deployed.environments[logical],
                    **aws.environment(),
                    "AWS_ENDPOINT_URL": proxy.endpoint,
                    "AWS_ENDPOINT_URL_LAMBDA": lambdas.address,
                }
                names[logical] = partial(
                    python_environment, deployed.names[logical], handler, environ, seconds=_SECONDS,
                    log=folder / logical,
                )  # fmt: skip
            names["SandboxFunction"] = partial(emulator.address, config, **deployed.environments["SandboxFunction"])
            for logical, start in names.items():
                lambdas.add(
                    Function(
                        deployed.names[logical], start, _MOST.get(logical, 1), tenants=logical == "SandboxFunction"
                    )
                )
            api = deployed.names["ApiFunction"]
            with (
                lambdas.serving(),
                gateway("http-api", Environments(lambda: partial(_call, lambdas, api))) as (host, port),
            ):
                yield Stack(f"http://{host}:{port}", proxy, aws, deployed, lambdas, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _call(lambdas: Lambdas, name: str, event: Any, _context: Any) -> dict[str, Any]:
    """The HTTP API's integration: what it cannot read of a function is a 500, as there."""
    status, headers, body = lambdas.invoke(name, json.dumps(event).encode())
    if status == 429:
        return {"statusCode": 503, "headers": {}, "body": '{"message":"Service Unavailable"}', "isBase64Encoded": False}
    if status != 200 or "X-Amz-Function-Error" in headers:
        return {
            "statusCode": 500, "headers": {}, "body": '{"message":"Internal Server Error"}', "isBase64Encoded": False,
        }  # fmt: skip
    answer: dict[str, Any] = json.loads(body)
    return answer


@contextmanager
def _served(arguments: tuple[str, ...], env: Mapping[str, str], log: Path) -> Iterator[str]:
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("workroom")), "serve", *arguments],
            env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 40
        while not (found := re.search(r"^Workroom is ready: (http://\S+)$", log.read_text(), re.MULTILINE)):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield found[1]
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
