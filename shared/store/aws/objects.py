"""The object port on one S3 bucket (DESIGN §4).

An object is put by one PutObject with `If-None-Match: *` and its SHA-256, which S3 verifies over the whole body; a
multipart upload, whose digest S3 composes of parts, is not used: 5 GB fit into one request, and a conflict means
to send it again from the start in either way. What comes in pieces is spooled in an unlinked temporary file first.

A put carries a write id of its own. After a lost answer, "it exists" is asked for whose it is: only the write id,
never an equal digest, makes an object ours.
"""

from __future__ import annotations

import base64
import hashlib
import io
import secrets
import tempfile
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from shared.store.aws.bounds import may_begin, start_after
from shared.store.aws.faults import Failed, Patience, code_of, status_of
from shared.store.aws.grants import Grants
from shared.store.aws.reading import Reading
from shared.store.items import check_limit
from shared.store.names import check_key, is_key
from shared.store.ports import (
    DigestMismatch,
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_IN_MEMORY = 1 << 20  # bytes of a stage that need no file
_BATCH = 1000  # DeleteObjects' limit
_WRITE_ID = "write"  # x-amz-meta-write
_T = TypeVar("_T")


class S3Stage:
    """The stage port: bytes in memory, above 1 MiB in an unlinked temporary file, until they are put in one request.

    For one thread at a time.
    """

    def __init__(self, put: Callable[[str, IO[bytes], int, str], None]) -> None:
        self._put = put
        self._digest = hashlib.sha256()
        self._size = 0
        self._file: IO[bytes] | None = cast(IO[bytes], tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes written so far."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        """Append. Errors: StoreUnavailable where the disk is full; ValueError after the end."""
        file = self._open()
        try:
            file.write(data)
        except OSError as error:
            raise StoreUnavailable(f"a stage cannot be written: {type(error).__name__}") from error
        self._digest.update(data)
        self._size += len(data)

    def commit(self, key: str) -> None:
        """As the port says. Errors: also ValueError for what is not a key, and after the end."""
        self._put(check_key(key), self._open(), self._size, self.sha256)
        self.discard()

    def discard(self) -> None:
        """End the stage and forget its bytes."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> IO[bytes]:
        if self._file is None:
            raise ValueError("the stage is closed")
        return self._file

    def __enter__(self) -> S3Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def __del__(self) -> None:
        self.discard()


class S3Objects(Grants):
    """The object port on a bucket. Safe between threads and processes.

    `seconds` bounds one call with all its repetitions, but for the time-out of its last request; a put may take
    as long again as its bytes need at 1 MB/s.
    """

    def __init__(self, client: S3Client, bucket: str, *, seconds: float = 20.0) -> None:
        super().__init__(client, bucket)
        self._seconds = seconds

    def put_new(self, key: str, body: bytes, sha256: str) -> None:
        """As the port says. Errors: also ValueError for what is not a key."""
        check_key(key)
        if hashlib.sha256(body).hexdigest() != sha256:
            raise DigestMismatch
        self._put(key, io.BytesIO(body), len(body), sha256)

    def stage(self) -> S3Stage:
        """As the port says."""
        return S3Stage(self._put)

    def read(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """As the port says; the answer has begun when this returns. Errors: also ValueError for a negative number."""
        if start < 0 or (length is not None and length < 0):
            raise ValueError("start and length are not negative")
        if not is_key(key):
            raise ObjectMissing
        return Reading(self._client, self._bucket, key, start, length, self._seconds)

    def head(self, key: str) -> ObjectInfo | None:
        """As the port says; with the digest, but of an object that an executor created."""
        if not is_key(key):
            return None
        about = self._head(key)
        if about is None:
            return None
        digest = about.get("ChecksumSHA256")
        whole = digest is not None and about.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT"
        return ObjectInfo(
            key,
            about["ContentLength"],
            about["LastModified"].timestamp(),
            base64.b64decode(digest).hex() if whole and digest is not None else None,
        )

    def list(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> list[ObjectInfo]:
        """As the port says, without digests. Errors: also ValueError for a limit out of range."""
        check_limit(limit)
        if not may_begin(prefix):
            return []
        asked: dict[str, Any] = {"Bucket": self._bucket, "Prefix": prefix}
        if after:
            asked["StartAfter"] = start_after(after)
        found: list[ObjectInfo] = []
        while True:
            asked["MaxKeys"] = limit - len(found)
            page = self._try(lambda: self._client.list_objects_v2(**asked))
            found += [
                # Whole seconds, as the header of `head` has them.
                ObjectInfo(one["Key"], one["Size"], one["LastModified"].timestamp() // 1)
                for one in page.get("Contents", [])
            ]
            if len(found) >= limit or not page.get("IsTruncated"):
                return found
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, key: str) -> None:
        """As the port says."""
        if is_key(key):
            self._try(lambda: self._client.delete_object(Bucket=self._bucket, Key=key))

    def delete_prefix(self, prefix: str) -> int:
        """As the port says. Errors: ValueError without a `/` at the end."""
        if not prefix.endswith("/"):
            raise ValueError("the prefix of a deletion ends with /")
        count = 0
        while found := self.list(prefix, limit=_BATCH) if is_key(prefix[:-1]) else []:
            keys = [{"Key": info.key} for info in found]
            patience = Patience(self._seconds)
            while keys:
                try:
                    answer = self._client.delete_objects(
                        Bucket=self._bucket, Delete={"Objects": cast(Any, keys), "Quiet": True}
                    )
                except Failed as error:
                    patience.again(error)
                    continue
                keys = [{"Key": failed["Key"]} for failed in answer.get("Errors", []) if "Key" in failed]
                if keys:
                    patience.pause(StoreUnavailable("not deleted"))
            count += len(found)
            if len(found) < _BATCH:
                break
        return count

    def _put(self, key: str, body: IO[bytes], size: int, sha256: str) -> None:
        """Put once. The body is sent from its beginning at each attempt."""
        write = secrets.token_urlsafe(16)
        patience = Patience(self._seconds + size / 1e6)
        while True:
            body.seek(0)
            try:
                self._client.put_object(
                    Bucket=self._bucket,
                    Key=key,
                    Body=body,
                    ContentLength=size,
                    ContentType="application/octet-stream",
                    IfNoneMatch="*",
                    ChecksumSHA256=base64.b64encode(bytes.fromhex(sha256)).decode(),
                    Metadata={_WRITE_ID: write},
                )
                return
            except Failed as error:
                if status_of(error) != 412:
                    patience.again(error)
                    continue
                if patience.lost and self._is_ours(key, write):
                    return
                raise ObjectExists from None

    def _is_ours(self, key: str, write: str) -> bool:
        """Whose object it is that stood in the way of a repetition.

        Errors: StoreUnavailable where it is gone meanwhile, since then nobody can tell.
        """
        about = self._head(key)
        if about is None:
            raise StoreUnavailable("an object was deleted while it was put")
        return bool(about["Metadata"].get(_WRITE_ID) == write)

    def _head(self, key: str) -> dict[str, Any] | None:
        def ask() -> dict[str, Any] | None:
            try:
                return cast(
                    dict[str, Any],
                    self._client.head_object(Bucket=self._bucket, Key=key, ChecksumMode="ENABLED"),
                )
            except self._client.exceptions.ClientError as error:
                if status_of(error) == 404 and code_of(error) in {"404", "NoSuchKey"}:
                    return None
                raise

        return self._try(ask)

    def _try(self, request: Callable[[], _T]) -> _T:
        """A request that has the same effect however often it is sent."""
        patience = Patience(self._seconds)
        while True:
            try:
                return request()
            except Failed as error:
                patience.again(error)
