"""Files and the Environment, by row (agents.md 2, 3.3, 11.4, 11.5, 11.16, 11.34, 11.39)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from openai.types.beta.agents.environment_info import EnvironmentInfo
from openai.types.beta.environment import EnvironmentResourceOpenAIHosted, EnvironmentResourceSelfHosted

from shared.operations.agents.requests.environment import (
    environment_info,
    file_entries,
    read_environment,
    session_environment,
)
from shared.operations.agents.requests.file_create import read_file_create
from shared.operations.agents.requests.files import FileRequest
from tests.unit.agents_requests.refusing import expect_local, expect_refused

MIB = 1024 * 1024
ABSOLUTE = "environment.files[{}].path must be an absolute POSIX path inside /workspace"
COMPONENTS = "environment.files[{}].path cannot contain empty, . or .. path components"
GOOD: dict[str, Any] = {"type": "inline", "data": "YQ==", "path": "/workspace/a"}
BIG = base64.b64encode(bytes(5 * MIB + 1)).decode()


def inline(path: str, data: str = "") -> dict[str, Any]:
    return {"type": "inline", "data": data, "path": f"/workspace/{path}"}


def hosted(**members: Any) -> dict[str, Any]:
    return {"type": "openai_hosted", **members}


@pytest.mark.parametrize(
    ("body", "file"),
    [
        (GOOD, FileRequest("a", b"a")),
        (inline("d/ü"), FileRequest("d/ü", b"")),
        (inline("a", "+/+/"), FileRequest("a", b"\xfb\xff\xbf")),
        (inline("a", base64.b64encode(bytes(5 * MIB)).decode()), FileRequest("a", bytes(5 * MIB))),
        ({"type": "file_id", "file_id": "?", "path": "/workspace/a"}, FileRequest("a", file_id="?")),
    ],
    ids=range(5),
)
def test_a_file_is_read(body: dict[str, Any], file: FileRequest) -> None:
    assert read_file_create(body) == file


ROW_5: list[dict[str, Any]] = [
    {}, {"type": "inline"}, {**GOOD, "type": "zip"}, {**GOOD, "type": None}, {**GOOD, "data": None},
    {**GOOD, "data": 1}, {**GOOD, "path": None}, {**GOOD, "path": []}, {**GOOD, "file_id": "f"},
    {**GOOD, "file_id": None}, {"type": "file_id", "file_id": "", "path": "/workspace/a"},
    {"type": "file_id", "file_id": "f", "data": "", "path": "/workspace/a"}, {**GOOD, "type": "file_id"},
]  # fmt: skip
ROW_7 = ["YQ", "YQ=", "YQ==\n", "Y Q=", " YQ==", "YR==", "-_-_", "YQ==YQ==", "ä===", "=", "YQ=a", "YWJjZ"]


@pytest.mark.parametrize("body", ROW_5 + [inline("a", data) for data in ROW_7], ids=str)
def test_rows_5_and_7(body: dict[str, Any]) -> None:
    expect_local(lambda: read_file_create(body))


ROWS: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("4", {**GOOD, "x": 1, "y": 1}, "Unknown parameter: 'x'.", "x"),
    ("4 long", {**GOOD, "x" * 257: 1}, "Unknown parameter.", None),
    ("4 unprintable", {**GOOD, "a\tb": 1}, "Unknown parameter.", None),
    ("4 before 5", {"x": None}, "Unknown parameter: 'x'.", "x"),
    ("4 before 6", {**GOOD, "path": "a", "x": 1}, "Unknown parameter: 'x'.", "x"),
    ("6a", {**GOOD, "path": ""}, ABSOLUTE.format(0), None),
    ("6a", {**GOOD, "path": "a/../b"}, ABSOLUTE.format(0), None),
    ("6b", {**GOOD, "path": "/tmp//x"}, COMPONENTS.format(0), None),
    ("6b", {**GOOD, "path": "/workspace/a/"}, COMPONENTS.format(0), None),
    ("6c", {**GOOD, "path": "/workspace"}, ABSOLUTE.format(0), None),
    ("6c", {**GOOD, "path": "/etc/x"}, ABSOLUTE.format(0), None),
    ("6c", {**GOOD, "path": "/workspace/a\\b"}, ABSOLUTE.format(0), None),
    ("6 before 7", {**GOOD, "path": "/workspace", "data": "!"}, ABSOLUTE.format(0), None),
    ("8", {**GOOD, "data": BIG}, "environment.files[0].data exceeds the 5 MiB decoded limit", None),
]


@pytest.mark.parametrize(("body", "message", "param"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_rows_4_to_8(body: dict[str, Any], message: str, param: str | None) -> None:
    expect_refused(lambda: read_file_create(body), message, param)


def test_5_comes_before_6_and_7_before_8() -> None:
    expect_local(lambda: read_file_create({**GOOD, "path": "a", "data": None}))
    expect_local(lambda: read_file_create({**GOOD, "data": BIG[:-4] + "!A=="}))


def kinds(path: str, expected: str, got: str) -> tuple[str, str]:
    return f"Invalid type for '{path}': expected {expected}, but got {got} instead.", path


def no(path: str) -> tuple[str, str]:
    return f"Unsupported parameter: '{path}'.", path


def odd(path: str) -> tuple[str, str]:
    return f"Unknown parameter: '{path}'.", path


def bad(path: str, why: str) -> tuple[str, str]:
    return f"Invalid value for '{path}': {why}", path


SHARED_NETWORK = "Unsupported value for 'environment.network.access': only 'disabled' is available."
ENVIRONMENTS: list[tuple[Any, tuple[str, str | None]]] = [
    (1, kinds("environment", "an object", "an integer")),
    ({"files": []}, ("Missing required parameter: 'environment.type'.", "environment.type")),
    ({"type": "vm"}, bad("environment.type", "expected one of 'none', 'openai_hosted', 'self_hosted'.")),
    ({"type": "none", "files": []}, odd("environment.files")),
    ({"type": "none", "id": "x"}, odd("environment.id")),
    ({"type": "self_hosted"}, ("Missing required parameter: 'environment.workspace_directory'.",
                               "environment.workspace_directory")),
    ({"type": "self_hosted", "workspace_directory": "w"},
     bad("environment.workspace_directory", "expected an absolute POSIX path.")),
    ({"type": "self_hosted", "workspace_directory": "/w", "env": {}}, odd("environment.env")),
    ({"type": "self_hosted", "workspace_directory": "/w", "capability_directories": ["/x"]},
     no("environment.capability_directories")),
    (hosted(workspace_directory="/w"), odd("environment.workspace_directory")),
    (hosted(capability_directories=["/x"]), no("environment.capability_directories")),
    (hosted(container_size="large"), no("environment.container_size")),
    (hosted(desktop={"enabled": True}), no("environment.desktop")),
    (hosted(desktop={"enabled": 0}), no("environment.desktop")),
    (hosted(environment_id="env_1"), no("environment.environment_id")),
    (hosted(environment_template_id="t"), no("environment.environment_template_id")),
    (hosted(plugins=[{}]), no("environment.plugins")),
    (hosted(skills=[{}]), no("environment.skills")),
    (hosted(packages={"python": ["x"]}), no("environment.packages.python")),
    (hosted(packages={"gem": []}), odd("environment.packages.gem")),
    (hosted(network={"access": "enabled"}), (SHARED_NETWORK, "environment.network.access")),
    (hosted(network={"access": "restricted"}), (SHARED_NETWORK, "environment.network.access")),
    (hosted(network={"allowed_domains": []}), ("Missing required parameter: 'environment.network.access'.",
                                               "environment.network.access")),
    (hosted(network={"access": "disabled", "allowed_domains": ["a"]}), no("environment.network.allowed_domains")),
    (hosted(network={"access": "disabled", "blocked_domains": ["a"]}), no("environment.network.blocked_domains")),
    (hosted(network={"access": "off"}),
     bad("environment.network.access", "expected one of 'enabled', 'disabled', 'restricted'.")),
    (hosted(env=[]), kinds("environment.env", "an object", "an array")),
    (hosted(env={"1A": ""}),
     bad("environment.env", "a name has letters, digits and '_', and does not begin with a digit.")),
    (hosted(env={"A": 1}), kinds("environment.env.A", "a string", "an integer")),
    (hosted(env={"A": "x\0"}), bad("environment.env.A", "expected a string without NUL.")),
    (hosted(env={f"A{n}": "" for n in range(101)}), bad("environment.env", "at most 100 variables are taken.")),
    (hosted(env={"A": "x" * 32_768}), bad("environment.env", "at most 32768 bytes are taken in all.")),
    (hosted(setup_commands=["ls"]), kinds("environment.setup_commands[0]", "an object", "a string")),
    (hosted(setup_commands=[{"command": " "}]),
     bad("environment.setup_commands[0].command", "expected a command without NUL.")),
    (hosted(setup_commands=[{"command": "ls", "cwd": "/etc"}]),
     bad("environment.setup_commands[0].cwd", "expected an absolute directory inside /workspace.")),
    (hosted(setup_commands=[{"command": "ls", "shell": "zsh"}]), odd("environment.setup_commands[0].shell")),
    (hosted(setup_commands=[{"command": "ls"}] * 51),
     bad("environment.setup_commands", "at most 50 commands are taken.")),
    (hosted(setup_commands=[{"command": "x" * 65_537}]),
     bad("environment.setup_commands", "at most 65536 bytes are taken in all.")),
    (hosted(files={}), kinds("environment.files", "an array", "an object")),
    (hosted(files=[inline(str(n)) for n in range(51)]), ("environment.files cannot contain more than 50 files", None)),
    (hosted(files=[inline("a"), {**GOOD, "x": 1}]), odd("environment.files[1].x")),
    (hosted(files=[inline("a"), {**GOOD, "path": "a"}]), (ABSOLUTE.format(1), None)),
    (hosted(files=[inline("a"), inline("b"), inline("../c")]), (COMPONENTS.format(2), None)),
    (hosted(files=[inline("a"), inline("b", BIG)]),
     ("environment.files[1].data exceeds the 5 MiB decoded limit", None)),
    (hosted(files=[inline(n, base64.b64encode(bytes(5 * MIB)).decode()) for n in "ab"] + [inline("c", "YQ==")]),
     ("environment.files inline data exceeds the 10 MiB decoded limit in total", None)),
    (hosted(files=[inline("a"), inline("b"), inline("a")]),
     ("environment.files[2].path must not repeat the path of another file", None)),
    (hosted(files=[inline("a"), inline("a-b"), inline("a/b/c")]),
     ("environment.files[2].path must not be inside the path of another file", None)),
    (hosted(files=[inline("a/b/c"), inline("a/b")]),
     ("environment.files[0].path must not be inside the path of another file", None)),
]  # fmt: skip


@pytest.mark.parametrize(("body", "said"), ENVIRONMENTS, ids=[f"{n}-{r[1][1]}" for n, r in enumerate(ENVIRONMENTS)])
def test_each_fault_of_an_environment_has_its_sentence(body: Any, said: tuple[str, str | None]) -> None:
    expect_refused(lambda: read_environment(body), *said)


def test_what_says_the_default_is_as_absent() -> None:
    off: dict[str, Any] = {
        "capability_directories": [], "container_size": "medium", "desktop": {"enabled": False}, "env": None,
        "environment_id": None, "environment_template_id": None, "files": None, "plugins": [], "skills": None,
        "network": {"access": "disabled", "allowed_domains": [], "blocked_domains": None},
        "packages": {"npm": [], "python": None}, "setup_commands": [],
    }  # fmt: skip
    assert read_environment(hosted(**off)) == read_environment(hosted())
    assert not read_environment(hosted()).installs


def test_files_commands_and_variables_are_kept_and_secrets_not_shown() -> None:
    commands = [{"command": "one"}, {"command": "two", "cwd": "/workspace"}, {"command": "3", "cwd": "/workspace/it's"}]
    read = read_environment(hosted(files=[GOOD, inline("b/c")], env={"A_1": "secret"}, setup_commands=commands))
    assert [file.path for file in read.files] == ["a", "b/c"]
    assert read.env == {"A_1": "secret"}
    assert read.setup_commands == ("one", "two", "cd -- '/workspace/it'\"'\"'s' || exit\n3")
    assert read.installs
    assert "secret" not in repr(read)
    assert "two" not in repr(read)


def test_the_wire_forms_are_the_clients() -> None:
    files = (FileRequest("a", b"a"), FileRequest("b", file_id="file-1"))
    entries = file_entries(files, ["f1", "f2"], [1, 9])
    assert entries == [
        {"id": "f1", "type": "inline", "path": "/workspace/a", "size_bytes": 1},
        {"id": "f2", "type": "file_id", "path": "/workspace/b", "size_bytes": 9, "file_id": "file-1"},
    ]
    shown = session_environment("openai_hosted", "env_1", files=entries)
    EnvironmentResourceOpenAIHosted.model_validate(shown, strict=True)
    assert set(shown) == {
        "id", "type", "capability_directories", "files", "network", "packages", "plugins", "skills",
    }  # fmt: skip
    machine = session_environment("self_hosted", "env_1", workspace_directory="/w", remote_url="wss://x")
    EnvironmentResourceSelfHosted.model_validate(machine, strict=True)
    assert set(machine) == {"id", "type", "capability_directories", "remote_url", "workspace_directory"}
    assert session_environment("none", "env_1") == {"type": "none", "id": "env_1"}
    info = EnvironmentInfo.model_validate(environment_info("openai_hosted", "env_1", "connected", entries), strict=True)
    assert [file.path for file in info.files] == ["/workspace/a", "/workspace/b"]
    with pytest.raises(ValueError, match="not retrieved"):
        environment_info("none", "env_1", "connected")
    with pytest.raises(ValueError, match="shorter"):
        file_entries(files, ["f1"], [1])
