"""What a failed request says about its effect, and how long another one is worth trying."""

from __future__ import annotations

import enum
import random
import time

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError, IncompleteReadError
from botocore.parsers import ResponseParserError

from shared.store.aws.answers import BrokenAnswer
from shared.store.ports import StoreUnavailable

Failed = (BotoCoreError, ClientError, ResponseParserError)
"""All that a call of a boto3 client raises."""

_BUSY = frozenset(
    {
        # DynamoDB
        "ThrottlingException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "TransactionConflictException",
        "LimitExceededException",
        # S3
        "SlowDown",
        "Throttling",
        "RequestThrottled",
        "TooManyRequests",
        "ConditionalRequestConflict",
        "OperationAborted",
        "RequestTimeout",
        "BadDigest",
        "XAmzContentSHA256Mismatch",
        "XAmzContentChecksumMismatch",
    }
)
_LOST = frozenset({"TransactionInProgressException"})
_NO_ANSWER = (ConnectionError, HTTPClientError, IncompleteReadError, ResponseParserError, BrokenAnswer)


class Fault(enum.Enum):
    """What is known of a request that failed."""

    BUSY = "busy"
    """It had no effect, and may be sent again."""
    LOST = "lost"
    """Its answer was lost: it may have had its effect, may yet have it, or may never have arrived."""
    REFUSED = "refused"
    """It had no effect, and will not have one."""


def code_of(error: Exception) -> str:
    """The service's own name of an error; the status as text where an answer had no body; the type of any other."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return type(error).__name__


def status_of(error: Exception) -> int:
    """The HTTP status of an answer; 0 where there was none."""
    if isinstance(error, ClientError):
        return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return 0


def judge(error: Exception) -> Fault:
    """Classify. What is not known for sure counts as lost."""
    if isinstance(error, ClientError):
        code, status = code_of(error), status_of(error)
        if code in _BUSY or status == 429:
            return Fault.BUSY
        if code in _LOST or not 400 <= status < 500:
            return Fault.LOST
        return Fault.REFUSED
    if isinstance(error, _NO_ANSWER):
        return Fault.LOST
    return Fault.REFUSED


class Patience:
    """The time that one call of a port has for all its requests. For one thread.

    Waits grow by doubling up to `most` seconds, each of them drawn between nothing and that (full jitter).
    """

    def __init__(self, seconds: float, *, first: float = 0.02, most: float = 1.0) -> None:
        self._end = time.monotonic() + seconds
        self._wait = first
        self._most = most
        self.lost = False
        """Whether a request so far may have had an effect that nobody has told us."""

    def again(self, error: Exception) -> None:
        """Wait before another request. Errors: StoreUnavailable where there is none."""
        fault = judge(error)
        if fault is Fault.REFUSED:
            raise StoreUnavailable(f"the store refused a request: {code_of(error)}") from error
        self.lost = self.lost or fault is Fault.LOST
        self.pause(error)

    def pause(self, error: Exception) -> None:
        """Wait. Errors: StoreUnavailable where the time is over."""
        wait = random.uniform(0, self._wait)
        self._wait = min(self._wait * 2, self._most)
        if time.monotonic() + wait >= self._end:
            raise StoreUnavailable(f"the store gave no answer in time: {code_of(error)}") from error
        time.sleep(wait)
