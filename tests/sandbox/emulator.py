"""`emulated(STRICT | LIKE_LAMBDA)`: the executor function under the Lambda runtime emulator, as an address to invoke.

It speaks the Invoke interface, so a boto3 client with `endpoint_url=….url` and the function name "function" talks to
it, one call at a time: several at once end the emulator. `python -m tests.sandbox.emulator` makes what it needs.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from sandbox_image.locate import build_jail, find_root
from tests import tools

PROJECT: Final = Path(__file__).resolve().parents[2]
UID: Final = 3_000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""An unprivileged user of this test process alone: the limit of processes is a user's, not an environment's."""
CANARIES: Final = {
    "AWS_ACCESS_KEY_ID": "canary-access",
    "AWS_SECRET_ACCESS_KEY": "canary-secret",
    "AWS_SESSION_TOKEN": "canary-session",
}
_PINS = PROJECT / "sandbox_image" / "image" / "requirements.txt"
_PYTHON = "3.13"
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")
_CODE = (
    "functions/__init__.py", "functions/sandbox", "sandbox_image/__init__.py", "sandbox_image/languages.py",
    "sandbox_image/runner", "shared/__init__.py", "shared/executor/__init__.py", "shared/executor/wire.py",
    "shared/executor/filegrant.py",
)  # fmt: skip
_START_S = 30.0


@dataclass(frozen=True, slots=True)
class Config:
    """An environment. `above`, `shm`, `refused`: see tests/sandbox/inside.py."""

    above: bool
    shm: bool
    refused: str
    function_s: int = 60
    uid: int = UID
    settings: Mapping[str, str] = field(default_factory=dict)


STRICT: Final = Config(above=False, shm=True, refused="namespaces")
"""An unprivileged container: namespaces are refused, a filter may be loaded. The emulator has the function's user."""
LIKE_LAMBDA: Final = Config(above=True, shm=False, refused="everything")
"""What is told of Lambda (platform.md, "Inside"): neither namespaces nor no_new_privs nor filters nor Landlock."""


@dataclass(slots=True)
class Emulated:
    """A running emulator. `api` is the port of the runtime interface."""

    url: str
    pid: int
    folder: Path
    http: httpx.Client
    api: int

    def invoke(self, event: Mapping[str, Any], tenant: str | None = "tenant-a") -> dict[str, Any]:
        """One event; its answer, which may be an error of the platform (`errorType`)."""
        headers = {} if tenant is None else {"X-Amz-Tenant-Id": tenant}
        answer = self.http.post(
            f"{self.url}/2015-03-31/functions/function/invocations", content=json.dumps(event), headers=headers
        )
        made: dict[str, Any] = answer.json()
        return made

    def log(self) -> str:
        """What the emulator and the function have written."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def lines(self) -> list[dict[str, Any]]:
        """The lines of the function's own log."""
        found = [line for line in self.log().splitlines() if line.startswith('{"event": "sandbox"')]
        return [json.loads(line) for line in found]


def runtime_client() -> Path:
    """The folder of awslambdaric for the root's Python, made if it is not there."""
    place = tools.cache() / "tools" / f"ric-{_PINS.read_text().split()[0].rpartition('=')[2]}-{_PYTHON}"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.parent / ".ric-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=".ric-") as made:
                target = Path(made) / "opt" / "ric"
                platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
                subprocess.run(
                    [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                     "--only-binary=:all:", "--python-version", _PYTHON, "--implementation", "cp",
                     "--abi", f"cp{_PYTHON.replace('.', '')}", *platforms, "--target", str(target), "-r", str(_PINS)],
                    check=True, stdin=subprocess.DEVNULL, timeout=300,
                )  # fmt: skip
                _compile(Path(made) / "opt")
                os.chmod(made, 0o755)
                os.rename(made, place)
                os.mkdir(made)
    return place


