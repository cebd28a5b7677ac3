"""Importing this module declares every operation."""

from shared.operations import exec as exec_operations
from shared.operations import files, health, keys, programmatic, source_uploads, sources, uploads
from shared.operations.agents import (
    admitting,
    artifacts,
    environment_files,
    environments,
    items,
    saved,
    sessions,
    subagents,
    turns,
    writes,
)
from shared.operations.base import operations

__all__ = [
    "admitting",
    "artifacts",
    "environment_files",
    "environments",
    "exec_operations",
    "files",
    "health",
    "items",
    "keys",
    "operations",
    "programmatic",
    "saved",
    "sessions",
    "source_uploads",
    "sources",
    "subagents",
    "turns",
    "uploads",
    "writes",
]
