"""The publication of a Turn: one immutable record of all its new Artifacts (agents.md 6, 11.26, 11.28).

Sorts: a Turn's record lies under its Turn's number, with which the id of each of its Artifacts begins. A deletion is a
tombstone beside it and moves the head's artifact revision; a completion holds only under the revision that it was
decided on.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from shared.domain.agents import ids
from shared.domain.agents.envpaths import shown
from shared.domain.agents.head import Session
from shared.domain.agents.refusals import Reason, Refused
from shared.domain.manifest import Entry

FORMAT = 1
MAX_DECODED = 64 * 1024 * 1024
"""Bytes of a decoded record: 4,096 Artifacts with paths of 4,096 bytes in JSON escapes fit."""


class BadPublication(ValueError):
    """Stored bytes are no publication."""


class Artifact(NamedTuple):
    """One published file. `path` is relative to the workspace; `blob` and `offset` say where its bytes lie."""

    id: str
    path: str
    size: int
    sha256: str
    blob: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """All new Artifacts of a Turn, in order of their ids. `sequence` is the Turn's, `created` epoch milliseconds."""

    sequence: int
    turn: str
    environment: str
    created: int
    artifacts: tuple[Artifact, ...]

    @property
    def blobs(self) -> set[str]:
        """Keys of the objects that hold its bytes."""
        return {artifact.blob for artifact in self.artifacts if artifact.size}

    def find(self, artifact: str) -> Artifact | None:
        """The Artifact of that id."""
        return next((row for row in self.artifacts if row.id == artifact), None)

    def encode(self) -> bytes:
        """Compressed JSON: format, the members, and a row for each Artifact in field order."""
        rows = [FORMAT, self.sequence, self.turn, self.environment, self.created, self.artifacts]
        return zlib.compress(json.dumps(rows, separators=(",", ":")).encode("ascii"), 1)

    @classmethod
    def decode(cls, data: bytes) -> Publication:
        """Read what `encode` wrote. Errors: BadPublication."""
        try:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(data, MAX_DECODED)
            if unpacker.unconsumed_tail or not unpacker.eof:
                raise BadPublication("too large or cut")
            version, sequence, turn, environment, created, rows = json.loads(text)
            if version != FORMAT:
                raise BadPublication("of another format")
            return cls(
                sequence=sequence,
                turn=turn,
                environment=environment,
                created=created,
                artifacts=tuple(Artifact(*row) for row in rows),
            )
        except (zlib.error, ValueError, TypeError) as error:
            raise BadPublication("unreadable") from error


def newest(
    publications: Iterable[Publication], removed: Collection[str], wanted: Collection[str]
) -> dict[str, Artifact]:
    """For each wanted path its newest Artifact that was not deleted, where there is one (11.28).

    `publications` come newest first and are read no further than needed; `removed` are the ids with a tombstone.
    """
    found: dict[str, Artifact] = {}
    missing = set(wanted)
    if not missing:
        return found
    for publication in publications:
        for artifact in publication.artifacts:
            if artifact.path in missing and artifact.id not in removed:
                missing.discard(artifact.path)
                found[artifact.path] = artifact
        if not missing:
            break
    return found


def decide(files: Sequence[Entry], remaining: Mapping[str, Artifact]) -> list[Entry]:
    """The files that are published: no Artifact of the path remains, or the newest has another content (6.1)."""
    return [file for file in files if file.path not in remaining or remaining[file.path].sha256 != file.sha256]


def publish(
    files: Sequence[Entry], *, sequence: int, turn: str, environment: str, created: int, random: ids.Random
) -> Publication | None:
    """The publication of the decided files, or None where there are none."""
    if not files:
        return None
    place = ids.order(sequence)
    artifacts = (
        Artifact(ids.new("art", random, place), file.path, file.size, file.sha256, file.blob, file.offset)
        for file in files
    )
    return Publication(
        sequence=sequence,
        turn=turn,
        environment=environment,
        created=created,
        artifacts=tuple(sorted(artifacts, key=lambda artifact: artifact.id)),
    )


def removed(head: Session) -> Session:
    """The head behind the deletion of an Artifact: a Turn that completes meanwhile decides again. Errors: Refused."""
    if head.gone:
        raise Refused(Reason.MISSING)
    return replace(head, revision=head.revision + 1)


@dataclass(frozen=True, slots=True)
class Found:
    """An Artifact with the publication that it is of."""

    publication: Publication
    artifact: Artifact

    def wire(self, session: str) -> dict[str, Any]:
        """The Artifact as a client sees it: exactly these eight members (6.2)."""
        return {
            "id": self.artifact.id,
            "object": "agent.session.artifact",
            "session_id": session,
            "turn_id": self.publication.turn,
            "environment_id": self.publication.environment,
            "path": shown(self.artifact.path),
            "size_bytes": self.artifact.size,
            "created_at": self.publication.created // 1000,
        }


def walk(
    publications: Iterable[tuple[Publication, Collection[str]]], *, after: str | None = None, descending: bool = True
) -> Iterator[Found]:
    """Artifacts in the order of (sequence, id), without those that were deleted, behind `after`.

    `publications` come in the asked direction, from that of `after` on, each with the ids of its tombstones. The
    cursor need not be an Artifact that is still there: it is a place.
    """
    for publication, gone in publications:
        rows = publication.artifacts[::-1] if descending else publication.artifacts
        for artifact in rows:
            behind = after is None or (artifact.id < after if descending else artifact.id > after)
            if behind and artifact.id not in gone:
                yield Found(publication, artifact)
