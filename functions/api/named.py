"""The routes that no typed operation can be: multipart, raw bytes, a document, a page, another protocol.

One table: each with its reason, its documentation and the statuses that it sends. A test requires that these and the
typed operations are all that is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from functions.api.pages import ASSETS
from functions.api.transfers import BatchOutput
from shared.errors import Code
from shared.operations.source_uploads import SourcePart
from shared.operations.sources import SourceFile
from shared.operations.transfer import UploadOutput

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What one status carries: a model, a media type with its schema, or nothing. `headers` have a description each."""

    text: str
    model: type[BaseModel] | None = None
    media: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One route that is served by name. `free` asks for no credential of the door's; `errors` are what it sends.

    `description` holds at every door that does the same; `http` is what only a client of the route has to know.
    """

    name: str
    method: Literal["GET", "POST", "PUT"]
    paths: tuple[str, ...]
    reason: str
    summary: str
    description: str
    http: str = ""
    sent: Mapping[int, Sent]
    errors: tuple[Code, ...] = ()
    free: bool = False
    head: bool = True
    contract: Literal["exec", "agents"] = "exec"
    body: Mapping[str, Schema] = field(default_factory=dict)
    body_text: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, tuple[bool, str]] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]


_SESSION = "Id of the session."
_FILE = "Id of the file, or its relative path in the session; a path may hold slashes."
_BYTES: Schema = {"type": "string", "format": "binary", "description": "The bytes of the file."}


def _form(file: Schema) -> dict[str, Schema]:
    text = {"type": "string"}
    return {
        "multipart/form-data": {
            "type": "object",
            "description": "Fields come before the file.",
            "properties": {
                "session_id": {**text, "description": "Session to join; default: a new one."},
                "read_only": {
                    "type": "string",
                    "enum": ["true", "false"],
                    "description": "Whether programs may not change the files; default: false.",
                },
                "entity_id": {**text, "description": "Label of older clients; it grants nothing."},
                "kind": {**text, "description": "Label of newer clients; it grants nothing."},
                "id": {**text, "description": "Label of newer clients; it grants nothing."},
                "version": {**text, "description": "Label of newer clients; it grants nothing."},
                "file": file,
            },
            "required": ["file"],
        }
    }


_ONE_FILE: Schema = {
    "type": "string",
    "format": "binary",
    "description": "The file: any part with a file name, which is its relative path in the session, folders kept.",
}
_MANY_FILES: Schema = {
    "type": "array",
    "description": "The files: every part with a file name, which is its relative path in the session.",
    "items": {"type": "string", "format": "binary", "description": "One file."},
}
_RPC_ERROR: Schema = {"type": "object", "description": "A JSON-RPC 2.0 error."}
_UPLOAD_ERRORS = (Code.INVALID_REQUEST, Code.NOT_FOUND, Code.BUSY, Code.TOO_LARGE)

_DOWNLOAD_HEADERS = {
    "Content-Disposition": "attachment, with the file's own name in `filename*`.",
    "ETag": "SHA-256 of the bytes, in quotes.",
    "Last-Modified": "The later of the file's own time and the time at which it was stored.",
}
_GRANTED = {"Location": "Where it can be read for a minute; it needs no credential and must not be sent one."}

NAMED: tuple[Named, ...] = (
    Named(
        name="files.upload",
        method="POST",
        paths=("/v1/exec/upload", "/v1/upload"),
        reason="multipart",
        summary="Upload a file",
        description=(
            "The file joins the session of `session_id`, or a new session whose id the answer gives. A file of that "
            "name is replaced. At most 150 MiB. While a run holds the session the upload waits for it."
        ),
        http="A larger body is refused while it is read.",
        sent={200: Sent(text="The file is stored.", model=UploadOutput)},
        errors=_UPLOAD_ERRORS,
        body=_form(_ONE_FILE),
        body_text="One file, after the fields.",
    ),
    Named(
        name="files.upload_batch",
        method="POST",
        paths=("/v1/exec/upload/batch", "/v1/upload/batch"),
        reason="multipart",
        summary="Upload several files",
        description=(
            "All files join one session, all at once: at most 200, of 150 MiB each. A file of the same name is "
            "replaced. One that is refused, for its name or its size, does not keep the others from being stored."
        ),
        http="A refused file has a row with `status` error. When every file is refused the answer is 400.",
        sent={200: Sent(text="At least one file is stored.", model=BatchOutput)},
        errors=_UPLOAD_ERRORS,
        body=_form(_MANY_FILES),
        body_text="Files, after the fields.",
    ),
    Named(
        name="files.download",
        method="GET",
        paths=(
            "/v1/exec/download/{session_id}/{file_id:path}",
            "/v1/download/{session_id}/{file_id:path}",
        ),
        reason="raw bytes",
        summary="Download a file",
        description=(
            "Its bytes exactly as they were stored. A file whose bytes the store no longer gives back as they were is "
            "never delivered as a whole."
        ),
        http=(
            "Always an attachment. One range of bytes is answered with 206. Wrong bytes break the answer off before "
            "its end. Behind a gateway, what is too large for it is answered with 302 to a short-lived address of "
            "the store."
        ),
        sent={
            200: Sent(text="The whole file.", media={"application/octet-stream": _BYTES}, headers=_DOWNLOAD_HEADERS),
            206: Sent(
                text="One range of the file.",
                media={"application/octet-stream": _BYTES},
                headers={**_DOWNLOAD_HEADERS, "Content-Range": "Which bytes of how many."},
            ),
            302: Sent(text="The file is larger than this front door carries.", headers=_GRANTED),
            416: Sent(text="No byte of the range exists.", headers={"Content-Range": "How many bytes there are."}),
        },
        errors=(Code.NOT_FOUND,),
        parameters={"session_id": _SESSION, "file_id": _FILE},
        headers={
            "Range": (False, "One range of bytes; several are answered with the whole file."),
            "If-Range": (False, "An ETag: with another one the range is ignored."),
        },
    ),
    Named(
        name="files.download_nothing",
        method="GET",
        paths=("/v1/exec/download/{session_id}", "/v1/download/{session_id}"),
        reason="an address that only refuses",
        summary="Refuse a download that names no file",
        description="A file is named by its session and its own id or path; one segment alone is refused.",
        sent={},
        errors=(Code.INVALID_REQUEST,),
        parameters={"session_id": _SESSION},
    ),
    Named(
        name="uploads.put",
        method="PUT",
        paths=("/v1/exec/grants/{token}",),
        reason="raw bytes",
        summary="Send the bytes of a granted upload",
        description=(
            "The address comes from `uploads.create` and is itself the credential: no other is asked for. The bytes "
            "have the size and the SHA-256 that the grant was made for, and are taken once."
        ),
        sent={201: Sent(text="The bytes are stored; complete the upload next.")},
        errors=(Code.INVALID_REQUEST, Code.FORBIDDEN, Code.EXISTS),
        free=True,
        body={"application/octet-stream": _BYTES},
        body_text="The bytes, exactly as many as the grant says.",
        parameters={"token": "Token of the grant; a secret."},
        headers={"If-None-Match": (True, "Must be `*`.")},
    ),
    Named(
        name="sources.create",
        method="POST",
        paths=("/v1/files",),
        reason="multipart",
        summary="Upload a source file",
        description="The file belongs to the project and stays until it is deleted. At most 512 MiB.",
        http="A larger body is refused while it is read.",
        sent={200: Sent(text="The file is stored.", model=SourceFile)},
        errors=(Code.INVALID_REQUEST, Code.TOO_LARGE),
        contract="agents",
        body={
            "multipart/form-data": {
                "type": "object",
                "description": "Both parts, in either order.",
                "properties": {
                    "purpose": {"type": "string", "enum": ["user_data"], "description": "Must be `user_data`."},
                    "file": {"type": "string", "format": "binary", "description": "The file, with its file name."},
                },
                "required": ["file", "purpose"],
            }
        },
        body_text="The file and its purpose.",
    ),
    Named(
        name="sources.content",
        method="GET",
        paths=("/v1/files/{file_id:source}/content",),
        reason="an address that only refuses",
        summary="Refuse to give a source file back",
        description="Files of the purpose `user_data`, the only one that there is, are not given back.",
        sent={},
        errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
        contract="agents",
        head=False,
        parameters={"file_id": "Id of the file: `file-…`."},
    ),
    Named(
        name="sources.add_part",
        method="POST",
        paths=("/v1/uploads/{upload_id}/parts",),
        reason="multipart",
        summary="Send one part of a source file",
        description="Parts may be sent in any order and at once. At most 64 MiB; `sources.complete_upload` joins them.",
        sent={200: Sent(text="The part is stored.", model=SourcePart)},
        errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.TOO_LARGE),
        contract="agents",
        body={
            "multipart/form-data": {
                "type": "object",
                "description": "The part.",
                "properties": {"data": {"type": "string", "format": "binary", "description": "The bytes."}},
                "required": ["data"],
            }
        },
        body_text="The bytes of the part.",
        parameters={"upload_id": "Id of the upload."},
    ),
    Named(
        name="events.stream",
        method="GET",
        paths=("/v1/agents/sessions/{session_id}/events",),
        reason="a stream",
        summary="Follow the events of a Session",
        description=(
            "Begins behind what has happened already and goes on through idle Sessions, until the Session is deleted "
            "or its Environment could not be prepared. Nothing is told again: `Last-Event-ID` is ignored."
        ),
        http=(
            "Server-sent events: `event` names the type, `data` is its JSON. A comment is sent every 15 seconds "
            "without one. A front door that carries no stream answers 400; the service has another address for them."
        ),
        sent={
            200: Sent(
                text="The events as they happen.",
                media={"text/event-stream": {"type": "string", "description": "Server-sent events."}},
            )
        },
        errors=(Code.INVALID_REQUEST, Code.NOT_FOUND, Code.RATE_LIMITED),
        contract="agents",
        head=False,
        parameters={"session_id": "Id of the Session: `sess_…`."},
    ),
    Named(
        name="artifacts.content",
        method="GET",
        paths=("/v1/agents/sessions/{session_id}/artifacts/{artifact_id}/content",),
        reason="raw bytes",
        summary="Download an Artifact",
        description=(
            "Its bytes exactly as they were published, whatever has become of the file. Bytes that the store no longer "
            "gives back as they were are never delivered as a whole."
        ),
        http=(
            "Always an attachment and always the whole. Wrong bytes break the answer off before its end. Behind a "
            "gateway, what is too large for it is answered with 302 to a short-lived address of the store."
        ),
        sent={
            200: Sent(
                text="The bytes.",
                media={"application/octet-stream": _BYTES},
                headers={"Content-Disposition": _DOWNLOAD_HEADERS["Content-Disposition"]},
            ),
            302: Sent(text="The file is larger than this front door carries.", headers=_GRANTED),
        },
        errors=(Code.NOT_FOUND,),
        contract="agents",
        head=False,
        parameters={
            "session_id": "Id of the Session: `sess_…`.",
            "artifact_id": "Id of the Artifact: `art_…`.",
        },
    ),
    Named(
        name="mcp.post",
        method="POST",
        paths=("/mcp",),
        reason="another protocol",
        summary="Speak the Model Context Protocol",
        description=(
            "Streamable HTTP, stateless, with JSON answers: each request stands alone. The tools are the typed "
            "operations of this document."
        ),
        sent={
            200: Sent(
                text="A JSON-RPC answer.",
                media={"application/json": {"type": "object", "description": "A JSON-RPC 2.0 message."}},
            ),
            202: Sent(text="A notification was taken."),
            400: Sent(text="It is no message of the protocol.", media={"application/json": _RPC_ERROR}),
            406: Sent(text="`Accept` does not name JSON.", media={"application/json": _RPC_ERROR}),
            413: Sent(text="The message is larger than a JSON body may be."),
        },
        body={"application/json": {"type": "object", "description": "A JSON-RPC 2.0 message."}},
        body_text="A message of the protocol.",
    ),
    Named(
        name="pages.openapi",
        method="GET",
        paths=("/openapi.json",),
        reason="this document",
        summary="Get this document",
        description="OpenAPI 3.1, made from the same declarations as the routes.",
        sent={
            200: Sent(
                text="The document.",
                media={"application/json": {"type": "object", "description": "An OpenAPI 3.1 document."}},
            )
        },
        free=True,
    ),
    Named(
        name="pages.docs",
        method="GET",
        paths=("/docs",),
        reason="a page",
        summary="Read this document as a page",
        description="Works without any other server: its script and style come from this one.",
        sent={200: Sent(text="The page.", media={"text/html": {"type": "string", "description": "HTML."}})},
        free=True,
    ),
    *(
        Named(
            name=f"pages.{name}",
            method="GET",
            paths=(f"/docs/{name}",),
            reason="a page",
            summary=f"Get {name}, which the pages ask for",
            description="A script or a style; no other server is asked for any.",
            sent={200: Sent(text="The file.", media={media: {"type": "string", "description": "Its text."}})},
            free=True,
        )
        for name, (_, _, media) in ASSETS.items()
    ),
    Named(
        name="pages.start",
        method="GET",
        paths=("/",),
        reason="a page",
        summary="Read what this is",
        description="A short page with a first request.",
        sent={200: Sent(text="The page.", media={"text/html": {"type": "string", "description": "HTML."}})},
        free=True,
    ),
)
