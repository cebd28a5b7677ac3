"""The bytes of an Artifact (agents.md 6.2, 11.41)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from functions.api.agents.params import path_params
from functions.api.carried import Place, carried
from functions.api.disposition import attachment
from functions.api.typed import Handler, caller_of
from functions.api.workers import Workers
from shared.domain.manifest import Entry
from shared.operations.agents.session import missing
from shared.operations.base import Call
from shared.operations.room import Room
from shared.operations.transfer import Download

MEDIA = "application/octet-stream"


class OpenedArtifact(Protocol):
    """An Artifact and where its bytes lie. `path` is absolute, `size` bytes, `sha256` hex; `blob` is empty for none."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    @property
    def blob(self) -> str: ...
    @property
    def offset(self) -> int: ...


Open = Callable[[Room, str, str, str], OpenedArtifact]
"""Finds an Artifact by project, Session and id. Errors: 404."""


def find_artifact(room: Room, project: str, session_id: str, artifact_id: str) -> OpenedArtifact:
    """Of a service that publishes no Artifact none is found. Errors: 404."""
    del room, project, session_id, artifact_id
    raise missing()


def artifact_handler(room: Room, workers: Workers, open_artifact: Open) -> Handler:
    """`GET …/artifacts/{artifact_id}/content`: always the whole; a Range is not looked at."""

    async def handle(request: Request) -> Response:
        params, project = path_params(request), Call(caller_of(request)).project
        found = await workers.quick(open_artifact, room, project, params["session_id"], params["artifact_id"])
        entry = Entry(found.path, "file", 0o644, found.size, sha256=found.sha256, blob=found.blob, offset=found.offset)
        file = Download(found.path, found.size, MEDIA, 0, found.sha256, entry)
        headers = {
            "Cache-Control": "no-store",
            "Content-Disposition": attachment(found.path),
            "Content-Length": str(found.size),
            "Content-Type": MEDIA,
            "X-Content-Type-Options": "nosniff",
        }
        return await carried(room, workers, Place(project, params["session_id"]), file, headers)

    return handle
