"""Which paths the two file operations of an Environment take, in the contract's order of checks (agents.md 3.2, 3.3).

A path is accepted as it stands or refused; nothing is ever cleaned up. Text that is not UTF-8 carries lone surrogates.
"""

from __future__ import annotations

from shared.domain.agents.refusals import Reason, Refused

ROOT = "/workspace"
_PREFIX = ROOT + "/"
_MAX = 4_096
_BARRED = frozenset("\\\0\r\n")


def directory(path: str) -> str:
    """The directory that a list names, relative to the workspace; "" is the workspace. Rows 7a to 7c of 3.2.

    Errors: Refused.
    """
    if not path.startswith("/") or not _plain(path):
        raise Refused(Reason.DIRECTORY)
    if path != "/" and not _clean(path[1:]):
        raise Refused(Reason.DIRECTORY_CLEAN)
    if path != ROOT and not path.startswith(_PREFIX):
        raise Refused(Reason.DIRECTORY)
    return path[len(_PREFIX) :]


def destination(path: str) -> str:
    """The file that a write names, relative to the workspace. Rows 6a to 6c of 3.3. Errors: Refused."""
    if not path.startswith("/"):
        raise Refused(Reason.PATH_ABSOLUTE)
    if not _clean(path[1:]):
        raise Refused(Reason.PATH_COMPONENTS)
    if not path.startswith(_PREFIX) or not _plain(path):
        raise Refused(Reason.PATH_ABSOLUTE)
    return path[len(_PREFIX) :]


def shown(path: str) -> str:
    """A path of the workspace as callers see it."""
    return _PREFIX + path


def _clean(path: str) -> bool:
    return all(part not in ("", ".", "..") for part in path.split("/"))


def _plain(path: str) -> bool:
    """At most 4,096 bytes of UTF-8 without a backslash and the characters that end a line or a C string."""
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return False
    return size <= _MAX and _BARRED.isdisjoint(path)
