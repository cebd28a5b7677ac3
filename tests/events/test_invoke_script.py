"""`events/invoke`: what it makes of its arguments, and what it says where something is missing."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.events.samples import EVENTS

SCRIPT = EVENTS / "invoke"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("events_invoke", str(SCRIPT))
    spec = importlib.util.spec_from_loader("events_invoke", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def said(*args: str, path: str | None = None) -> tuple[int, str]:
    """The script's status and what it says."""
    environ = {**os.environ, "PATH": os.environ["PATH"] if path is None else path}
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), *args], capture_output=True, text=True, timeout=60, check=False, env=environ
    )
    return ran.returncode, ran.stderr


def test_every_folder_of_samples_has_its_function(script: ModuleType) -> None:
    assert set(script.FUNCTIONS) == {path.name for path in EVENTS.iterdir() if path.is_dir()}
    assert script.sample("direct/exec.run") == (EVENTS / "direct" / "exec.run.json", "DirectFunction")
    assert script.sample("sandbox/run")[1] == "SandboxFunction"


def test_placeholders_are_filled_and_one_that_is_left_is_named(script: ModuleType) -> None:
    path, _ = script.sample("direct/files.list")
    made = json.loads(script.filled(path, ["credential=wr_1", "session_id=s"]))
    assert made == {"operation": "files.list", "credential": "wr_1", "input": {"session_id": "s"}}
    with pytest.raises(script.Refused, match="session_id"):
        script.filled(path, ["credential=wr_1"])


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ((), "which event"),
        (("no/such",), "direct/exec.run"),
        (("direct/exec.run",), "credential"),
        (("direct/exec.run", "credential"), "NAME=VALUE"),
    ],
)
def test_what_is_missing_is_said_in_a_line(args: tuple[str, ...], word: str) -> None:
    status, text = said(*args)
    assert (status, text.count("\n")) == (2, 1)
    assert word in text


def test_without_a_container_engine_it_says_what_to_install(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(script, "_answers", lambda place: False)
    monkeypatch.setattr(script.shutil, "which", lambda name: None)
    with pytest.raises(script.Refused, match="podman"), script.engine():
        pass


def test_nothing_is_fetched_and_the_executor_gets_a_tenant(script: ModuleType) -> None:
    line = script.command_line("sam", "SandboxFunction", Path("e.json"))
    assert line[:4] == ["sam", "local", "invoke", "SandboxFunction"]
    assert "--skip-pull-image" in line
    assert line[line.index("--tenant-id") + 1]
    assert "--tenant-id" not in script.command_line("sam", "DirectFunction", Path("e.json"))


def test_where_the_processor_is_another_it_says_what_to_install(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(script.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(script.Path, "exists", lambda self: False)
    script.check_processor("SandboxFunction")
    with pytest.raises(script.Refused, match="arm64"):
        script.check_processor("DirectFunction")
    monkeypatch.setattr(script.platform, "machine", lambda: "aarch64")
    script.check_processor("DirectFunction")
