"""Which files a completed Turn publishes: every regular file below `outputs/`, or none and the reason (agents.md 6.1).

Taken over a version of the workspace, after every process of the Turn is dead, so nothing moves meanwhile; links are
left out by their kind and never followed. What is found first in the order of the contract's table is the reason.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from shared.domain.agents.envpaths import shown
from shared.domain.manifest import Entry, Manifest
from shared.domain.paths import is_text

OUTPUTS = "outputs"
_BELOW = OUTPUTS + "/"

Fault = Literal["not_a_directory", "special", "changed", "entries", "depth", "name", "path", "file_bytes", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLimits:
    """The contract's limits; N passes, N + 1 fails."""

    entries: int = 4_096
    depth: int = 64
    path_bytes: int = 4_096
    file_bytes: int = 209_715_200
    bytes: int = 524_288_000


CAPTURE_LIMITS = CaptureLimits()


class CaptureFailed(Exception):
    """Nothing is published: the Turn fails with `artifact_capture_failed` and this message (11.1).

    The message names the limit, never a path.
    """

    def __init__(self, fault: Fault, message: str) -> None:
        self.fault: Fault = fault
        self.message = message
        super().__init__(fault)


def capture(
    manifest: Manifest,
    *,
    changed: Collection[str] = (),
    lost: Collection[str] = (),
    limits: CaptureLimits = CAPTURE_LIMITS,
) -> tuple[Entry, ...]:
    """The files below `outputs/`, in bytewise order of paths. Without that folder there is nothing to do.

    `changed` are the paths that the executor saw changing while it read them (11.29), `lost` those that it could not
    keep (11.31); both may name paths elsewhere. Errors: CaptureFailed.
    """
    root = manifest.entries.get(OUTPUTS)
    if root is not None and root.kind != "dir":
        raise CaptureFailed("not_a_directory", "outputs is not a directory.")
    below = [entry for entry in manifest if entry.path.startswith(_BELOW)]
    if any(path == OUTPUTS or path.startswith(_BELOW) for path in lost):
        raise CaptureFailed("special", "An entry below outputs could not be kept.")
    if any(entry.kind not in ("file", "dir", "link") for entry in below):
        raise CaptureFailed("special", "An entry below outputs is a FIFO, a socket or a device.")
    if any(path.startswith(_BELOW) for path in changed):
        raise CaptureFailed("changed", "A file below outputs changed while it was copied.")
    _bounded(below, limits)
    files = tuple(entry for entry in below if entry.kind == "file")
    if any(entry.size > limits.file_bytes for entry in files):
        raise CaptureFailed("file_bytes", f"A file below outputs is larger than {limits.file_bytes} bytes.")
    if sum(entry.size for entry in files) > limits.bytes:
        raise CaptureFailed("bytes", f"The files below outputs are larger than {limits.bytes} bytes together.")
    return files


def elsewhere(lost: Collection[str]) -> bool:
    """Whether something could not be kept outside `outputs/`: that fails the Turn with `sandbox_error` (11.31)."""
    return any(path != OUTPUTS and not path.startswith(_BELOW) for path in lost)


def _bounded(below: list[Entry], limits: CaptureLimits) -> None:
    """Entries of every kind count, links and folders too (11.9). A folder right below `outputs` has depth 1 (11.13)."""
    if len(below) > limits.entries:
        raise CaptureFailed("entries", f"outputs holds more than {limits.entries} entries.")
    if any(entry.kind == "dir" and entry.path.count("/") > limits.depth for entry in below):
        raise CaptureFailed("depth", f"A directory below outputs is deeper than {limits.depth}.")
    if any(not is_text(entry.path) for entry in below):
        raise CaptureFailed("name", "A name below outputs is not UTF-8.")
    if any(len(shown(entry.path).encode("utf-8")) > limits.path_bytes for entry in below):
        raise CaptureFailed("path", f"A path below outputs is longer than {limits.path_bytes} bytes.")
