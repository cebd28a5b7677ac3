"""The bytes of an Artifact (agents.md 6.2, 11.41)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from functions.api.agents.params import path_params
from functions.api.carried import Place, carried
from functions.api.disposition import attachment
from functions.api.typed import Handler, caller_of
from functions.api.workers import Workers
from shared.domain.manifest import Entry
from shared.operations.agents.artifacts import open_artifact
from shared.operations.base import Call
from shared.operations.room import Room
from shared.operations.transfer import Download

MEDIA = "application/octet-stream"


def artifact_handler(room: Room, workers: Workers) -> Handler:
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
