"""Who is calling. The project comes from a validated credential and from nowhere else (DESIGN §2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """An admitted caller.

    `project` scopes every partition and object key. `key_id` names the credential in logs (never the secret).
    `subject` is the user whom a token proves; a key proves a project only.
    """

    project: str
    key_id: str
    subject: str | None = None
