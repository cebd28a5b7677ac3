"""Importing this module declares every operation."""

from shared.operations import exec as exec_operations
from shared.operations import files, health, keys, programmatic, source_uploads, sources, uploads
from shared.operations.agents import admitting, artifacts, items, saved, sessions, subagents, turns
from shared.operations.base import operations

__all__ = [
    "admitting",
    "artifacts",
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
]
