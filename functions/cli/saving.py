"""Save files under names that a program chose. **The names are hostile**: nothing is written outside the folder.

Each folder on the way is opened from the one before it and never through a link, so that neither `..` nor a link
that lies there leads out; the file itself is written beside its place and renamed over it, which replaces a link
instead of following it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from functions.cli.show import Refused

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def segments(name: str) -> list[str]:
    """The segments of a canonical relative path. Errors: Refused."""
    parts = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise Refused(f"{name} is not a relative path in canonical form: not saved")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise Refused(f"{name} cannot be a file name here: not saved") from None
    return parts


def save(base: Path, name: str, pieces: Iterator[bytes]) -> None:
    """Write `pieces` to `name` below `base`, which is made if it is not there. Errors: Refused.

    The file appears whole or not at all; an earlier file of that name is replaced.
    """
    *folders, last = segments(name)
    try:
        base.mkdir(parents=True, exist_ok=True)
        with _below(base, folders) as folder:
            _write(folder, last, pieces)
    except OSError as error:
        raise Refused(f"{name} cannot be saved: {error.strerror}") from error


@contextmanager
def _below(base: Path, folders: list[str]) -> Iterator[int]:
    """A descriptor of the folder, made where it is missing."""
    at = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            with suppress(FileExistsError):  # what is there is opened below, which refuses a link
                os.mkdir(folder, dir_fd=at)
            inner = os.open(folder, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)


def _write(folder: int, name: str, pieces: Iterator[bytes]) -> None:
    part = f".workroom-{secrets.token_hex(8)}.part"
    try:
        with os.fdopen(os.open(part, _FILE, 0o666, dir_fd=folder), "wb") as file:
            for piece in pieces:
                file.write(piece)
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise
