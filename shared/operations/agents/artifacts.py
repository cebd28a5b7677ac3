"""The Artifacts of a Session, `…/sessions/{session_id}/artifacts` (agents.md 6.2, 11.28): immutable, until deleted."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from shared.agents_errors import Fault, Refusal
from shared.domain.agents import cursors, ids, publication
from shared.domain.agents.envpaths import shown as shown_path
from shared.domain.agents.publication import Found as Published
from shared.domain.agents.publication import Publication
from shared.domain.agents.refusals import Refused
from shared.errors import Code
from shared.operations.agents import places, publishing
from shared.operations.agents.pages import Page, PageInput, strict_limit
from shared.operations.agents.seeing import seen
from shared.operations.agents.session import Draft, Found, missing, need, refusal, swap
from shared.operations.base import Call, Model, Route, operation
from shared.operations.room import Room
from shared.store.ports import Conflict, StoreUnavailable

_CURSOR = "after is not a valid artifact ID"


class ArtifactId(Model):
    """An Artifact of a Session."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")
    artifact_id: str = Field(description="Id of the Artifact: `art_…`.")


class ArtifactListInput(PageInput):
    """Which Artifacts to list."""

    session_id: str = Field(description="Id of the Session: `sess_…`.")
    environment_id: str | None = Field(None, description="Only Artifacts of this Environment; empty: all.")


class Artifact(Model):
    """A file that a completed Turn left below `/workspace/outputs`."""

    id: str = Field(description="Id of the Artifact: `art_…`.")
    object: Literal["agent.session.artifact"] = Field(
        "agent.session.artifact", description="Always `agent.session.artifact`."
    )
    session_id: str = Field(description="Id of the Session.")
    turn_id: str = Field(description="Id of the Turn that left it.")
    environment_id: str = Field(description="Id of the Environment.")
    path: str = Field(description="Absolute path that it had.")
    size_bytes: int = Field(description="Size in bytes.")
    created_at: int = Field(description="When it was published, in seconds since the epoch.")


class ArtifactList(Page[Artifact]):
    """One page of Artifacts."""


class ArtifactDeleted(Model):
    """An Artifact that is gone."""

    id: str = Field(description="Id that the Artifact had.")
    object: Literal["agent.session.artifact.deleted"] = Field(
        "agent.session.artifact.deleted", description="Always `agent.session.artifact.deleted`."
    )
    deleted: Literal[True] = Field(True, description="Always true.")


@dataclass(frozen=True, slots=True)
class OpenArtifact:
    """An Artifact to be read: its absolute path, and where its bytes lie."""

    path: str
    size: int
    sha256: str
    blob: str
    offset: int

    @property
    def name(self) -> str:
        """The last segment of its path."""
        return self.path.rpartition("/")[2]


def look_up(room: Room, call: Call, data: dict[str, Any]) -> None:
    """The lookup of the Session, before the query is looked at (agents.md 11.6). Errors: 404."""
    need(room, call.project, str(data.get("session_id", "")))


def _find(room: Room, found: Found, artifact: str) -> Published | None:
    """An Artifact that was not deleted; None for malformed, unknown and foreign ids."""
    sequence = ids.sequence_of(artifact, "art")
    item = None if sequence is None else room.state.get(found.partition, places.publication(sequence))
    if item is None:
        return None
    made = publishing.load(room, item)
    row = made.find(artifact)
    if row is None or room.state.get(found.partition, places.REMOVED + artifact) is not None:
        return None
    return Published(made, row)


def _need(room: Room, found: Found, artifact: str) -> Published:
    there = _find(room, found, artifact)
    if there is None:
        raise missing()
    return there


def open_artifact(room: Room, project: str, session: str, artifact: str) -> OpenArtifact:
    """What a door needs to send an Artifact's bytes. Errors: 404; StoreUnavailable."""
    row = _need(room, need(room, project, session), artifact).artifact
    return OpenArtifact(shown_path(row.path), row.size, row.sha256, row.blob, row.offset)


