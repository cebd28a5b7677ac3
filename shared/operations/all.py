"""Importing this module declares every operation."""

from shared.operations import exec as exec_operations
from shared.operations import files, health, keys, programmatic, source_uploads, sources, uploads
from shared.operations.agents import writes
from shared.operations.base import operations

__all__ = [
    "exec_operations",
    "files",
    "health",
    "keys",
    "operations",
    "programmatic",
    "source_uploads",
    "sources",
    "uploads",
    "writes",
]
