"""Which paths a workspace may hold. A path is accepted only if it is already canonical; nothing is ever cleaned up.

Sources: exec.md A3 (`files[].name`), cases.md C7.
"""

from __future__ import annotations


def refusal(path: str, *, max_bytes: int, max_depth: int, max_name: int) -> str | None:
    """Why a caller's path is refused, or None when it is a canonical relative POSIX path.

    The reason completes the sentence "`field` …" and names the limit. A backslash is refused: a caller that sends one
    means a separator that this system does not have.
    """
    if not path:
        return "must not be empty"
    try:
        raw = path.encode("utf-8")
    except UnicodeEncodeError:
        return "must be valid Unicode text"
    if "\\" in path:
        return "must not contain a backslash"
    return _shape(raw, max_bytes=max_bytes, max_depth=max_depth, max_name=max_name)


def program_refusal(path: str, *, max_bytes: int, max_depth: int, max_name: int) -> str | None:
    """The same for a path that a program made: any byte but NUL and `/` may stand in a segment (surrogateescape)."""
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "must be a file name"
    return _shape(raw, max_bytes=max_bytes, max_depth=max_depth, max_name=max_name)


def _shape(raw: bytes, *, max_bytes: int, max_depth: int, max_name: int) -> str | None:
    if len(raw) > max_bytes:
        return f"must not be longer than {max_bytes} bytes"
    if b"\0" in raw:
        return "must not contain NUL"
    segments = raw.split(b"/")
    if len(segments) > max_depth:
        return f"must not be deeper than {max_depth} segments"
    if segments[0] == b"":
        return "must be relative"
    if any(segment in (b"", b".", b"..") for segment in segments):
        return "must not have an empty, `.` or `..` segment"
    if any(len(segment) > max_name for segment in segments):
        return f"must not have a segment longer than {max_name} bytes"
    return None


def parents(path: str) -> list[str]:
    """The folders above a path, outermost first: `a/b/c` has `a` and `a/b`."""
    found = []
    end = path.find("/")
    while end >= 0:
        found.append(path[:end])
        end = path.find("/", end + 1)
    return found


def is_text(path: str) -> bool:
    """Whether every byte of the name is UTF-8; another name is kept in a workspace and shown to nobody."""
    return path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path)


def sort_key(path: str) -> bytes:
    """Bytewise order of names, as every listing has it."""
    return path.encode("utf-8", "surrogateescape")
