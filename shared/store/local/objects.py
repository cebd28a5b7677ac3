"""The object port on a folder: one file an object, made by link(2), so a key is absent or whole (DESIGN §4).

    <folder>/keys/…      the objects, named by `keys`
    <folder>/staging/…   bytes on their way in; what a crash leaves there is removed by its age

Everything is 0700 and 0600. The folder is ours alone; programs run as other users and never see it. The digest of an
object lies in an extended attribute where the file system has them; an object that an executor created has none,
since its digest is a claim.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from shared.executor import filegrant
from shared.store.items import check_limit
from shared.store.local import keys
from shared.store.names import is_key
from shared.store.ports import (
    DigestMismatch,
    Grant,
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    StoreUnavailable,
)

_DIGEST = "user.workroom.sha256"


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """What the system refuses is StoreUnavailable; the message holds no path."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"the object folder failed: {type(error).__name__} {error.errno}") from error


class FileStage:
    """The stage port: a file in the staging folder, whose second name is the object. For one thread at a time."""

    def __init__(self, keys_folder: str, staging: str) -> None:
        self._keys = keys_folder
        self._digest = hashlib.sha256()
        self._size = 0
        self._part = os.path.join(staging, f"{secrets.token_hex(16)}{filegrant.PART}")
        self._descriptor = -1
        with _errors():
            self._descriptor = filegrant.open_part(self._part)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes written so far."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        """Append. Errors: StoreUnavailable, after which only a discard is of use; ValueError after the end."""
        if self._descriptor < 0:
            raise ValueError("the stage is closed")
        with _errors():
            filegrant.write_all(self._descriptor, data)
        self._digest.update(data)
        self._size += len(data)

    def commit(self, key: str) -> None:
        """As the port says. Errors: also ValueError for what is not a key, and after the end."""
        if self._descriptor < 0:
            raise ValueError("the stage is closed")
        path = os.path.join(self._keys, keys.file_of(key))
        with _errors():
            with contextlib.suppress(OSError):
                os.setxattr(self._descriptor, _DIGEST, self.sha256.encode())
            # Its age is the object's, not that of bytes that came long before the last of a slow upload.
            os.utime(self._descriptor)
            os.fsync(self._descriptor)
            try:
                filegrant.link_new(self._part, path)
            except FileExistsError as error:
                raise ObjectExists from error
        self.discard()

    def discard(self) -> None:
        """End the stage and remove its file. Never raises: a file that stays is removed by its age."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):
                os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(self._part)

    def __enter__(self) -> FileStage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def __del__(self) -> None:
        self.discard()


class _Reading(Iterator[bytes]):
    """Pieces of an object, with the port's errors."""

    def __init__(self, pieces: filegrant.Pieces) -> None:
        self._pieces = pieces

    def __iter__(self) -> _Reading:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._pieces)
        except OSError as error:
            raise StoreUnavailable(f"an object cannot be read: {type(error).__name__}") from error

    def close(self) -> None:
        """Close the file before the end is reached."""
        self._pieces.close()


