"""The state port on one DynamoDB table (DESIGN §3).

Every write is a TransactWriteItems with a client token: DynamoDB answers a repetition of it, for ten minutes, with
the outcome of the first, whatever has happened to the items since. So an answer that was lost is asked for again;
nothing is written twice, and deletions and checks, which leave no trace on an item, are told as surely as puts.
A put also carries the write id: where a repetition fails its condition on our own write, that write has happened.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from shared.store.aws.faults import Failed, Patience, code_of
from shared.store.aws.rows import Row, action_of, condition_of, is_key, item_of, key_of
from shared.store.items import check_actions, check_limit, encode_all, key_bytes
from shared.store.ports import Action, Check, Conflict, DeleteIf, Item, Loss, PutIf, PutNew, StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_BATCH = 25  # BatchWriteItem's limit
_T = TypeVar("_T")


class DynamoState:
    """The state port on a table with the keys `pk` and `sk` (both S). Safe between threads and processes.

    `seconds` bounds one call with all its repetitions, but for the time-out of its last request.
    """

    def __init__(self, client: DynamoDBClient, table: str, *, seconds: float = 10.0) -> None:
        self._client = client
        self._table = table
        self._seconds = seconds

    def get(self, partition: str, sort: str) -> Item | None:
        """As the port says."""
        if not is_key(partition, sort):
            return None
        key = key_of(partition, sort)
        row = self._try(lambda: self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)).get("Item")
        return None if row is None else item_of(row)

    def query(
        self,
        partition: str,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int = 100,
        descending: bool = False,
    ) -> list[Item]:
        """As the port says. Errors: ValueError for a limit out of range."""
        check_limit(limit)
        found: list[Item] = []
        bound = None if after is None else key_bytes(after)
        for row in self._rows(partition, prefix, after, limit + (bound is not None), descending):
            item = item_of(row)
            if bound is not None and (key_bytes(item.sort) >= bound if descending else key_bytes(item.sort) <= bound):
                continue
            found.append(item)
            if len(found) == limit:
                break
        return found

    def transact(self, actions: Sequence[Action]) -> list[int]:
        """As the port says."""
        check_actions(actions)
        texts = encode_all(actions)
        write = secrets.token_urlsafe(16)
        members: list[Any] = [
            action_of(self._table, action, text, write) for action, text in zip(actions, texts, strict=True)
        ]
        patience = Patience(self._seconds)
        while True:
            try:
                self._client.transact_write_items(TransactItems=members, ClientRequestToken=write)
                break
            except Failed as error:
                reasons = _reasons(error, len(actions))
                if any(reason.get("Item", {}).get("w") == {"S": write} for reason in reasons):
                    break
                losses = _losses(reasons)
                if losses is None:
                    patience.again(error)
                elif losses:
                    raise Conflict(losses) from None
                else:
                    patience.pause(error)
        return [_version(action) for action in actions]

    def delete_partition(self, partition: str) -> None:
        """As the port says; in batches, each of whose deletions stands for itself."""
        batch: list[Any] = []
        for row in self._rows(partition, "", None, None, False, keys_only=True):
            batch.append({"DeleteRequest": {"Key": {"pk": row["pk"], "sk": row["sk"]}}})
            if len(batch) == _BATCH:
                self._write(batch)
                batch = []
        if batch:
            self._write(batch)

    def sweep(self, now: int) -> int:
        """Nothing: the table's time to live removes what has expired."""
        return 0

    def _write(self, batch: list[Any]) -> None:
        """Deletions without a condition, until none is left unprocessed."""
        patience = Patience(self._seconds)
        while batch:
            try:
                answer = self._client.batch_write_item(RequestItems={self._table: batch})
            except Failed as error:
                patience.again(error)
                continue
            batch = list(answer.get("UnprocessedItems", {}).get(self._table, []))
            if batch:
                patience.pause(StoreUnavailable("unprocessed"))

    def _rows(
        self,
        partition: str,
        prefix: str,
        after: str | None,
        limit: int | None,
        descending: bool,
        keys_only: bool = False,
    ) -> Iterator[Mapping[str, Any]]:
        """Rows in order, page after page: DynamoDB ends a page after 1 MB."""
        found = condition_of(partition, prefix, after, descending)
        if found is None:
            return
        asked: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": found[0],
            "ExpressionAttributeValues": found[1],
            "ScanIndexForward": not descending,
            "ConsistentRead": True,
        }
        if keys_only:
            asked["ProjectionExpression"] = "pk, sk"
        if limit is not None:
            asked["Limit"] = limit
        while True:
            page = self._try(lambda: self._client.query(**asked))
            yield from page["Items"]
            last: Row | None = page.get("LastEvaluatedKey")
            if not last:
                return
            asked["ExclusiveStartKey"] = last

    def _try(self, read: Callable[[], _T]) -> _T:
        """A request that changes nothing, again and again."""
        patience = Patience(self._seconds)
        while True:
            try:
                return read()
            except Failed as error:
                patience.again(error)


def _version(action: Action) -> int:
    match action:
        case PutNew():
            return 1
        case PutIf():
            return action.version + 1
        case DeleteIf() | Check():
            return 0


def _reasons(error: Exception, count: int) -> list[Mapping[str, Any]]:
    """Why each action of a cancelled transaction failed, in order; nothing where it was not cancelled."""
    if not isinstance(error, ClientError) or code_of(error) != "TransactionCanceledException":
        return []
    reasons: list[Mapping[str, Any]] = error.response.get("CancellationReasons", [])  # type: ignore[assignment]
    if len(reasons) != count:
        raise StoreUnavailable("a cancelled transaction gave no reasons") from error
    return reasons


_PASSING = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"}
)


def _losses(reasons: Sequence[Mapping[str, Any]]) -> list[Loss] | None:
    """The conditions that failed. Empty where another request was in the way; None where no reason was given.

    While one action was in the way of others, its condition is not known, so that the transaction is sent again
    before anything is said of it.
    """
    codes = [reason.get("Code", "None") for reason in reasons]
    if not codes:
        return None
    if set(codes) & _PASSING:
        return []
    losses = [
        Loss(index, item_of(reason["Item"]) if reason.get("Item") else None)
        for index, (code, reason) in enumerate(zip(codes, reasons, strict=True))
        if code == "ConditionalCheckFailed"
    ]
    if not losses or set(codes) - {"None", "ConditionalCheckFailed"}:
        raise StoreUnavailable(f"a transaction was cancelled: {', '.join(sorted(set(codes)))}")
    return losses
