"""Reading and creating objects by a grant on one machine: `file:` and an absolute path, not encoded in any way.

Stdlib only: the runner inside the image imports this module and `wire`, and nothing else of `shared`. The folder
store uses the same functions, so both sides create an object in one way only:

    bytes ─ temporary file ─ fsync ─ link(2), which fails where the name exists ─ fsync of the folder

A name of the store is therefore absent or whole, and never changes. No symbolic link is followed at the last step,
and a path with `..` is refused. A `file:` grant has no signature and its end is not enforced: only the service
makes one, and it hands it to its own executor process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator

PIECE = 1 << 20
"""Bytes of one piece of a reading, at most."""
PART = ".part"
"""The suffix of a temporary file. No name of the store ends so; what a crash leaves is removed by its age."""
_ATTEMPTS = 100


class Pieces(Iterator[bytes]):
    """The bytes of an open file in pieces of at most PIECE. Owns the descriptor, closes it at the end or with itself.

    Errors: OSError while reading.
    """

    def __init__(self, descriptor: int, start: int, length: int | None) -> None:
        self._descriptor = descriptor
        self._at = start
        self._left = length

    def __iter__(self) -> Pieces:
        return self

    def __next__(self) -> bytes:
        if self._descriptor < 0:
            raise StopIteration
        want = PIECE if self._left is None else min(PIECE, self._left)
        piece = os.pread(self._descriptor, want, self._at) if want else b""
        if not piece:
            self.close()
            raise StopIteration
        self._at += len(piece)
        if self._left is not None:
            self._left -= len(piece)
        return piece

    def close(self) -> None:
        """Close the file; the iteration is over."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def read(url: str, start: int = 0, length: int | None = None) -> Pieces:
    """The bytes from `start`, `length` of them or all, in pieces; fewer where the object ends before.

    Errors, before the first piece: ValueError (not a `file:` grant, a negative number), FileNotFoundError, OSError.
    """
    return open_pieces(path_of(url), start, length)


def create(url: str, chunks: Iterable[bytes]) -> tuple[int, str]:
    """Create the object, durably, and say its size and SHA-256 (hex). Missing folders are made.

    Errors: ValueError (not a `file:` grant), FileExistsError (it exists and was not touched), OSError. What
    `chunks` raises is passed on. Nothing is left under the name then.
    """
    path = path_of(url)
    folder = os.path.dirname(path)
    part = os.path.join(folder, f"{secrets.token_hex(16)}{PART}")
    digest = hashlib.sha256()
    size = 0
    descriptor = open_part(part)
    try:
        try:
            for chunk in chunks:
                write_all(descriptor, chunk)
                digest.update(chunk)
                size += len(chunk)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        link_new(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
    return size, digest.hexdigest()


def path_of(url: str) -> str:
    """The path of a `file:` grant. ValueError for any other address, and for a path that is not canonical."""
    path = url.removeprefix("file:")
    if path == url or not path.startswith("/") or "\0" in path:
        raise ValueError("not a file grant")
    if any(segment in ("", ".", "..") for segment in path[1:].split("/")):
        raise ValueError("the path of a file grant is canonical")
    return path


def open_pieces(path: str, start: int, length: int | None) -> Pieces:
    """As `read`, of a path."""
    if start < 0 or (length is not None and length < 0):
        raise ValueError("start and length are not negative")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    pieces = Pieces(descriptor, start, length)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        pieces.close()
        raise FileNotFoundError("not a regular file")
    return pieces


def open_part(path: str) -> int:
    """A new temporary file, 0600, open for writing. Missing folders are made, and again if they vanish. OSError."""
    for _ in range(_ATTEMPTS):
        make_folder(os.path.dirname(path))
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    raise FileNotFoundError("the folder of the object is removed again and again")


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`; a short write is continued."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def link_new(source: str, path: str) -> None:
    """Give a synced file its final name, durably. The folder may vanish under us while it is empty.

    Errors: FileExistsError, OSError.
    """
    folder, name = os.path.split(path)
    for attempt in range(_ATTEMPTS):
        make_folder(folder)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            os.link(source, name, dst_dir_fd=descriptor, follow_symlinks=False)
            os.fsync(descriptor)
            return
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1 or not os.path.lexists(source):
                raise
        finally:
            os.close(descriptor)
    raise FileNotFoundError("the folder of the object is removed again and again")


def make_folder(path: str) -> None:
    """Make a folder and those above it, mode 0700, each durable in its parent. Never FileExistsError.

    Folders may come and go meanwhile: one that exists for mkdir(2) may be gone a moment later.
    """
    parent = os.path.dirname(path)
    for _ in range(_ATTEMPTS):
        if os.path.isdir(path):
            return
        make_folder(parent)
        try:
            os.mkdir(path, 0o700)
            sync_folder(parent)
            return
        except FileNotFoundError:
            continue
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(os.stat(path).st_mode):
                    raise NotADirectoryError("a folder of the object is a file") from None
    raise FileNotFoundError("the folder of the object is removed again and again")


def sync_folder(path: str) -> None:
    """fsync(2) of a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
