"""Grants on S3 objects: presigned addresses (SigV4), each for one key and one method, until a time.

Whoever has an address may use it; it dies with the credentials that signed it, if they end before. S3 checks the
time when a request begins. What a grant names in `headers` is part of the signature and must be sent as it is;
a checksum in the query instead would be signed and then ignored.
"""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from shared.store.names import check_key, is_key
from shared.store.ports import Grant, ObjectMissing, StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_SECONDS = 7 * 24 * 3600
"""The longest life of an address (SigV4)."""


class Grants:
    """The grants of one bucket. Makes no request."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def grant_read(self, key: str, *, seconds: int) -> Grant:
        """A GET, with any Range. Errors: ObjectMissing for what is not a key."""
        if not is_key(key):
            raise ObjectMissing
        return self._grant("get_object", "GET", {"Key": key}, seconds)

    def grant_write(self, key: str, *, seconds: int) -> Grant:
        """A PUT with `If-None-Match: *`, of any bytes. Errors: ValueError for what is not a key."""
        asked = {"Key": check_key(key), "IfNoneMatch": "*"}
        return self._grant("put_object", "PUT", asked, seconds, {"If-None-Match": "*"})

    def upload(self, key: str, *, size: int, sha256: str, expires_at: int) -> Grant:
        """A client's PUT of exactly these bytes, once (`shared.operations.room.UploadGrants`). `sha256` is hex.

        S3 refuses other bytes, another length, a second time and a late one. Errors: ValueError for what is not a
        key, a size or a digest, and for a time that is over.
        """
        digest = bytes.fromhex(sha256)
        if size < 0 or len(digest) != 32:
            raise ValueError("size and sha256 are those of bytes")
        checksum = base64.b64encode(digest).decode()
        asked = {"Key": check_key(key), "IfNoneMatch": "*", "ContentLength": size, "ChecksumSHA256": checksum}
        headers = {"If-None-Match": "*", "Content-Length": str(size), "x-amz-checksum-sha256": checksum}
        return self._grant("put_object", "PUT", asked, expires_at - int(time.time()), headers)

    def grant_download(self, key: str, *, seconds: int, name: str, media: str) -> Grant:
        """A client's GET that a browser keeps as a file `name` of the type `media`. ObjectMissing as `grant_read`.

        `name` is any text; what a header cannot hold is encoded (RFC 6266, RFC 8187).
        """
        if not is_key(key):
            raise ObjectMissing
        plain = "".join(c if " " <= c <= "~" and c not in '"\\%;' else "_" for c in name)
        encoded = quote(name.encode("utf-8", "replace"), safe="")
        asked = {
            "Key": key,
            "ResponseContentDisposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}",
            "ResponseContentType": media,
        }
        return self._grant("get_object", "GET", asked, seconds)

    def _grant(
        self, operation: str, method: str, asked: dict[str, Any], seconds: int, headers: dict[str, str] | None = None
    ) -> Grant:
        if not 1 <= seconds <= MAX_SECONDS:
            raise ValueError(f"a grant lasts 1 to {MAX_SECONDS} seconds")
        expires_at = int(time.time()) + seconds
        try:
            url = self._client.generate_presigned_url(
                operation, Params={"Bucket": self._bucket, **asked}, ExpiresIn=seconds, HttpMethod=method
            )
        except Exception as error:
            raise StoreUnavailable(f"a grant cannot be signed: {type(error).__name__}") from error
        return Grant(method, url, expires_at, headers or {})
