"""Environments as a client sees them (agents.md 2, 11.5).

What is shown is what the Session was created with; live files are the file operations' business.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from shared.errors import Code
from shared.operations.agents.config import describe
from shared.operations.agents.reaching import find_environment
from shared.operations.agents.seeing import seen
from shared.operations.agents.session import missing, need_environment
from shared.operations.base import Call, Model, Route, Sparse, operation
from shared.operations.room import Room


class EnvironmentId(Model):
    """An Environment."""

    environment_id: str = Field(description="Id of the Environment: `env_…`.")


class InstalledFile(Sparse):
    """A file that an Environment was created with."""

    id: str = Field(description="Id of the entry.")
    type: Literal["inline", "file_id"] = Field(description="Where its bytes came from.")
    path: str = Field(description="Absolute path inside `/workspace`.")
    size_bytes: int = Field(description="Size in bytes.")
    file_id: str | None = Field(None, description="Source file that it was copied from; only of type `file_id`.")


class EnvironmentInfo(Model):
    """An Environment."""

    id: str = Field(description="Id of the Environment: `env_…`.")
    object: Literal["agent.environment"] = Field("agent.environment", description="Always `agent.environment`.")
    type: Literal["openai_hosted", "self_hosted"] = Field(description="Who runs the machine.")
    status: Literal["pending", "connected", "disconnected", "expired", "failed"] = Field(
        description="Whether it can be used."
    )
    files: list[InstalledFile] = Field(description="What was installed at the creation of the Session; no later file.")
    plugins: list[dict[str, Any]] = Field(description="Plugins that were installed at the creation of the Session.")
    skills: list[dict[str, Any]] = Field(description="Skills that were installed at the creation of the Session.")


@operation(
    "environments.get",
    route=Route("GET", ("/v1/agents/environments/{environment_id}",), contract="agents"),
    errors=(Code.NOT_FOUND,),
    lookup=find_environment,
)
def get_environment(room: Room, call: Call, data: EnvironmentId) -> EnvironmentInfo:
    """Get the Environment of a Session. Files that were written later are not part of the answer: list them."""
    found = seen(room, need_environment(room, call.project, data.environment_id))
    environment = found.head.environment
    if environment.kind == "none":
        raise missing()
    shown = describe(room, found).config.environment
    return EnvironmentInfo(
        id=found.environment,
        type=environment.kind,
        status=environment.status,
        files=[InstalledFile(**entry) for entry in shown.get("files", [])],
        plugins=shown.get("plugins", []),
        skills=shown.get("skills", []),
    )
