"""Reading an S3 object: one answer, taken up where it broke off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shared.store.aws.faults import Failed, Patience, code_of, status_of
from shared.store.ports import ObjectMissing, StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PIECE = 1 << 20
"""Bytes of one piece, at most."""


class Reading(Iterator[bytes]):
    """The bytes of an object from `start`, `length` of them or all, in pieces; fewer where the object ends before.

    The object is asked for when this is made. A broken answer is taken up by another one for the rest, of the same
    object (`If-Match`). For one thread at a time.
    """

    def __init__(self, client: S3Client, bucket: str, key: str, start: int, length: int | None, seconds: float) -> None:
        """Errors: ObjectMissing, StoreUnavailable."""
        self._client = client
        self._asked: dict[str, Any] = {"Bucket": bucket, "Key": key}
        self._at = start
        self._end = None if length is None else start + length
        self._seconds = seconds
        self._patience = Patience(seconds)
        self._body: Any = None
        self._over = False
        self._open()

    def __iter__(self) -> Reading:
        return self

    def __next__(self) -> bytes:
        while not self._over:
            try:
                if self._body is None:
                    self._open()
                    continue
                piece: bytes = self._body.read(PIECE)
            except Failed as error:
                self._drop()
                self._patience.again(error)
                continue
            if not piece:
                break
            self._patience = Patience(self._seconds)
            self._at += len(piece)
            return piece
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End the answer before its end is reached; the iteration is over."""
        self._over = True
        self._drop()

    def __del__(self) -> None:
        self._drop()

    def _drop(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.close()

    def _open(self) -> None:
        """Ask for the rest."""
        first = "IfMatch" not in self._asked
        if self._end is not None and self._end <= self._at and not first:
            self.close()
            return
        # An empty range cannot be asked for: one byte tells whether the object is there.
        empty = self._end is not None and self._end <= self._at
        if self._at or self._end is not None:
            last = self._at if empty else "" if self._end is None else self._end - 1
            self._asked["Range"] = f"bytes={self._at}-{last}"
        while True:
            try:
                answer = self._client.get_object(**self._asked)
                break
            except Failed as error:
                if status_of(error) == 416:
                    self._over = True
                    return
                if status_of(error) == 412 or (status_of(error) == 404 and code_of(error) == "NoSuchKey"):
                    if first:
                        raise ObjectMissing from None
                    raise StoreUnavailable("an object was deleted while it was read") from None
                self._patience.again(error)
        self._asked["IfMatch"] = answer["ETag"]
        self._body = answer["Body"]
        if empty:
            self.close()
