"""The Lambda executor in front of an emulated environment, with objects that both reach, for the tests beside this."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config as ClientConfig

from shared.executor.aws import LambdaExecutor
from shared.executor.port import ExecutorFailed
from shared.executor.wire import RunRequest
from tests.adversarial.runner_helpers import Bench
from tests.sandbox.emulator import LIKE_LAMBDA, STRICT, Config, Emulated, emulated
from tests.sandbox.shelf import Shelf, shelf

CONFIGS = {"strict": STRICT, "like lambda": LIKE_LAMBDA, "root": replace(STRICT, uid=0)}
"""The third: root of a container, as `sam local` has it."""
TENANT = "tenant-a"


class Room(Bench):
    """A bench whose runs go through Invoke, as one tenant."""

    def __init__(self, executor: LambdaExecutor, objects: Shelf, function: Emulated, name: str) -> None:
        super().__init__(executor, objects)  # type: ignore[arg-type]
        self.function = function
        self.shelf = objects
        self.name = name
        self.filtered = name == "strict"

    def request(self, lang: str, code: str, session: str = "", **how: Any) -> RunRequest:
        """As Bench.request, of a tenant."""
        tenant = how.pop("tenant", TENANT)
        return replace(super().request(lang, code, session, **how), tenant=tenant)

    def failure(self, lang: str, code: str, session: str = "", **how: Any) -> ExecutorFailed:
        """The failure of a run that must have one."""
        try:
            answer = self.run(lang, code, session, **how)
        except ExecutorFailed as failed:
            return failed
        raise AssertionError(f"it answered: {answer}")

    def health(self) -> dict[str, Any]:
        """What the environment says of itself."""
        said: dict[str, Any] = self.function.invoke({"op": "health"}, TENANT)["health"]
        return said


Start = Callable[..., contextlib.AbstractContextManager[Emulated]]
"""`emulated`, or what makes the same environment by other means: called with a Config and settings."""


@contextlib.contextmanager
def room(name: str, start: Start = emulated, **settings: str) -> Iterator[Room]:
    """An environment of a configuration, with settings of its own."""
    function_s = int(settings.pop("function_s", "60"))
    with tempfile.TemporaryDirectory(prefix="workroom-shelf-") as folder, shelf(Path(folder)) as objects:
        config: Config = replace(CONFIGS[name], function_s=function_s)
        with start(config, **settings) as function:
            client = boto3.client(
                "lambda", region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b",
                endpoint_url=function.url,
                config=ClientConfig(retries={"total_max_attempts": 1}, read_timeout=function_s + 20),
            )  # fmt: skip
            executor = LambdaExecutor(client, "function", objects)
            try:
                yield Room(executor, objects, function, name)
            finally:
                executor.close()
