"""The published shapes of a run (exec.md A3, A7)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from shared.executor.wire import Lang
from shared.operations.base import Model, Sparse


class RunFile(Model):
    """One input of a run."""

    id: str = Field(description="Id of the file, or its relative path in its session.")
    name: str | None = Field(
        None, description="Relative path at which the program finds it; default: its path in its own session."
    )
    storage_session_id: str | None = Field(None, description="Session that holds the file.")
    session_id: str | None = Field(None, description="The same, as older clients spell it.")

    @property
    def session(self) -> str:
        """The home that the reference names; empty when it names none."""
        return self.storage_session_id or self.session_id or ""


class RunInput(Model):
    """A whole program and what it runs on."""

    lang: Lang = Field(description="Language of the program.")
    code: str = Field(description="The whole program; at most 1 MiB in UTF-8.")
    args: list[str] = Field([], description="Arguments of the program; at most 64 KiB together.")
    files: list[RunFile] = Field(
        [],
        description="Files of this or other sessions to have in the workspace; an unavailable one is named on stderr.",
    )
    session_id: str | None = Field(None, description="Session to continue: its files are there. Default: a new one.")
    runtime_session_hint: str | None = Field(
        None, description="Stable name of a conversation: runs with one hint share a session."
    )
    user_id: str | None = Field(None, description="Label of the caller's own user; it grants nothing.")
    entity_id: str | None = Field(None, description="Label of the caller's own agent; it grants nothing.")
    timeout: int | None = Field(
        None, ge=1, description="Run time in milliseconds, compiling included; 30000 by default, at most 300000."
    )


class OutputFile(Sparse):
    """A file that the run made or changed."""

    id: str = Field(description="Id of the file.")
    name: str = Field(description="Its relative path in the workspace.")
    path: str = Field(description="The same path.")
    storage_session_id: str = Field(description="Session that holds the file.")
    session_id: str = Field(description="The same session.")
    size: int = Field(description="Size in bytes.")
    inherited: bool | None = Field(
        None, description="True for a read-only input that the program tried to change: the original stays."
    )


class RunOutput(Model):
    """What the program did. A program that fails is a successful call."""

    session_id: str = Field(description="Session of the run: name it to continue with its files.")
    stdout: str = Field(description="Standard output; bytes that are not UTF-8 are replaced.")
    stderr: str = Field(description="Standard error, with a line for each limit that stopped the program.")
    files: list[OutputFile] = Field(description="Regular files that the run made or changed, by name.")
    deleted_files: list[str] = Field(description="Names of files that the run removed.")
    code: int | None = Field(description="Exit code; null when a signal ended the program.")
    signal: str | None = Field(description="Name of the signal that ended the program.")
    status: str | None = Field(
        description="TO: out of time; OL: output was cut; SG: a signal or another limit ended it; else null."
    )
    message: str | None = Field(description="Which limit stopped the program, in words.")
    wall_time: int = Field(description="Milliseconds from the start of the program to its end, compiling included.")


class RunRecord(Sparse):
    """An asynchronous run."""

    id: str = Field(description="Id of the run.")
    status: str = Field(description="running, finished or failed.")
    result: RunOutput | None = Field(None, description="The answer of the run, once it is finished.")
    error: dict[str, Any] | None = Field(
        None, description="`error` and `message` of a run that failed for reasons of ours."
    )


class RunId(Model):
    """An asynchronous run's id."""

    run_id: str = Field(description="Id that the 202 answer gave.")
