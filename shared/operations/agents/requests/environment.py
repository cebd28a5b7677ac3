"""The Environment of a Session: what a creation asks for, and what its answers show (agents.md 2, 11.5, 11.34, 11.39).

Bodies of commands and values of variables are confidential: no refusal repeats one, and no answer has any.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.domain.agents import envpaths
from shared.domain.agents.refusals import Refused
from shared.operations.agents.requests.files import FileRequest, read_file
from shared.operations.agents.requests.reading import (
    as_array,
    as_object,
    as_text,
    at,
    bad_value,
    one_of,
    only,
    only_default,
    refusal,
    required,
    unsupported,
)

Kind = Literal["none", "openai_hosted", "self_hosted"]
FILES = 50
FILES_BYTES = 10 * 1024 * 1024
"""Decoded bytes of all inline files of one Session."""
VARIABLES = 100
VARIABLES_BYTES = 32 * 1024
"""Names and values together, in UTF-8."""
COMMANDS = 50
COMMANDS_BYTES = 64 * 1024
"""All setup commands together, in UTF-8."""
DIRECTORY_BYTES = 4_096

_PATH = "environment"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ACCESS = ("enabled", "disabled", "restricted")
_HOSTED = (
    "type", "capability_directories", "container_size", "desktop", "env", "environment_id", "environment_template_id",
    "files", "network", "packages", "plugins", "setup_commands", "skills",
)  # fmt: skip
_SELF_HOSTED = ("type", "capability_directories", "workspace_directory")


@dataclass(frozen=True, slots=True)
class EnvironmentRequest:
    """An Environment to be made. The network is always disabled.

    `env` and `setup_commands` are confidential. A command is a text for bash that begins in the workspace.
    `workspace_directory` is of "self_hosted" only.
    """

    kind: Kind
    files: tuple[FileRequest, ...] = ()
    env: dict[str, str] = field(default_factory=dict, repr=False)
    setup_commands: tuple[str, ...] = field(default=(), repr=False)
    workspace_directory: str = ""

    @property
    def installs(self) -> bool:
        """Whether there is something to install before it is connected (agents.md 11.8)."""
        return bool(self.files or self.setup_commands)


def read_environment(value: object) -> EnvironmentRequest:
    """The body's member `environment`. The type comes first, for it decides which members there are.

    Errors: 400.
    """
    data = as_object(value, _PATH)
    kind = one_of(required(data, "type", _PATH), ("none", "openai_hosted", "self_hosted"), f"{_PATH}.type")
    if kind == "none":
        only(data, ("type",), _PATH)
        return EnvironmentRequest("none")
    if kind == "self_hosted":
        only(data, _SELF_HOSTED, _PATH)
        directory = _workspace_directory(required(data, "workspace_directory", _PATH))
        only_default(data, "capability_directories", _PATH)
        return EnvironmentRequest("self_hosted", workspace_directory=directory)
    only(data, _HOSTED, _PATH)
    _unsupported(data)
    _network(data.get("network"))
    return EnvironmentRequest(
        "openai_hosted",
        files=_files(data.get("files")),
        env=_variables(data.get("env")),
        setup_commands=_commands(data.get("setup_commands")),
    )


def _workspace_directory(value: object) -> str:
    path = f"{_PATH}.workspace_directory"
    text = as_text(value, path)
    size = len(text.encode("utf-8", "surrogatepass"))
    if not text.startswith("/") or size > DIRECTORY_BYTES or not {"\0", "\r", "\n"}.isdisjoint(text):
        raise bad_value(path, "expected an absolute POSIX path.")
    return text


def _unsupported(data: Mapping[str, Any]) -> None:
    """What the contract has and this service has not may be said to be off, empty or as it is."""
    for name in ("capability_directories", "environment_id", "environment_template_id", "plugins", "skills"):
        only_default(data, name, _PATH)
    only_default(data, "container_size", _PATH, "medium")
    only_default(data, "desktop", _PATH, {"enabled": False})
    if data.get("packages") is not None:
        packages = as_object(data["packages"], f"{_PATH}.packages")
        only(packages, ("npm", "python", "system"), f"{_PATH}.packages")
        for name in packages:
            only_default(packages, name, f"{_PATH}.packages")


def _network(value: object) -> None:
    path = f"{_PATH}.network"
    if value is None or value == {}:
        return
    data = as_object(value, path)
    only(data, ("access", "allowed_domains", "blocked_domains"), path)
    if one_of(required(data, "access", path), _ACCESS, at(path, "access")) != "disabled":
        raise unsupported(at(path, "access"), "only 'disabled' is available.")
    for name in ("allowed_domains", "blocked_domains"):
        only_default(data, name, path)


def _files(value: object) -> tuple[FileRequest, ...]:
    path = f"{_PATH}.files"
    rows = () if value is None else as_array(value, path)
    if len(rows) > FILES:
        raise refusal(f"{path} cannot contain more than {FILES} files")
    files: list[FileRequest] = []
    total = 0
    for index, row in enumerate(rows):
        files.append(read_file(row, path=f"{path}[{index}]", index=index))
        total += len(files[-1].data or b"")
        if total > FILES_BYTES:
            raise refusal(f"{path} inline data exceeds the 10 MiB decoded limit in total")
    _separate([file.path for file in files])
    return tuple(files)


def _separate(paths: Sequence[str]) -> None:
    """No two files have one path, and none is to stand where another needs a directory."""
    seen: set[str] = set()
    for index, path in enumerate(paths):
        if path in seen:
            raise refusal(f"{_PATH}.files[{index}].path must not repeat the path of another file")
        seen.add(path)
        # The other paths are few and the parents of one may be thousands: the paths are compared, not the parents.
        if any(path.startswith(f"{other}/") for other in paths):
            raise refusal(f"{_PATH}.files[{index}].path must not be inside the path of another file")


def _variables(value: object) -> dict[str, str]:
    path = f"{_PATH}.env"
    pairs = {} if value is None else as_object(value, path)
    if len(pairs) > VARIABLES:
        raise bad_value(path, f"at most {VARIABLES} variables are taken.")
    found: dict[str, str] = {}
    for name, text in pairs.items():
        if not _NAME.fullmatch(name):
            raise bad_value(path, "a name has letters, digits and '_', and does not begin with a digit.")
        found[name] = as_text(text, at(path, name))
        if "\0" in found[name]:
            raise bad_value(at(path, name), "expected a string without NUL.")
    if sum(_size(part) for pair in found.items() for part in pair) > VARIABLES_BYTES:
        raise bad_value(path, f"at most {VARIABLES_BYTES} bytes are taken in all.")
    return found


def _commands(value: object) -> tuple[str, ...]:
    path = f"{_PATH}.setup_commands"
    rows = () if value is None else as_array(value, path)
    if len(rows) > COMMANDS:
        raise bad_value(path, f"at most {COMMANDS} commands are taken.")
    commands = tuple(_command(row, f"{path}[{index}]") for index, row in enumerate(rows))
    if sum(_size(command) for command in commands) > COMMANDS_BYTES:
        raise bad_value(path, f"at most {COMMANDS_BYTES} bytes are taken in all.")
    return commands


def _command(value: object, path: str) -> str:
    """A command; one with another directory goes there first, and ends where there is none."""
    data = as_object(value, path)
    only(data, ("command", "cwd"), path)
    command = as_text(required(data, "command", path), at(path, "command"))
    if not command.strip() or "\0" in command:
        raise bad_value(at(path, "command"), "expected a command without NUL.")
    if data.get("cwd") is None:
        return command
    directory = as_text(data["cwd"], at(path, "cwd"))
    try:
        inside = envpaths.directory(directory)
    except Refused:
        raise bad_value(at(path, "cwd"), "expected an absolute directory inside /workspace.") from None
    return f"cd -- {shlex.quote(envpaths.shown(inside))} || exit\n{command}" if inside else command


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def file_entries(files: Sequence[FileRequest], ids: Sequence[str], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """The entries `files[]` of answers, one for each file that was installed at creation.

    `ids` are the entries' own, `sizes` in bytes. Errors: ValueError where their numbers differ.
    """
    rows = zip(files, ids, sizes, strict=True)
    return [
        {
            "id": ident,
            "type": file.kind,
            "path": file.shown,
            "size_bytes": size,
            **({"file_id": file.file_id} if file.file_id is not None else {}),
        }
        for file, ident, size in rows
    ]


def session_environment(
    kind: Kind,
    ident: str,
    *,
    files: Sequence[Mapping[str, Any]] = (),
    workspace_directory: str = "",
    remote_url: str = "",
) -> dict[str, Any]:
    """`session.environment`. `files` are `file_entries`; the other two are of "self_hosted".

    The id of "none" is an extra member: nothing else leads to its row (agents.md 11.5).
    """
    if kind == "none":
        return {"type": "none", "id": ident}
    shown: dict[str, Any] = {"id": ident, "type": kind, "capability_directories": []}
    if kind == "self_hosted":
        return {**shown, "remote_url": remote_url, "workspace_directory": workspace_directory}
    return {
        **shown,
        "files": [dict(file) for file in files],
        "network": {"access": "disabled", "allowed_domains": []},
        "packages": {"npm": [], "python": [], "system": []},
        "plugins": [],
        "skills": [],
    }


def environment_info(kind: Kind, ident: str, status: str, files: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The answer of `GET /agents/environments/{environment_id}`. Errors: ValueError for "none", which has none."""
    if kind == "none":
        raise ValueError("an Environment that is not retrieved")
    return {
        "id": ident,
        "object": "agent.environment",
        "type": kind,
        "status": status,
        "files": [dict(file) for file in files],
        "plugins": [],
        "skills": [],
    }
