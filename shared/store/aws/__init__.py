"""Both stores on AWS: a DynamoDB table and an S3 bucket, which somebody else has made (template.yaml)."""

from __future__ import annotations

from dataclasses import dataclass

from shared.store.aws.clients import Clients, make_clients
from shared.store.aws.objects import S3Objects
from shared.store.aws.state import DynamoState

__all__ = ["AwsStore", "Clients", "DynamoState", "S3Objects", "make_clients", "open_aws"]


@dataclass(frozen=True, slots=True)
class AwsStore:
    """The two ports of one deployment."""

    state: DynamoState
    objects: S3Objects
    clients: Clients

    def close(self) -> None:
        """Close the connections."""
        self.clients.close()


def open_aws(clients: Clients, table: str, bucket: str) -> AwsStore:
    """The ports on a table and a bucket. Makes no request: a wrong name is StoreUnavailable at the first call."""
    return AwsStore(DynamoState(clients.dynamodb, table), S3Objects(clients.s3, bucket), clients)
