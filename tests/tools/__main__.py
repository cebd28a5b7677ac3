"""Make the environments that are missing."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.tools import NAMES, cache, mark, pins, place, ready


def main() -> int:
    """Make each, one after another, under a lock. Exit code 1: one could not be made."""
    missing = [name for name in NAMES if not ready(name)]
    if not missing:
        return 0
    folder = cache() / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in missing:
            if not ready(name) and not _make(name, place(name)):
                return 1
    return 0


def _make(name: str, path: Path) -> bool:
    """Scripts of an environment hold its path, so it is made at its place; it counts once its mark is there."""
    print(f"setup: {name} into {path} (the suites' own tool)", flush=True)
    begun = time.monotonic()
    shutil.rmtree(path, ignore_errors=True)
    commands = (
        [sys.executable, "-m", "venv", "--without-pip", str(path)],
        [sys.executable, "-m", "pip", "--python", str(path), "install", "-qq", "--no-compile", "--no-deps",
         "--disable-pip-version-check", "-r", str(pins(name))],
    )  # fmt: skip
    for command in commands:
        if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode != 0:
            shutil.rmtree(path, ignore_errors=True)
            print(f"setup: {name} could not be installed", file=sys.stderr)
            return False
    mark(path).touch()
    print(f"setup: {name}: {time.monotonic() - begun:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