@operation(
    "artifacts.get",
    route=Route("GET", ("/v1/agents/sessions/{session_id}/artifacts/{artifact_id}",), contract="agents"),
    errors=(Code.NOT_FOUND,),
)
def get_artifact(room: Room, call: Call, data: ArtifactId) -> Artifact:
    """Get an Artifact of a Session. `artifacts.content` gives its bytes."""
    found = need(room, call.project, data.session_id)
    return Artifact.model_validate(_need(room, found, data.artifact_id).wire(found.session))


@operation(
    "artifacts.list",
    route=Route("GET", ("/v1/agents/sessions/{session_id}/artifacts",), contract="agents"),
    errors=(Code.INVALID_REQUEST, Code.NOT_FOUND),
    lookup=look_up,
)
def list_artifacts(room: Room, call: Call, data: ArtifactListInput) -> ArtifactList:
    """List the Artifacts of a Session. The next page begins behind `last_id`."""
    found = seen(room, need(room, call.project, data.session_id))
    limit = strict_limit(data.limit)
    after = None
    if data.after is not None:
        after = data.after
        if _find(room, found, after) is None:
            raise Refusal(Fault.INVALID, _CURSOR)
    if data.environment_id not in (None, "", found.environment):
        page: cursors.Page[Published] = cursors.Page((), has_more=False)
    else:
        descending = data.order == "desc"
        rows = publication.walk(_publications(room, found, after, descending), after=after, descending=descending)
        page = cursors.page(rows, limit)
    artifacts = [Artifact.model_validate(row.wire(found.session)) for row in page.rows]
    return ArtifactList.of(artifacts, lambda artifact: artifact.id, has_more=page.has_more)


def _publications(
    room: Room, found: Found, after: str | None, descending: bool
) -> Iterator[tuple[Publication, set[str]]]:
    """Publications in the asked direction, from that of the Artifact `after` on, each with its deleted Artifacts.

    Both kinds of rows are in the order of their Turns' numbers, so each is walked once, page by page.
    """
    start = None if after is None else ids.sequence_of(after, "art")
    deleted = publishing.tombstones(room, found, start=start, descending=descending)
    coming = next(deleted, None)
    for item in publishing.rows(room, found, start=start, descending=descending):
        made = publishing.load(room, item)
        gone: set[str] = set()
        while coming is not None and _reached(coming, made.sequence, descending):
            gone.add(coming)
            coming = next(deleted, None)
        yield made, gone


def _reached(artifact: str, sequence: int, descending: bool) -> bool:
    """Whether an id is of the publication of that number, or of one that lies before it in the direction."""
    number = ids.sequence_of(artifact, "art") or 0
    return number >= sequence if descending else number <= sequence


@operation(
    "artifacts.delete",
    route=Route("DELETE", ("/v1/agents/sessions/{session_id}/artifacts/{artifact_id}",), contract="agents"),
    errors=(Code.NOT_FOUND,),
)
def delete_artifact(room: Room, call: Call, data: ArtifactId) -> ArtifactDeleted:
    """Delete an Artifact. The file of the workspace stays; the same content may be published again."""
    found = need(room, call.project, data.session_id)
    _need(room, found, data.artifact_id)
    mark = secrets.token_hex(8)

    def decide(draft: Draft) -> None:
        try:
            draft.head = publication.removed(draft.head)
        except Refused as refused:
            raise refusal(refused) from None
        draft.put(places.REMOVED + data.artifact_id, {"at": draft.now, "by": mark})

    try:
        swap(room, found, decide)
    except (Conflict, StoreUnavailable) as error:
        # Whose the tombstone is tells whether an answer was lost, or somebody else has deleted it first.
        there = room.state.get(found.partition, places.REMOVED + data.artifact_id)
        if there is None or there.attributes["by"] != mark:
            if isinstance(error, Conflict):
                raise missing() from None
            raise
    return ArtifactDeleted(id=data.artifact_id)
