"""The boto3 clients of the two stores: bounded waits, and no retry that the adapters do not see.

A retry inside the SDK would hide that an answer was lost. So each call of a client is one request, and
`faults.Patience` decides whether there is another one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from shared.store.aws import answers

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

CONNECT_SECONDS = 2.0
"""Wait for a connection."""
STATE_READ_SECONDS = 4.0
"""Wait for each part of an answer of the state store; its answers take milliseconds."""
OBJECTS_READ_SECONDS = 15.0
"""Wait for each part of an answer of the object store, which acknowledges a large object only once it is durable."""
CONNECTIONS = 64
"""Connections of each client; a thread beyond them makes one of its own for the time of its call."""


@dataclass(frozen=True, slots=True)
class Clients:
    """One client a store. Both may be used from any thread."""

    dynamodb: DynamoDBClient
    s3: S3Client

    def close(self) -> None:
        """Close the connections."""
        self.dynamodb.close()
        self.s3.close()


def make_clients(
    region: str | None = None,
    *,
    session: boto3.Session | None = None,
    endpoint: str | None = None,
    state_read_seconds: float = STATE_READ_SECONDS,
    objects_read_seconds: float = OBJECTS_READ_SECONDS,
) -> Clients:
    """Clients with the region and the credentials of the environment, or of `session`.

    An endpoint other than AWS's own comes from `endpoint` or from boto3's variables (`AWS_ENDPOINT_URL`,
    `AWS_ENDPOINT_URL_S3`); with one, a bucket is named in the path, since such a host has no names below it.
    """
    session = session or boto3.Session()
    elsewhere = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    state = _config(state_read_seconds)
    objects = _config(objects_read_seconds).merge(
        Config(
            signature_version="s3v4",
            s3={"addressing_style": "path" if elsewhere else "virtual"},
            # The adapter sends the SHA-256 of what it stores; the SDK's CRC-32 would be a second checksum.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
    )
    clients = Clients(
        session.client("dynamodb", region_name=region, endpoint_url=endpoint, config=state),
        session.client("s3", region_name=region, endpoint_url=endpoint, config=objects),
    )
    clients.dynamodb.meta.events.register("before-parse.dynamodb", answers.check)
    clients.s3.meta.events.register("before-parse.s3", answers.check)
    return clients


def _config(read_seconds: float) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
    )
