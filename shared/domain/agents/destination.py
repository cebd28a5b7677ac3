"""Publishing one file in a version of a workspace, never over anything (agents.md 3.3 rows 14 to 18, 11.3, 11.14).

The bytes lie in the object store already; here is decided where the file stands, on the manifest alone. Links of the
parents are resolved as the kernel would, but inside the workspace only: a step out of it ends the walk. Whoever
publishes commits the result by one swap of the version that it was decided on, so nothing races.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.domain.agents.refusals import Reason, Refused
from shared.domain.manifest import Entry, Manifest

_MOUNTS = ("/workspace", "/mnt/data")
"""Where programs see the workspace: absolute targets of links count from there (11.14)."""
_LINKS = 40
"""Links that one path may follow, as the kernel counts them; more are a loop."""
_PARENT_MODE = 0o700
_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The limits of a workspace and its paths, in the units of `shared.limits`."""

    workspace_bytes: int
    workspace_entries: int
    names_bytes: int
    path_bytes: int
    path_depth: int
    name_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The bytes of a file, where they lie, and when they came (epoch milliseconds)."""

    size: int
    sha256: str
    blob: str
    offset: int = 0
    now: int


def place(manifest: Manifest, path: str, content: Content, sizes: Sizes) -> Manifest:
    """The next version with a new file of mode 0600 at `path` (relative, clean), and its folders (0700).

    Errors: Refused: BAD_PARENT, OCCUPIED, DIRECTORY_THERE, or FULL above a limit of the workspace.
    """
    folder, name, missing = resolve(manifest, path)
    _fits(folder, name, missing, sizes)
    parents, final = _spelled(folder, name, missing)
    there = None if missing else manifest.entries.get(final)
    if there is not None:
        raise Refused(Reason.DIRECTORY_THERE if there.kind == "dir" else Reason.OCCUPIED)
    mtime_ns = content.now * 1_000_000
    new = [Entry(parent, "dir", _PARENT_MODE, mtime_ns=mtime_ns, stored_ms=content.now) for parent in parents]
    new.append(
        Entry(
            final,
            "file",
            _FILE_MODE,
            content.size,
            mtime_ns,
            content.sha256,
            blob=content.blob if content.size else "",
            offset=content.offset if content.size else 0,
            stored_ms=content.now,
            origin="upload",
        )
    )
    version = Manifest.of([*manifest, *new])
    if (
        len(version) > sizes.workspace_entries
        or version.size > sizes.workspace_bytes
        or version.names > sizes.names_bytes
    ):
        raise Refused(Reason.FULL)
    return version


def resolve(manifest: Manifest, path: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Where the parents of `path` lead: the folder that is there, the file's name, and the folders that are missing.

    Errors: Refused(BAD_PARENT) for a parent that is no folder, and for a link that leaves the workspace, leads nowhere
    or turns in a circle (11.14).
    """
    *parents, name = path.split("/")
    entries = manifest.entries
    here: list[str] = []
    todo = list(reversed(parents))
    """Components that are still to be walked, the next one last."""
    own = len(todo)
    """How many of them are the caller's; only of those may one be missing."""
    links = 0
    while todo:
        part = todo.pop()
        mine = len(todo) < own
        own = min(own, len(todo))
        if part == "..":
            if not here:
                raise Refused(Reason.BAD_PARENT)
            here.pop()
            continue
        there = entries.get("/".join([*here, part]))
        if there is None:
            if not mine:
                raise Refused(Reason.BAD_PARENT)
            return tuple(here), name, (part, *reversed(todo))
        if there.kind == "dir":
            here.append(part)
        elif there.kind == "link":
            links += 1
            if links > _LINKS:
                raise Refused(Reason.BAD_PARENT)
            inside = _target(there.target)
            if inside is None:
                raise Refused(Reason.BAD_PARENT)
            absolute, steps = inside
            if absolute:
                here = []
            todo.extend(reversed(steps))
        else:
            raise Refused(Reason.BAD_PARENT)
    return tuple(here), name, ()


def _target(target: str) -> tuple[bool, list[str]] | None:
    """Whether a link's target is absolute, and its steps from there; None where it begins outside the workspace."""
    absolute = target.startswith("/")
    steps = [part for part in target.split("/") if part not in ("", ".")]
    if not absolute:
        return False, steps
    for mount in _MOUNTS:
        root = mount[1:].split("/")
        if steps[: len(root)] == root:
            return True, steps[len(root) :]
    return None


def _spelled(folder: tuple[str, ...], name: str, missing: tuple[str, ...]) -> tuple[list[str], str]:
    """The paths of the missing folders, outermost first, and of the file."""
    at = list(folder)
    parents = []
    for part in missing:
        at.append(part)
        parents.append("/".join(at))
    return parents, "/".join([*at, name])


def _fits(folder: tuple[str, ...], name: str, missing: tuple[str, ...], sizes: Sizes) -> None:
    """What no file system would take is refused as any other path that cannot be made."""
    parts = (*folder, *missing, name)
    lengths = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if (
        len(parts) > sizes.path_depth
        or max(lengths) > sizes.name_bytes
        or sum(lengths) + len(parts) - 1 > sizes.path_bytes
    ):
        raise Refused(Reason.BAD_PARENT)


def install(manifest: Manifest, files: Mapping[str, Content], sizes: Sizes) -> Manifest:
    """The version with a Session's initial files, whose paths differ; they do replace what is there (agents.md 2).

    Errors: Refused, as `place`.
    """
    for path, content in files.items():
        there = manifest.entries.get(path)
        bare = manifest.without(path) if there is not None and there.kind == "file" else manifest
        manifest = place(bare, path, content, sizes)
    return manifest
