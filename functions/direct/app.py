"""The function behind `aws lambda invoke`, Step Functions, EventBridge and SQS.

    invoke, Step Functions   the event is the call; the answer is {"status", "body"}
    EventBridge              the call lies in `detail`; the event's id is its idempotency key where it brings none
    SQS                      the call is each message's body; the message's id is its key; partial batch failures

EventBridge and SQS deliver at least once and read no answer: a call that failed for a reason of ours (429, 5xx) or
met a session in use is given back to be delivered again, every other is done with. Nothing of an event is logged but
its status, the operation and who called; a credential never is.
"""

from __future__ import annotations

import json
from typing import Any

from functions.batch import each
from functions.direct.door import Answer, ask, failed
from functions.environment import HERE, within
from functions.telemetry import REQUESTS, function, remaining_ms, request_id
from shared.errors import Code, Failure

ANSWER_BYTES = 6_291_556
"""What the platform carries back of a synchronous call, as JSON in UTF-8."""


class Again(Exception):
    """Nothing is wrong with the event: the platform is to deliver it again. The text is a code of ours."""


@function("direct")
def handler(event: Any, context: Any) -> Any:
    """Answer whatever source the event came from."""
    if _is_sqs(event):
        return _batch(event["Records"], context)
    if isinstance(event, dict) and "detail-type" in event and "detail" in event:
        answer = _one(event["detail"], context, "eventbridge", _derived("eventbridge", event.get("id")))
        if answer.again and answer.error is not None:
            raise Again(answer.error.value.code)
        return answer.data
    return _one(event, context, "invoke", None).data


def _one(event: object, context: object, source: str, key: str | None) -> Answer:
    """One call: its answer, and its line in the log."""
    try:
        answer = ask(within(HERE.room(), remaining_ms(context)), event, call_id=request_id(context), key=key)
    except Exception as error:  # there is no room: nothing was asked
        answer = failed(error, request_id(context))
    if source == "invoke" and len(json.dumps(answer.data, ensure_ascii=False).encode("utf-8")) > ANSWER_BYTES:
        failed(Failure(Code.INVALID_REQUEST, "The answer is larger than this door carries."), "", answer)
    REQUESTS.info(json.dumps(answer.line(source)))
    return answer


def _is_sqs(event: object) -> bool:
    rows = event.get("Records") if isinstance(event, dict) else None
    return isinstance(rows, list) and all(isinstance(row, dict) and row.get("eventSource") == "aws:sqs" for row in rows)


def _batch(rows: list[dict[str, Any]], context: object) -> dict[str, Any]:
    def done(row: dict[str, Any]) -> bool:
        answer = _one(_body(row), context, "sqs", _derived("sqs", row.get("messageId")))
        return not answer.again

    return each(rows, context, done)


def _body(row: dict[str, Any]) -> object:
    """The call in a message. What is no JSON is a call without a credential."""
    try:
        return json.loads(row.get("body") or "")
    except (ValueError, TypeError, RecursionError):
        return None


def _derived(source: str, name: object) -> str | None:
    return f"{source}:{name}" if isinstance(name, str) and 0 < len(name) <= 128 and name.isascii() else None
