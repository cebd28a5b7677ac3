"""Tools of the suites that need a Python environment of their own: their pins clash with ours and with each other.

    ministack   an AWS emulator: DynamoDB, S3, SQS, EventBridge, API Gateway on one loopback port
    sam         `sam`, `cfn-lint`, and the Lambda runtime emulator that comes with it

`python -m tests.tools` makes what is missing; `make setup` calls it. An environment is named after its pins, counts
as made once its mark is there.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

NAMES = ("ministack", "sam")


def cache() -> Path:
    """The machine's cache."""
    return Path(os.environ.get("WORKROOM_CACHE") or "/var/cache/workroom")


def pins(name: str) -> Path:
    """The pinned requirements of a tool."""
    return Path(__file__).with_name(f"{name}.txt")


def place(name: str) -> Path:
    """Where the environment of a tool lies, or will."""
    return cache() / "tools" / f"{name}-{hashlib.sha256(pins(name).read_bytes()).hexdigest()[:12]}"


def mark(path: Path) -> Path:
    """The file that says that an environment is whole."""
    return path / ".whole"


def ready(name: str) -> bool:
    """Whether a tool is installed."""
    return mark(place(name)).exists()


def find(name: str) -> Path:
    """The environment of a tool. Errors: FileNotFoundError, which says what makes it."""
    if not ready(name):
        raise FileNotFoundError(f"the tool {name} is not installed: make setup")
    return place(name)


def emulator() -> Path:
    """The Lambda runtime emulator. Errors: FileNotFoundError."""
    found = sorted(find("sam").glob("lib/python3*/site-packages/samcli/local/rapid/aws-lambda-rie-x86_64"))
    if not found:
        raise FileNotFoundError("the Lambda runtime emulator is not installed: make setup")
    return found[0]
