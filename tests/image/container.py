"""`contained(STRICT | LIKE_LAMBDA)`: a container of the image behind the runtime emulator, as an address to invoke.

The same two environments as tests/sandbox/emulator.py, made by the container engine and with the image's own layers:
nothing can be written but /tmp (and what the engine puts at /dev/shm), no capability reaches the function, name spaces
are refused. In the second the emulator is above the function's user, and a profile also refuses filters,
no_new_privs and Landlock.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx

from tests import tools
from tests.e2e.environments import free_port
from tests.image import engine
from tests.sandbox.emulator import CANARIES, Config, Emulated

_START_S: Final = 60.0
_RUNTIME: Final = ("/usr/bin/python3", "-m", "awslambdaric", "functions.sandbox.app.handler")
_PRIVILEGED: Final = ("seccomp", "unshare", "setns", "mount", "umount2", "chroot", "pivot_root", "ptrace")
_UNKNOWN: Final = (
    "clone3", "close_range", "pidfd_open", "pidfd_send_signal",
    "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
)  # fmt: skip
_EPERM, _ENOSYS = 1, 38
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_NEW: Final = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""


def profile() -> dict[str, Any]:
    """The engine's profile of an environment like Lambda's (platform.md, "Inside")."""

    def refuse(names: tuple[str, ...], error: int, *when: dict[str, Any]) -> dict[str, Any]:
        return {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": error, "args": list(when)}

    def equal(value: int) -> dict[str, Any]:
        return {"index": 0, "value": value, "op": "SCMP_CMP_EQ"}

    def has(bit: int) -> dict[str, Any]:
        return {"index": 0, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}

    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [
            refuse(_PRIVILEGED, _EPERM),
            refuse(_UNKNOWN, _ENOSYS),
            *(refuse(("prctl",), _EPERM, equal(option)) for option in (_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS)),
            *(refuse(("clone",), _EPERM, has(bit)) for bit in _NEW),
        ],
    }


@contextlib.contextmanager
def contained(config: Config, **settings: str) -> Iterator[Emulated]:
    """Start it, end it by its name. `settings` are added to the function's environment."""
    name = engine.find()
    assert name is not None, f"there is no image {engine.TAG}: make image"
    folder = Path(tempfile.mkdtemp(prefix="workroom-container-"))
    label = f"workroom-test-{secrets.token_hex(6)}"
    port, api = free_port(), free_port()
    env = {
        "AWS_LAMBDA_FUNCTION_NAME": "function", "AWS_LAMBDA_FUNCTION_TIMEOUT": str(config.function_s),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769", "AWS_REGION": "eu-central-1",
        **CANARIES, **config.settings, **settings,
    }  # fmt: skip
    command = [name, *(engine.runtime() if name == "podman" else []), "run", "--rm", "--name", label, *_options(config)]
    command += [] if name == "docker" else ["--read-only-tmpfs=false"]
    if config.refused == "everything":
        (folder / "profile").write_text(json.dumps(profile()))
        command += ["--security-opt", f"seccomp={folder / 'profile'}"]
    for key, value in env.items():
        command += ["--env", f"{key}={value}"]
    command += [
        "--volume", f"{tools.emulator()}:/opt/rie:ro", "--entrypoint", "/opt/rie", engine.TAG,
        "--runtime-interface-emulator-address", f"127.0.0.1:{port}", "--runtime-api-address", f"127.0.0.1:{api}",
    ]  # fmt: skip
    if config.above:
        user = str(config.uid)
        command += ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--bounding-set=-all"]
    command += _RUNTIME
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        with httpx.Client(timeout=config.function_s + 30, trust_env=False) as http:
            _wait(process, port, folder)
            yield Emulated(f"http://127.0.0.1:{port}", _first(name, label), folder, http, api)
    finally:
        subprocess.run([name, "kill", label], capture_output=True, timeout=60, check=False)
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _options(config: Config) -> list[str]:
    """User, powers and places. The host's network: the tests' objects listen on 127.0.0.1."""
    options = [
        "--read-only", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=1g,mode=1777", "--cap-drop", "all",
        "--network", "host", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
    ]  # fmt: skip
    if not config.shm:
        options += ["--ipc", "none"]
    if not config.above:
        return [*options, "--user", f"{config.uid}:{config.uid}"]
    # The emulator becomes the function's user for it, and ends it.
    powers = [word for power in ("SETUID", "SETGID", "SETPCAP", "KILL") for word in ("--cap-add", power)]
    return [*options, "--user", "0:0", *powers]


def _first(name: str, label: str) -> int:
    """The container's first process, as the machine numbers it."""
    asked = [name, "inspect", "--format", "{{.State.Pid}}", label]
    return int(subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout)


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    until = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert process.poll() is None, (folder / "log").read_text("utf-8", "replace")
        assert time.monotonic() < until, (folder / "log").read_text("utf-8", "replace")
        time.sleep(0.05)
