"""An AWS emulator for a suite: started on a free loopback port, ended by its process id.

    with ministack() as aws:                  # one of its own
    aws = shared()                            # the one of this process (one per pytest-xdist worker), ended at exit
    open_aws(aws.clients(), aws.table(), aws.bucket())
    subprocess.run(…, env={**os.environ, **aws.environment()})

Nothing outlives the process: all state is in the emulator's memory.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import boto3

from shared.store.aws import Clients, make_clients
from tests import tools

REGION = "eu-central-1"
ACCESS_KEY = "test"
SECRET_KEY = "test"
TABLE = "workroom"
BUCKET = "workroom"
START_SECONDS = 30.0
_ENDPOINT = "TEST_MINISTACK"


@dataclass(frozen=True, slots=True)
class Ministack:
    """A running emulator. Its only credentials are ACCESS_KEY and SECRET_KEY, its region is REGION."""

    endpoint: str

    def session(self) -> boto3.Session:
        """A boto3 session with the emulator's credentials."""
        return boto3.Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION)

    def clients(self) -> Clients:
        """Clients of the two stores, the same ones for each caller in this process."""
        return _clients(self.endpoint)

    def environment(self) -> dict[str, str]:
        """What makes boto3 of a child process use the emulator, and `shared` of one find it."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            _ENDPOINT: self.endpoint,
        }

    def table(self, name: str = TABLE) -> str:
        """A table as the template makes it, made where it is missing: its name."""
        db = self.clients().dynamodb
        with contextlib.suppress(db.exceptions.ResourceInUseException):
            db.create_table(
                TableName=name,
                AttributeDefinitions=[
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "S"},
                ],
                KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
                BillingMode="PAY_PER_REQUEST",
            )
        return name

    def bucket(self, name: str = BUCKET) -> str:
        """A bucket, made where it is missing: its name."""
        s3 = self.clients().s3
        with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
            s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        return name


@contextlib.contextmanager
def ministack(environment: Mapping[str, str] | None = None) -> Iterator[Ministack]:
    """Start an emulator, end it by its process id. `environment` adds to its own, such as `AUTH=true`.

    Errors: FileNotFoundError where it is not installed, RuntimeError where it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="ministack-") as folder:
        process, endpoint = _start(Path(folder), environment or {})
        try:
            yield Ministack(endpoint)
        finally:
            _clients.cache_clear()
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


@functools.cache
def shared() -> Ministack:
    """The emulator of this process: its parent's where the environment names one, else one that ends with it."""
    if endpoint := os.environ.get(_ENDPOINT):
        return Ministack(endpoint)
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(ministack())


@functools.lru_cache(maxsize=16)
def _clients(endpoint: str) -> Clients:
    return make_clients(session=Ministack(endpoint).session(), endpoint=endpoint)


def _start(folder: Path, environment: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], str]:
    log = folder / "log"
    for _ in range(5):
        # Another process may take the port between this and the start; then the emulator ends and another is drawn.
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [tools.find("ministack") / "bin" / "ministack"],
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "HOME": str(folder),
                    "TMPDIR": str(folder),
                    "BIND_HOST": "127.0.0.1",
                    "MINISTACK_HOST": "127.0.0.1",
                    "GATEWAY_PORT": str(port),
                    "MINISTACK_REGION": REGION,
                    "S3_DATA_DIR": str(folder / "s3"),
                    "DOCKER_HOST": f"unix://{folder}/none",
                    "LOG_LEVEL": "ERROR",
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        if _ready(process, port):
            return process, f"http://127.0.0.1:{port}"
        process.kill()
        process.wait(5)
    raise RuntimeError(f"the emulator does not start: {log.read_text(errors='replace')[-2000:]}")


def _ready(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether it answers in time, while it lives."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with (
            contextlib.suppress(OSError),
            opener.open(f"http://127.0.0.1:{port}/_ministack/health", timeout=2) as answer,
        ):
            return answer.status == 200 and process.poll() is None
        time.sleep(0.05)
    return False
