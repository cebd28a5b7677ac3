"""The container engine of this machine, and the built image as a folder."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TAG = os.environ.get("TEST_IMAGE", "workroom-sandbox")


def find() -> str | None:
    """The engine that has the image: docker or podman."""
    for name in ("docker", "podman"):
        if shutil.which(name) and _ran(name, "image", "inspect", TAG).returncode == 0:
            return name
    return None


def described(engine: str) -> dict[str, Any]:
    """What the engine says of the image."""
    rows: list[dict[str, Any]] = json.loads(_ran(engine, "image", "inspect", TAG).stdout)
    return rows[0]


@contextlib.contextmanager
def mounted(engine: str) -> Iterator[Path]:
    """The image's root, read-only by convention. With docker it is unpacked, which takes its size again."""
    if engine == "podman":
        found = _ran("podman", "image", "mount", TAG)
        assert found.returncode == 0, found.stderr
        try:
            yield Path(found.stdout.strip())
        finally:
            _ran("podman", "image", "unmount", TAG)
        return
    with tempfile.TemporaryDirectory(prefix="workroom-image-") as folder:
        container = _ran(engine, "create", TAG).stdout.strip()
        try:
            export = subprocess.Popen([engine, "export", container], stdout=subprocess.PIPE)
            subprocess.run(["tar", "-x", "-C", folder], stdin=export.stdout, check=True, timeout=600)
            assert export.wait(60) == 0
        finally:
            _ran(engine, "rm", container)
        yield Path(folder)


def runtime() -> list[str]:
    """Options that make podman use runc, which works where cgroups are a hybrid."""
    found = shutil.which("runc")
    return ["--runtime", found] if found else []


def _ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