def _compile(folder: Path) -> None:
    """Make the byte code of what will be /opt, by the root's own Python: there it cannot be written."""
    subprocess.run(
        ["bwrap", "--ro-bind", str(find_root(tools.cache())), "/", "--dev", "/dev", "--proc", "/proc",
         "--bind", str(folder), "/mnt/data", "python3", "-m", "compileall", "-q",
         "--invalidation-mode", "unchecked-hash", "-s", "/mnt/data", "-p", "/opt", "/mnt/data"],
        check=True, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip


@functools.cache
def _code() -> Path:
    """The part of a root that is ours: the function, the jail, the emulator, and the links of the image.

    Made once in a process, gone with it.
    """
    folder = Path(tempfile.mkdtemp(prefix="workroom-function-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    top = folder / "top"
    top.mkdir(mode=0o755)
    for name in _CODE:
        source, target = PROJECT / name, top / "opt" / "workroom" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    _compile(top / "opt")
    jail = top / "usr" / "libexec" / "workroom" / "jail"
    jail.parent.mkdir(parents=True)
    shutil.copy(build_jail(tools.cache()), jail)
    jail.chmod(0o755)
    shutil.copy(tools.emulator(), top / "opt" / "rie")
    (top / "opt" / "rie").chmod(0o755)
    (top / "mnt").mkdir()
    for name in ("mnt/data", "workspace"):
        (top / name).symlink_to("/tmp/.workspace")
    (top / "program").symlink_to("/tmp/program")
    for path in [path for path in top.rglob("*") if path.is_dir() and not path.is_symlink()]:
        path.chmod(0o755)
    return top


@functools.cache
def _emulator_alone() -> Path:
    """The emulator as a folder to put over the root of an image."""
    folder = Path(tempfile.mkdtemp(prefix="workroom-emulator-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "opt").mkdir(mode=0o755)
    shutil.copy(tools.emulator(), folder / "opt" / "rie")
    for path in (folder, folder / "opt", folder / "opt" / "rie"):
        path.chmod(0o755)
    return folder


def _lowers() -> list[str]:
    """The folders of the root: the mounted image that TEST_IMAGE_ROOT names, else the toolchains and our code."""
    if image := os.environ.get("TEST_IMAGE_ROOT"):
        return [str(_emulator_alone()), image]
    return [str(_code()), str(runtime_client()), str(find_root(tools.cache()))]


@contextlib.contextmanager
def emulated(config: Config, **settings: str) -> Iterator[Emulated]:
    """Start it, end it by its process id. `settings` are added to the function's environment."""
    folder = Path(tempfile.mkdtemp(prefix="workroom-rie-"))
    (folder / "root").mkdir()
    port, api = _free(), _free()
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": "/opt/runtime:/opt/ric:/opt/workroom",
        "PYTHONDONTWRITEBYTECODE": "1", "WORKROOM_ALONE": "1", "AWS_LAMBDA_FUNCTION_NAME": "function",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(config.function_s), "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
        "AWS_REGION": "eu-central-1", **CANARIES, **config.settings, **settings,
    }  # fmt: skip
    how = {
        "lowers": _lowers(),
        "place": str(folder / "root"),
        "tmp_bytes": 1 << 30,
        "shm": config.shm,
        "uid": config.uid,
        "above": config.above,
        "refused": config.refused,
        "command": ["/opt/rie", "--runtime-interface-emulator-address", f"127.0.0.1:{port}",
                    "--runtime-api-address", f"127.0.0.1:{api}"],
        "runtime": ["/usr/bin/python3", "-m", "awslambdaric", "functions.sandbox.app.handler"],
        "env": env,
    }  # fmt: skip
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.inside", json.dumps(how)],
            cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        with httpx.Client(timeout=config.function_s + 30, trust_env=False) as http:
            made = Emulated(f"http://127.0.0.1:{port}", process.pid, folder, http, api)
            _wait(process, port, made)
            yield made
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def address(config: Config = LIKE_LAMBDA, **settings: str) -> Iterator[str]:
    """The same as an address alone."""
    with emulated(config, **settings) as made:
        yield made.url


def _wait(process: subprocess.Popen[bytes], port: int, made: Emulated) -> None:
    until = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert process.poll() is None, made.log()
        assert time.monotonic() < until, made.log()
        time.sleep(0.01)


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


if __name__ == "__main__":
    print(runtime_client())