class FileObjects:
    """The object port on one folder. Safe between threads and between processes of one machine."""

    def __init__(self, folder: Path) -> None:
        """Open or create. Errors: StoreUnavailable."""
        self._keys = str(folder.absolute() / "keys")
        self._staging = str(folder.absolute() / "staging")
        with _errors():
            for path in (self._keys, self._staging):
                filegrant.make_folder(path)
                os.chmod(path, 0o700)

    def put_new(self, key: str, body: bytes, sha256: str) -> None:
        """As the port says. Errors: also ValueError for what is not a key."""
        path = self._path(key)
        if hashlib.sha256(body).hexdigest() != sha256:
            raise DigestMismatch
        if os.path.lexists(path):  # spares the writing; what decides is link(2)
            raise ObjectExists
        with self.stage() as stage:
            stage.write(body)
            stage.commit(key)

    def stage(self) -> FileStage:
        """As the port says."""
        return FileStage(self._keys, self._staging)

    def read(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """As the port says; the file is open when this returns. Errors: also ValueError for a negative number."""
        if start < 0 or (length is not None and length < 0):
            raise ValueError("start and length are not negative")
        if not is_key(key):
            raise ObjectMissing
        with _errors():
            try:
                return _Reading(filegrant.open_pieces(self._path(key), start, length))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise ObjectMissing from error

    def head(self, key: str) -> ObjectInfo | None:
        """As the port says; with the digest, but of an object that an executor created."""
        return self._info(key, self._path(key)) if is_key(key) else None

    def list(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> list[ObjectInfo]:
        """As the port says. Errors: also ValueError for a limit out of range."""
        check_limit(limit)
        found: list[ObjectInfo] = []
        with _errors():
            for key, path in self._walk(prefix, after or ""):
                info = self._info(key, path)
                if info is not None:
                    found.append(info)
                    if len(found) == limit:
                        break
        return found

    def delete(self, key: str) -> None:
        """As the port says. Folders that it leaves empty go too."""
        if not is_key(key):
            return
        path = self._path(key)
        with _errors(), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)
            self._prune(os.path.dirname(path))

    def delete_prefix(self, prefix: str) -> int:
        """As the port says; what executors are writing there goes too. ValueError without a `/` at the end."""
        if not prefix.endswith("/"):
            raise ValueError("the prefix of a deletion ends with /")
        if not is_key(prefix[:-1]):
            return 0
        folder = os.path.join(self._keys, keys.folder_of(prefix))
        count = 0
        with _errors():
            for path, _, names in os.walk(folder, topdown=False, onerror=_unless_gone):
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(path, name))
                        count += name.endswith(keys.FILE)
                with contextlib.suppress(OSError):
                    os.rmdir(path)
            self._prune(os.path.dirname(folder))
        return count

    def grant_read(self, key: str, *, seconds: int) -> Grant:
        """A `file:` grant (see `shared.executor.filegrant`). Errors: ObjectMissing for what is not a key."""
        if not is_key(key):
            raise ObjectMissing
        return Grant("GET", f"file:{self._path(key)}", int(time.time()) + seconds)

    def grant_write(self, key: str, *, seconds: int) -> Grant:
        """A `file:` grant (see `shared.executor.filegrant`). Errors: ValueError for what is not a key."""
        return Grant("PUT", f"file:{self._path(key)}", int(time.time()) + seconds)

    def sweep_staging(self, older_than_seconds: float) -> int:
        """Remove temporary files that nobody has written to for that long; how many. For the janitor.

        They lie in the staging folder and, of executors' grants, beside the objects. Empty folders go by the way.
        """
        before = time.time() - older_than_seconds
        count = 0
        with _errors():
            for root in (self._staging, self._keys):
                for path, _, names in os.walk(root, topdown=False, onerror=_unless_gone):
                    for name in names:
                        if name.endswith(filegrant.PART):
                            count += _remove_older(os.path.join(path, name), before)
                    if path != root:
                        with contextlib.suppress(OSError):
                            os.rmdir(path)
        return count

    def _path(self, key: str) -> str:
        return os.path.join(self._keys, keys.file_of(key))

    def _info(self, key: str, path: str) -> ObjectInfo | None:
        with _errors():
            try:
                status = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            digest = None
            with contextlib.suppress(OSError):
                digest = os.getxattr(path, _DIGEST, follow_symlinks=False).decode("ascii", "replace")
            return ObjectInfo(key, status.st_size, status.st_mtime, digest)

    def _walk(self, prefix: str, after: str) -> Iterator[tuple[str, str]]:
        """Keys with their paths, in order: those that begin with `prefix` and come after `after`."""
        base = prefix[: prefix.rfind("/") + 1]
        if base and not is_key(base[:-1]):
            return
        stack = [(base, os.path.join(self._keys, keys.folder_of(base)) if base else self._keys, False)]
        while stack:
            key, path, whole = stack.pop()
            if whole:
                yield key, path
                continue
            below = []
            for name in _names(path):
                part = keys.token(name)
                if part is None:
                    continue
                reached, whole = key + part, name.endswith(keys.FILE)
                if whole:
                    wanted = reached.startswith(prefix) and reached > after
                else:
                    wanted = (reached.startswith(prefix) or prefix.startswith(reached)) and (
                        reached > after or after.startswith(reached)
                    )
                if wanted:
                    below.append((reached, os.path.join(path, name), whole))
            # A file `x.o` and a chunk `x.c` share their token; the file is the lesser key.
            below.sort(key=lambda entry: (entry[0], not entry[2]), reverse=True)
            stack += below

    def _prune(self, path: str) -> None:
        """Remove folders upward while they are empty. A put that races makes them again."""
        while path != self._keys:
            try:
                os.rmdir(path)
            except FileNotFoundError:
                pass
            except OSError:
                return
            path = os.path.dirname(path)


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _remove_older(path: str, before: float) -> int:
    with contextlib.suppress(FileNotFoundError):
        if os.lstat(path).st_mtime < before:
            os.unlink(path)
            return 1
    return 0
