"""The routes that carry bytes: uploads, downloads and the upload grants of one machine (exec.md A4).

Bytes pass in pieces through threads; memory does not grow with a file. A refused request commits nothing and opens
no session: what it staged is discarded.
"""

from __future__ import annotations

from email.utils import formatdate

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from functions.api.addresses import decoded
from functions.api.answers import answer, compact, output_bytes
from functions.api.carried import Place, carried
from functions.api.disposition import attachment, boundary
from functions.api.headers import content_length, single
from functions.api.jsonbody import chunks
from functions.api.multipart import Fields, Form
from functions.api.ranges import requested
from functions.api.typed import Handler, caller_of
from functions.api.workers import Workers
from shared.errors import Code, Failure, invalid
from shared.operations.base import Call, Sparse, admitted
from shared.operations.grants import finish_grant, open_grant
from shared.operations.room import Room
from shared.operations.transfer import UploadOutput, check_session, open_file, upload
from shared.store.ports import Stage

_FORM_EXTRA = 2 * 1024 * 1024


class BatchOutput(UploadOutput, Sparse):
    """What a batch upload stored, and whether files above its limit were refused."""

    filesLimitReached: bool | None = Field(
        None, description="True where the batch had more files than one batch takes; those above it were refused."
    )
    maxFiles: int | None = Field(None, description="How many files one batch takes, where that limit was reached.")


def upload_handler(room: Room, workers: Workers, *, batch: bool) -> Handler:
    """`POST …/upload` and `…/upload/batch`."""

    async def handle(request: Request) -> Response:
        call = Call(caller_of(request))

        def begin(fields: Fields) -> None:
            if fields.session_id is not None:
                check_session(room, call, fields.session_id)

        announced = content_length(request.headers)
        mark = boundary(request.headers.get("content-type"))
        if not batch and announced is not None and announced > room.limits.upload_bytes + _FORM_EXTRA:
            raise Failure(Code.TOO_LARGE, f"`file` must not be larger than {room.limits.upload_bytes} bytes")
        form = Form(mark, room, batch=batch, begin=begin)

        def store() -> bytes:
            form.finish()
            output = upload(
                room,
                call,
                session_id=form.fields.session_id,
                read_only=form.fields.read_only,
                files=form.files,
                refused=form.refused,
                batch=batch,
            )
            if form.limit_reached:
                output = BatchOutput(**output.model_dump(), filesLimitReached=True, maxFiles=room.limits.batch_files)
            return output_bytes(output)

        try:
            async for chunk in chunks(request.receive):
                await workers.quick(form.feed, chunk)
            return answer(200, await workers.slow(workers.writes, store))
        finally:
            await workers.finish(form.close)

    return handle


def download_handler(room: Room, workers: Workers) -> Handler:
    """`GET …/download/{session_id}/{file_id}`: the bytes, one range of them, or where they are."""

    async def handle(request: Request) -> Response:
        params = decoded(request.path_params)
        call = Call(caller_of(request))
        found = await workers.quick(open_file, room, call, params["session_id"], params["file_id"])
        tag = f'"{found.sha256}"'
        headers = {
            "Accept-Ranges": "bytes",
            "Content-Disposition": attachment(found.name),
            "Content-Security-Policy": "sandbox",
            "Content-Type": found.content_type,
            "ETag": tag,
            "Last-Modified": formatdate(found.modified_ms / 1000, usegmt=True),
            "X-Content-Type-Options": "nosniff",
        }
        span = requested(request.headers, found.size, tag)
        if span is None:
            return _no_such_range(found.size)
        headers["Content-Length"] = str(span.length)
        if span.partial:
            headers["Content-Range"] = f"bytes {span.start}-{span.start + span.length - 1}/{found.size}"
        status = 206 if span.partial else 200
        if request.method == "HEAD":
            return Response(b"", status, headers)
        place = Place(admitted(call).project, params["session_id"])
        return await carried(room, workers, place, found, headers, status=status, start=span.start, length=span.length)

    return handle


def _no_such_range(size: int) -> Response:
    body = {"error": Code.INVALID_REQUEST.value.code, "message": f"`Range` must lie within {size} bytes."}
    return answer(416, compact(body), {"Accept-Ranges": "bytes", "Content-Range": f"bytes */{size}"})


def bare_download_handler() -> Handler:
    """`GET …/download/{session_id}`: a file is named by two segments; one alone is 400 (exec.md A4)."""

    async def handle(request: Request) -> Response:
        raise invalid("file_id", "is required: /download/{session_id}/{file_id}")

    return handle


def grant_handler(room: Room, workers: Workers) -> Handler:
    """`PUT …/grants/{token}`: the bytes of an upload by grant. The token is the credential."""

    async def handle(request: Request) -> Response:
        grant = await workers.quick(open_grant, room, decoded(request.path_params)["token"])
        if single(request.headers, "If-None-Match") != "*":
            raise invalid("If-None-Match", "must be *")
        announced = content_length(request.headers)
        if announced is not None and announced != grant.size:
            raise invalid("Content-Length", f"must be {grant.size}, the size of the grant")
        stage = await workers.quick(room.objects.stage)
        try:
            async for chunk in chunks(request.receive):
                if stage.size + len(chunk) > grant.size:
                    raise invalid("body", f"must be {grant.size} bytes, the size of the grant")
                await workers.quick(stage.write, chunk)
            await workers.slow(workers.writes, finish_grant, room, grant, stage)
        finally:
            await workers.finish(_discard, stage)
        return Response(b"", 201)

    return handle


def _discard(stage: Stage) -> None:
    stage.__exit__(None, None, None)
