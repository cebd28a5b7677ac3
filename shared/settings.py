"""Every setting of a deployment, read from the environment by one parser.

The README's table is made from this class. A setting that cannot be read stops the start with a sentence that
names it; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

PREFIX = "WORKROOM_"
LAYERS = ("clean", "reap", "filter", "paths", "namespaces", "memory", "wipe")
REQUIRED_LAYERS = ("clean", "reap", "filter", "namespaces", "memory", "wipe")
_DIGITS = 16
STORES = ("local", "aws")
EXECUTORS = ("local", "lambda")
ISOLATION = ("user", "session", "project")
AGENTS_GROUPS = ("agents", "sessions", "events", "turns", "items", "subagents", "artifacts", "environments")
MCP_GROUPS = ("exec", "files", "uploads", "runs", "health", "sources", *AGENTS_GROUPS)


class BadSetting(ValueError):
    """A setting that cannot be read; the text names it and what it takes."""


def _setting(default: Any, doc: str, *, choices: tuple[str, ...] = (), low: int = 1, high: int = 2**53) -> Any:
    """One setting. `choices` bounds a list's members; `low` and `high` bound a number."""
    return field(default=default, metadata={"doc": doc, "choices": choices, "low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings; each is `WORKROOM_` + the field's name in capitals."""

    store: str = _setting("local", "state and objects: `local` (the data folder) or `aws`", choices=STORES)
    executor: str = _setting("local", "where programs run: `local` (this machine) or `lambda`", choices=EXECUTORS)
    data: Path = _setting(Path(".data"), "folder of the state database, the objects and the development key")
    host: str = _setting("127.0.0.1", "address that `workroom serve` listens on; not loopback: needs made keys")
    port: int = _setting(8080, "port of `workroom serve`; 0 takes a free one", low=0, high=65535)
    dev_key: bool = _setting(True, "make and accept the development key (loopback only)")
    cache: Path = _setting(Path("/var/cache/workroom"), "machine cache: toolchain roots and the jail")
    root: Path | None = _setting(None, "toolchain root; default: the one that `make run` made in the cache")
    jail: Path | None = _setting(None, "jail binary; default: the one that `make run` made in the cache")
    work: Path | None = _setting(
        None, "folder of the running workspaces, which other users can reach; default: in the cache"
    )
    concurrency: int | None = _setting(None, "programs that run at once; default: twice the cores, 4 at least")
    required_layers: tuple[str, ...] = _setting(
        REQUIRED_LAYERS, "sandbox layers without which no program runs, separated by commas", choices=LAYERS
    )
    session_lifetime_s: int = _setting(86_400, "life of a session after its last run, upload or deletion, in seconds")
    environment_lifetime_s: int = _setting(86_400, "life of an Environment after its last activity, in seconds")
    waiting_lifetime_s: int = _setting(3_600, "how long a Turn waits for results of function calls, in seconds")
    turn_run_ms: int = _setting(300_000, "time of one program of a Turn", high=300_000)
    default_model: str | None = _setting(
        None, "engine of an agent without `model`, such as `program:py`; default: an agent has to name one"
    )
    run_ms: int = _setting(30_000, "run time of a request that names no `timeout`", high=300_000)
    memory_mib: int = _setting(1_024, "memory of a run, in MiB", low=64)
    lock_wait_ms: int = _setting(330_000, "wait for a session that another run holds; then 409", high=900_000)
    answer_ms: int = _setting(0, "time for one answer in all, for a front door that bounds it; 0: none", low=0)
    answer_bytes: int = _setting(0, "bytes of one answer, for a front door that bounds them; 0: no bound", low=0)
    isolation: str = _setting(
        "user", "who shares an environment of the Lambda executor: one user, session or project", choices=ISOLATION
    )
    table: str | None = _setting(None, "DynamoDB table of the store `aws`")
    bucket: str | None = _setting(None, "S3 bucket of the store `aws`")
    executor_function: str | None = _setting(None, "name or ARN of the function of the executor `lambda`")
    queue_url: str | None = _setting(None, "SQS queue of background runs; default: threads of this process")
    event_bus: str | None = _setting(None, "EventBridge bus that is told of finished background runs")
    jwt_key: str | None = _setting(None, "public key (PEM) of LibreChat's tokens; default: no token is taken")
    jwt_issuer: str = _setting("librechat", "`iss` of these tokens")
    jwt_audience: str = _setting("codeapi", "`aud` of these tokens")
    jwt_project: str = _setting("librechat", "project of these tokens' users; another `tenant_id` has its own")
    janitor_s: int = _setting(300, "pause between two sweeps of `workroom serve`, in seconds")
    mcp_groups: tuple[str, ...] = _setting(
        MCP_GROUPS, "groups of operations that MCP lists, separated by commas", choices=MCP_GROUPS
    )
    log_level: str = _setting("info", "debug, info, warning or error", choices=("debug", "info", "warning", "error"))
    url: str | None = _setting(None, "service that the `workroom` command calls; default: it works on the data folder")
    key: str | None = _setting(None, "API key of the `workroom` command; default: the development key")

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Settings:
        """Read the environment. Unknown `WORKROOM_` names are refused: a misspelt setting never passes silently.

        Errors: BadSetting.
        """
        known = {PREFIX + entry.name.upper(): entry for entry in fields(cls)}
        for name in environ:
            if name.startswith(PREFIX) and name not in known:
                raise BadSetting(f"{name} is not a setting; the settings are {', '.join(sorted(known))}")
        values: dict[str, Any] = {}
        for name, entry in known.items():
            if text := environ.get(name):
                values[entry.name] = _parse(name, text, str(entry.type), entry.metadata)
        return cls(**values)


def _parse(name: str, text: str, kind: str, meta: Mapping[str, Any]) -> Any:
    choices: tuple[str, ...] = meta["choices"]
    if kind.startswith("int"):
        digits = text.isascii() and text.isdigit() and len(text) <= _DIGITS
        if not digits or not meta["low"] <= int(text) <= meta["high"]:
            raise BadSetting(f"{name} must be a whole number from {meta['low']} to {meta['high']}")
        return int(text)
    if kind == "bool":
        if text.lower() not in ("0", "1", "true", "false"):
            raise BadSetting(f"{name} must be 0, 1, true or false")
        return text.lower() in ("1", "true")
    if kind.startswith("tuple"):
        parts = tuple(part.strip() for part in text.split(",") if part.strip())
        if wrong := [part for part in parts if part not in choices]:
            raise BadSetting(f"{name} takes {', '.join(choices)}; not {wrong[0]}")
        return parts
    if kind.startswith("Path"):
        return Path(text)
    if choices and text not in choices:
        raise BadSetting(f"{name} takes {', '.join(choices)}")
    return text
