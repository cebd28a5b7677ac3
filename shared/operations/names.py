"""Partitions, sorts and object keys: the only place where they are spelled.

A partition begins with the project's id, so a foreign id is simply not found (DESIGN §3).
"""

from __future__ import annotations

from typing import Literal

from shared.domain.ids import digest, tenant_id
from shared.identity import Caller

HEAD = "head"
RECORD = "record"
SYSTEM = "sys"
KEYS = "keys"
SOURCES = "source/"
SAVED_AGENTS = "agent/"


def project(project_id: str) -> str:
    """The partition of what a project lists."""
    return f"p/{project_id}"


def session(project_id: str, session_id: str) -> str:
    """The partition of one session; with `/` behind it, the prefix of the session's objects."""
    return f"p/{project_id}/s/{session_id}"


def record(project_id: str, kind: str, name: str) -> str:
    """The partition of one request record: `kind` is "run", "idem" or "upload"."""
    return f"p/{project_id}/{kind}/{name}"


def source_row(file_id: str) -> str:
    """The sort of a source file's row in the project's partition."""
    return SOURCES + file_id


def source(project_id: str, file_id: str) -> str:
    """With `/` behind it, the prefix of a source file's object: the owner by which the janitor finds its row."""
    return f"p/{project_id}/source/{file_id}"


def source_upload(project_id: str, upload_id: str) -> str:
    """The partition of an upload in parts; with `/` behind it, the prefix of its parts' objects."""
    return f"p/{project_id}/parts/{upload_id}"


def session_row(session_id: str) -> str:
    """The sort of a session's index row in the project's partition."""
    return f"session/{session_id}"


def hint_row(user: str, hint: str) -> str:
    """The sort of the row that points a `runtime_session_hint` at its session (exec.md A8.3)."""
    return f"hint/{digest(user, hint)}"


def project_row(project_id: str) -> str:
    """The sort, in the system partition, of a project's row: the janitor walks these."""
    return f"project/{project_id}"


def workspace(project_id: str, session_id: str) -> str:
    """The name under which an executor may hold the workspace: opaque, and of one project only."""
    return digest("workspace", project_id, session_id)[:40]


def tenant(
    secret: bytes, isolation: Literal["user", "session", "project"], caller: Caller, label: str | None, session_id: str
) -> str:
    """Who may share an executor's environment with this run (DESIGN §7): opaque, and of one project only.

    A user is the subject of the caller's token; else the `label` that the project's own server sends; else nobody is
    known to be behind two sessions.
    """
    scope, value = "session", session_id
    if isolation == "project":
        scope, value = "project", ""
    elif isolation == "user" and caller.subject:
        scope, value = "subject", caller.subject
    elif isolation == "user" and label:
        scope, value = "label", label
    return tenant_id(secret, scope, caller.project, value)


def saved_agent_row(agent_id: str) -> str:
    """The sort of a saved agent's row in the project's partition."""
    return SAVED_AGENTS + agent_id


def saved_agent(project_id: str, agent_id: str) -> str:
    """With `/` behind it, the prefix of a saved agent's objects: the owner by which the janitor finds its row."""
    return f"p/{project_id}/agent/{agent_id}"
