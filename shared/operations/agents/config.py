"""What a Session was created with, and the Session as a client sees it (agents.md 5.1).

One item beside the head. Everything but the metadata never changes; `env` and `setup` are never shown (11.39).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.domain.agents import events
from shared.domain.agents import head as heads
from shared.domain.agents.head import Session
from shared.operations.agents import large, places
from shared.operations.agents.session import Found
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialFile:
    """A file that the Environment is prepared with: where it stands, and where its bytes lie.

    `path` is relative to the workspace. `id` and `file_id` are what is shown of it; `file_id` is empty for inline data.
    """

    id: str
    path: str
    size: int
    sha256: str
    blob: str = ""
    offset: int = 0
    file_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The unchanging part. `agent` and `environment` are JSON as they are shown."""

    agent: dict[str, Any]
    environment: dict[str, Any]
    files: tuple[InitialFile, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    vault_ids: tuple[str, ...] = ()

    def json(self) -> dict[str, Any]:
        """The part as it is stored."""
        files = [[f.id, f.path, f.size, f.sha256, f.blob, f.offset, f.file_id] for f in self.files]
        return {
            "agent": self.agent,
            "environment": self.environment,
            "files": files,
            "env": self.env,
            "setup": list(self.setup),
            "vault_ids": list(self.vault_ids),
        }

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Config:
        """Read what `json` gave."""
        names = ("id", "path", "size", "sha256", "blob", "offset", "file_id")
        return cls(
            agent=row["agent"],
            environment=row["environment"],
            files=tuple(InitialFile(**dict(zip(names, file, strict=True))) for file in row["files"]),
            env=row["env"],
            setup=tuple(row["setup"]),
            vault_ids=tuple(row["vault_ids"]),
        )


@dataclass(frozen=True, slots=True)
class Described:
    """The item: its version, the unchanging part and its place, and the metadata."""

    version: int
    config: Config
    place: dict[str, Any]
    metadata: dict[str, str]

    def attributes(self) -> dict[str, Any]:
        """The item's attributes."""
        return {**self.place, "metadata": self.metadata}


def attributes(room: Room, partition: str, config: Config, metadata: Mapping[str, str]) -> dict[str, Any]:
    """The attributes of a new Session's item; what is large is stored."""
    return {**large.placed(room, partition, config.json()), "metadata": dict(metadata)}


def describe(room: Room, found: Found) -> Described:
    """Read the item. Errors: StoreUnavailable."""
    item = room.state.get(found.partition, places.CONFIG)
    if item is None:
        raise StoreUnavailable("a Session's description")
    row = item.attributes
    place = {"value": row["value"], "pointer": row["pointer"]}
    return Described(item.version, Config.of(large.value(room, row)), place, row["metadata"])


def changing(head: Session, actions: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The members of a Session that change. `actions` are the function calls that it waits for.

    An unsettled write is a member of ours, for the people who have to see it (agents.md 4, DESIGN §8).
    """
    shown: dict[str, Any] = {
        "status": heads.status(head),
        "error": events.FAILED_ENVIRONMENT["message"] if head.environment.status == "failed" else None,
        "last_active_at": head.used // 1000,
        "required_actions": list(actions),
        "usage": None,
    }
    if head.write is not None:
        shown["unsettled_write"] = {"id": head.write.write, "created_at": head.write.since // 1000}
    return shown


def machine_action(found: Found, head: Session) -> list[dict[str, Any]]:
    """What a Session asks for whose Turn waits for a machine of the caller's (agents.md 11.40)."""
    if not heads.waits_for_machine(head):
        return []
    return [{"type": "environment_connection", "environment_id": found.environment}]


def unchanging(found: Found, described: Described) -> dict[str, Any]:
    """The other members of a Session, of which only the metadata can be set anew."""
    config = described.config
    return {
        "id": found.session,
        "object": "agent.session",
        "agent": config.agent,
        "created_at": found.head.created // 1000,
        "environment": config.environment,
        "metadata": described.metadata,
        "vault_ids": list(config.vault_ids),
    }


def session_wire(room: Room, found: Found, described: Described) -> dict[str, Any]:
    """A Session as it is answered. Errors: StoreUnavailable."""
    head = found.head
    actions = machine_action(found, head)
    for call in head.calls:
        item = None if call.batch else room.state.get(found.partition, places.ITEMS + call.item)
        if item is not None:
            row = large.value(room, item.attributes)
            actions.append(
                {
                    "type": "function_call",
                    "call_id": call.call,
                    "name": row["name"],
                    "arguments": row["arguments"],
                    "turn_id": call.turn,
                }
            )
    return {**unchanging(found, described), **changing(head, actions)}
