"""`events/invoke`: what it makes of its arguments, and what it says where something is missing."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

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
    line = script.command_line("sam", "SandboxFunction", Path("t.yaml"), Path("e.json"))
    assert line[:4] == ["sam", "local", "invoke", "SandboxFunction"]
    assert line[line.index("--template") + 1] == "t.yaml"
    assert "--skip-pull-image" in line
    assert line[line.index("--tenant-id") + 1]
    assert "--tenant-id" not in script.command_line("sam", "DirectFunction", Path("t.yaml"), Path("e.json"))


def test_a_function_that_is_not_built_is_not_invoked(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "PROJECT", tmp_path)
    for function in ("DirectFunction", "SandboxFunction"):
        with pytest.raises(script.Refused, match=f"sam build {function}"):
            script.template(function)
    built = tmp_path / ".build" / "sam"
    (built / "DirectFunction").mkdir(parents=True)
    (built / "template.yaml").write_text("Resources: {}")
    assert script.template("DirectFunction") == script.template("SandboxFunction") == built / "template.yaml"
    with pytest.raises(script.Refused, match="JanitorFunction"):
        script.template("JanitorFunction")


def test_the_build_folder_is_the_one_of_samconfig(script: ModuleType) -> None:
    config = tomllib.loads((script.PROJECT / "samconfig.toml").read_text("utf-8"))
    assert config["default"]["build"]["parameters"]["build_dir"] == script.BUILDS[0]


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


def test_settings_of_this_environment_replace_the_template_s_and_no_other_reaches_the_function(
    script: ModuleType, tmp_path: Path
) -> None:
    made = tmp_path / "template.yaml"
    variables = {"WORKROOM_TABLE": {"Ref": "Table"}, "WORKROOM_STORE": "aws"}
    tree = {"Resources": {"DirectFunction": {"Properties": {"Environment": {"Variables": variables}}}}}
    made.write_text(yaml.safe_dump(tree))
    environ = {"WORKROOM_TABLE": "t", "WORKROOM_CACHE": "/c", "AWS_ENDPOINT_URL_S3": "http://e", "HOME": "/h"}
    local = script.with_settings(made, "DirectFunction", environ)
    assert local.parent == made.parent
    found = yaml.safe_load(local.read_text())["Resources"]["DirectFunction"]["Properties"]["Environment"]["Variables"]
    assert found == {"WORKROOM_TABLE": "t", "WORKROOM_STORE": "aws", "AWS_ENDPOINT_URL_S3": "http://e"}
    assert yaml.safe_load(made.read_text()) == tree
