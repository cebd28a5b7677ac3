"""Whether an answer is whole. botocore takes a JSON body that breaks off for an empty answer: "no such item"."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError


class BrokenAnswer(BotoCoreError):  # type: ignore[misc, unused-ignore]
    """What came is not what the store sent."""

    fmt = "The answer is not whole"


def check(response_dict: Mapping[str, Any], operation_model: Any, **_: Any) -> None:
    """A handler of botocore's event `before-parse`. Errors: BrokenAnswer.

    The length is that of the headers, the CRC-32 DynamoDB's; one of DynamoDB's answers is a JSON object. The body of
    a 5xx and one that is streamed are not looked at: the first says nothing, the second is counted as it is read.
    """
    body, headers, status = response_dict["body"], response_dict["headers"], response_dict["status_code"]
    if not isinstance(body, bytes) or status >= 500 or operation_model.http.get("method") == "HEAD":
        return
    length = headers.get("Content-Length")
    if length is not None and "Content-Encoding" not in headers and int(length) != len(body):
        raise BrokenAnswer
    if operation_model.service_model.service_name == "dynamodb":
        crc = headers.get("x-amz-crc32")
        if (crc is not None and int(crc) != zlib.crc32(body)) or not (body.startswith(b"{") and body.endswith(b"}")):
            raise BrokenAnswer
