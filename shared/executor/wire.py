"""What the service and an executor say to each other: plain JSON, both ways.

Stdlib only: the runner inside the image imports this module and nothing else of `shared`. Shapes are dataclasses
that know how to become JSON and how to be read from it. Reading is strict about types; what an executor answers
is **hostile input** and is judged by `shared.executor.judge` before anything is believed.

Names are text with `surrogateescape`: a byte that is not UTF-8 is a lone surrogate in JSON (`\\udcff`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

Kind = Literal["file", "dir", "link", "fifo", "other"]
KINDS: frozenset[str] = frozenset(get_args(Kind))

Lang = Literal["py", "js", "ts", "bash", "r", "php", "go", "rs", "c", "cpp", "java", "d", "f90"]
LANGS: tuple[str, ...] = get_args(Lang)

Reason = Literal[
    "time",
    "memory",
    "output",
    "stopped",
    "workspace_bytes",
    "workspace_entries",
    "processes",
    "file_bytes",
    "cpu",
]
REASONS: frozenset[str] = frozenset(get_args(Reason))


_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ENV_BYTES = 64 << 10
"""What all variables of a program may take together. The kernel takes 128 KiB of a single one."""


class WireError(ValueError):
    """The JSON is not of the shape; the text names the member."""


def _typed(value: object, kind: type, name: str) -> Any:
    if type(value) is not kind:
        raise WireError(f"{name} is not {kind.__name__}")
    return value


def env_refusal(env: Mapping[str, str]) -> str | None:
    """Why these cannot be the variables of a program, in words that hold none of them; None when they can."""
    size = 0
    for name, value in env.items():
        if _ENV_NAME.fullmatch(name) is None:
            return "a variable's name is not of letters, digits and _"
        if "\0" in value:
            return "a variable's value has a NUL"
        try:
            size += len(name) + len(value.encode("utf-8")) + 2
        except UnicodeEncodeError:
            return "a variable's value is no text"
    return None if size <= ENV_BYTES else f"the variables take more than {ENV_BYTES} bytes"


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a workspace.

    `path` is relative, canonical POSIX. `mode` is the permission bits. `sha256` (hex) and `size` are of a file;
    `target` is the text of a link. `blob` and `offset` say where a file's bytes lie: a key of the object store;
    in an answer, "" means the inline pack. `read_only` files are 0444 and no change of them is kept.
    """

    path: str
    kind: Kind
    mode: int
    size: int = 0
    mtime_ns: int = 0
    sha256: str = ""
    target: str = ""
    blob: str = ""
    offset: int = 0
    read_only: bool = False

    def row(self) -> list[object]:
        """The entry as a JSON array, in field order."""
        return [
            self.path, self.kind, self.mode, self.size, self.mtime_ns,
            self.sha256, self.target, self.blob, self.offset, self.read_only,
        ]  # fmt: skip

    @classmethod
    def of(cls, row: object) -> Entry:
        """Read a row. Raises WireError."""
        if type(row) is not list or len(row) != 10:
            raise WireError("entry is not a row of ten")
        kinds = (str, str, int, int, int, str, str, str, int, bool)
        for value, kind in zip(row, kinds, strict=True):
            if type(value) is not kind:
                raise WireError("entry has a member of another type")
        if row[1] not in KINDS:
            raise WireError("entry is of no known kind")
        return cls(*row)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits of one run; units as in `shared.limits`."""

    wall_ms: int
    memory_bytes: int
    processes: int
    open_files: int
    file_bytes: int
    tmp_bytes: int
    stdout_bytes: int
    stderr_bytes: int
    flood_bytes: int
    workspace_bytes: int
    workspace_entries: int
    path_bytes: int
    path_depth: int
    inline_bytes: int
    small_file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One program to run.

    `workspace` is an opaque name under which an executor may hold the restored folder between runs of one session.
    `reads` maps each object key of `manifest` to a grant; `writes` are (key, grant) pairs for large outputs and for
    a pack above `inline_bytes`. A grant is `file:` + an absolute path on one machine, or an `https:` address.
    `repack` asks for the bytes of every small file in the answer, changed or not (compaction). `tenant` names who may
    share an environment with this run, for an adapter whose executor keeps tenants apart: at most 64 of
    `[A-Za-z0-9_-]`. `share` names those among whom an adapter serves what waits for a place in turn. Neither is part of
    the JSON. `env` are variables of the program and its compiler alone, over those
    that they have anyway; they may be secrets. `live` asks for the output while it comes; an adapter sets it.
    """

    run_id: str
    workspace: str
    lang: str
    code: str
    args: tuple[str, ...]
    limits: RunLimits
    manifest: tuple[Entry, ...] = ()
    reads: dict[str, str] = field(default_factory=dict)
    writes: tuple[tuple[str, str], ...] = ()
    repack: bool = False
    tenant: str = ""
    share: str = ""
    env: dict[str, str] = field(default_factory=dict, repr=False)
    live: bool = False

    def to_json(self) -> dict[str, Any]:
        """The request as JSON."""
        return {
            "run_id": self.run_id,
            "workspace": self.workspace,
            "lang": self.lang,
            "code": self.code,
            "args": list(self.args),
            "limits": {name: getattr(self.limits, name) for name in RunLimits.__slots__},
            "manifest": [entry.row() for entry in self.manifest],
            "reads": self.reads,
            "writes": [list(pair) for pair in self.writes],
            "repack": self.repack,
            "env": self.env,
            "live": self.live,
        }

    @classmethod
    def of(cls, data: dict[str, Any]) -> RunRequest:
        """Read a request; `env` and `live` may be absent. Raises WireError."""
        try:
            env = {name: _typed(value, str, "env") for name, value in _typed(data.get("env", {}), dict, "env").items()}
            if why := env_refusal(env):
                raise WireError(why)
            return cls(
                run_id=_typed(data["run_id"], str, "run_id"),
                workspace=_typed(data["workspace"], str, "workspace"),
                lang=_typed(data["lang"], str, "lang"),
                code=_typed(data["code"], str, "code"),
                args=tuple(_typed(arg, str, "args") for arg in _typed(data["args"], list, "args")),
                limits=RunLimits(**{k: _typed(v, int, k) for k, v in data["limits"].items()}),
                manifest=tuple(Entry.of(row) for row in _typed(data["manifest"], list, "manifest")),
                reads={str(k): _typed(v, str, "reads") for k, v in data["reads"].items()},
                writes=tuple((_typed(k, str, "writes"), _typed(u, str, "writes")) for k, u in data["writes"]),
                repack=_typed(data["repack"], bool, "repack"),
                env=env,
                live=_typed(data.get("live", False), bool, "live"),
            )
        except WireError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WireError(f"request: {type(error).__name__}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnswer:
    """What became of a run.

    `code` is the exit code, None when a signal ended it; `signal` the number or None. `reason` says which limit
    stopped it. `stdout` and `stderr` are decoded text, head and tail kept when cut (`*_cut`). `changes` are the
    entries that are new or differ (and, with `repack`, every small file); `deleted` the paths that are gone; `lost` are
    (path, why) of entries that cannot be kept, `changed` the paths among them whose file was not the same while it was
    read. `pack` holds the bytes of the small changed files, Base64 on the wire.
    `restored_ms`, `run_ms`, `collect_ms`: time by phase.
    """

    run_id: str
    phase: Literal["compile", "run"]
    code: int | None
    signal: int | None
    reason: Reason | None
    stdout: str
    stderr: str
    stdout_cut: bool = False
    stderr_cut: bool = False
    changes: tuple[Entry, ...] = ()
    deleted: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    changed: tuple[str, ...] = ()
    pack: bytes = b""
    wall_ms: int = 0
    cpu_ms: int = 0
    peak_memory: int = 0
    restore_ms: int = 0
    collect_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        """The answer as JSON; `pack` is standard Base64."""
        import base64  # noqa: PLC0415

        data: dict[str, Any] = {name: getattr(self, name) for name in RunAnswer.__slots__}
        data["changes"] = [entry.row() for entry in self.changes]
        data["deleted"] = list(self.deleted)
        data["lost"] = [list(pair) for pair in self.lost]
        data["changed"] = list(self.changed)
        data["pack"] = base64.b64encode(self.pack).decode("ascii")
        return data

    @classmethod
    def of(cls, data: object) -> RunAnswer:
        """Read an answer, types only. Raises WireError. `shared.executor.judge` judges the content."""
        import base64  # noqa: PLC0415
        import binascii  # noqa: PLC0415

        row = cast("dict[str, Any]", _typed(data, dict, "answer"))
        if set(row) != set(RunAnswer.__slots__):
            raise WireError("answer has other members")
        for name in ("code", "signal"):
            if row[name] is not None:
                _typed(row[name], int, name)
        if row["reason"] is not None and row["reason"] not in REASONS:
            raise WireError("reason is not known")
        if row["phase"] not in ("compile", "run"):
            raise WireError("phase is not known")
        try:
            pack = base64.b64decode(_typed(row["pack"], str, "pack"), validate=True)
        except (binascii.Error, ValueError) as error:
            raise WireError("pack is not Base64") from error
        lost = [_typed(pair, list, "lost") for pair in _typed(row["lost"], list, "lost")]
        if any(len(pair) != 2 or type(pair[0]) is not str or type(pair[1]) is not str for pair in lost):
            raise WireError("lost is not of pairs")
        return cls(
            run_id=_typed(row["run_id"], str, "run_id"),
            phase=row["phase"],
            code=row["code"],
            signal=row["signal"],
            reason=row["reason"],
            stdout=_typed(row["stdout"], str, "stdout"),
            stderr=_typed(row["stderr"], str, "stderr"),
            stdout_cut=_typed(row["stdout_cut"], bool, "stdout_cut"),
            stderr_cut=_typed(row["stderr_cut"], bool, "stderr_cut"),
            changes=tuple(Entry.of(entry) for entry in _typed(row["changes"], list, "changes")),
            deleted=tuple(_typed(path, str, "deleted") for path in _typed(row["deleted"], list, "deleted")),
            lost=tuple((pair[0], pair[1]) for pair in lost),
            changed=tuple(_typed(path, str, "changed") for path in _typed(row["changed"], list, "changed")),
            pack=pack,
            **{
                name: _typed(row[name], int, name)
                for name in ("wall_ms", "cpu_ms", "peak_memory", "restore_ms", "collect_ms")
            },
        )
