"""What is in the image, and that the image itself starts as Lambda starts it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import tools
from tests.e2e.environments import free_port
from tests.image import engine
from tests.sandbox.emulator import PROJECT

MOST_BYTES = 4_000_000_000


@pytest.fixture(scope="module", name="name")
def _name() -> str:
    """The engine that has the image."""
    found = engine.find()
    assert found is not None, f"no image {engine.TAG}: make image"
    return found


@pytest.fixture(scope="module", name="root")
def _root(name: str) -> Iterator[Path]:
    """The image's root as a folder."""
    if given := os.environ.get("TEST_IMAGE_ROOT"):
        yield Path(given)
        return
    with engine.mounted(name) as root:
        yield root


def test_it_is_smaller_than_its_limit_and_started_as_lambda_starts_it(name: str) -> None:
    said = engine.described(name)
    config = said["Config"]
    assert said["Size"] < MOST_BYTES
    assert (config["Entrypoint"], config["Cmd"]) == (
        ["/usr/bin/python3", "-m", "awslambdaric"],
        ["functions.sandbox.app.handler"],
    )
    assert config["User"] == "993:993"
    assert not config.get("ExposedPorts")
    assert not config.get("Volumes")
    assert "WORKROOM_ALONE=1" in config["Env"]


def test_nothing_in_it_lends_powers_or_can_be_written_by_others(root: Path) -> None:
    found = []
    for folder, folders, files in os.walk(root):
        if folder == str(root):
            folders[:] = [name for name in folders if name not in ("dev", "proc", "sys")]  # the engine's own
        for entry in (*folders, *files):
            path = Path(folder) / entry
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                continue
            if mode & (stat.S_ISUID | stat.S_ISGID) and stat.S_ISREG(mode):
                found.append(f"{path.relative_to(root)}: lends powers")
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                found.append(f"{path.relative_to(root)}: anybody writes")
    assert found == []


def test_nothing_of_the_machine_that_built_it_is_left(root: Path) -> None:
    for name in ("etc/apt/sources.list", "etc/apt/sources.list.d", "var/lib/apt/lists", "var/cache/apt", "media"):
        path = root / name
        files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
        assert [found.name for found in files if found.stat().st_size] == [], name
    text = "".join(path.read_text() for path in (root / "etc/apt/apt.conf.d").iterdir())
    assert "CAInfo" not in text
    assert "roxy" not in text
    for name in (".npmrc", "root/.npmrc", "etc/pip.conf", "root/.config/pip/pip.conf", ".workroom-build", "build"):
        assert not (root / name).exists(), name
    assert list((root / "root").iterdir()) == []


def test_the_workspace_and_our_code_are_where_they_belong(root: Path) -> None:
    links = {name: os.readlink(root / name) for name in ("mnt/data", "workspace", "program")}
    assert links == {"mnt/data": "/tmp/.workspace", "workspace": "/tmp/.workspace", "program": "/tmp/program"}
    jail = root / "usr/libexec/workroom/jail"
    assert stat.S_IMODE(jail.stat().st_mode) == 0o755
    for name in ("functions/sandbox", "sandbox_image/runner"):
        ours = {path.name: path.read_bytes() for path in (PROJECT / name).glob("*.py")}
        theirs = {path.name: path.read_bytes() for path in (root / "opt/workroom" / name).glob("*.py")}
        assert theirs == ours, "the image is not of this code: make image"
    held = list((root / "opt/workroom").rglob("*.py"))
    assert not any(re.search(rb"\bimport boto", path.read_bytes()) for path in held)


@contextlib.contextmanager
def _started(name: str) -> Iterator[str]:
    """A container of the image behind the emulator, with no powers and nothing to write but /tmp: its address."""
    port = free_port()
    label = f"workroom-test-{secrets.token_hex(6)}"
    options = engine.runtime() if name == "podman" else []
    command = [
        name, *options, "run", "--rm", "--name", label, "--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp",
        "--cap-drop", "all", "--user", "993:993", "--network", "host", "--ulimit", "nofile=1024:1024",
        "--ulimit", "nproc=1024:1024", "--volume", f"{tools.emulator()}:/opt/rie:ro", "--entrypoint", "/opt/rie",
        "--env", "AWS_LAMBDA_FUNCTION_TIMEOUT=60", "--env", "AWS_LAMBDA_FUNCTION_NAME=function", engine.TAG,
        "--runtime-interface-emulator-address", f"127.0.0.1:{port}", "--runtime-api-address",
        f"127.0.0.1:{free_port()}", "/usr/bin/python3", "-m", "awslambdaric", "functions.sandbox.app.handler",
    ]  # fmt: skip
    if name == "docker":
        command.remove("--read-only-tmpfs=false")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 60
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    httpx.get(url, timeout=1, trust_env=False)
                    break
                assert process.poll() is None, (log.seek(0), log.read())
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield url
        finally:
            subprocess.run([name, "rm", "-f", label], capture_output=True, timeout=60, check=False)
            process.wait(60)


@pytest.mark.skipif(not shutil.which("runc") and not shutil.which("docker"), reason="no engine runs containers here")
def test_a_container_of_it_answers_as_the_function(name: str) -> None:
    with _started(name) as url:
        answer = httpx.post(
            f"{url}/2015-03-31/functions/function/invocations", content=json.dumps({"op": "health"}),
            headers={"X-Amz-Tenant-Id": "t"}, timeout=90, trust_env=False,
        )  # fmt: skip
        health: dict[str, Any] = answer.json()["health"]
    assert health["trouble"] == ""
    assert [lang for lang, row in health["languages"].items() if not row["present"]] == []
    assert len(health["languages"]) == 13
    active = {layer for layer, row in health["layers"].items() if row["active"]}
    assert {"clean", "reap", "memory", "wipe"} <= active
