"""One call through the direct door: `{"operation", "credential", "input", "idempotency_key"?}` to an answer as data.

    event ── admission ── none and the operation is not open to anyone: 403, whatever else the event holds
                │ admitted
                └── members of the event? 400 ── operation? 404 ── input? 400 ── run ── {"status", "body"}

Status and body are those of the HTTP door. A caller's fault is never an exception here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from functions.api.access import unexpected
from functions.api.mcp_schema import clean
from functions.direct.once import KEYED, once
from shared.agents_errors import as_refusal
from shared.errors import Code, Failure, invalid
from shared.identity import Caller
from shared.operations.admission import Credentials, admit
from shared.operations.all import operations
from shared.operations.base import Call, Operation, Raw
from shared.operations.keys import is_key
from shared.operations.room import Room
from shared.operations.texts import bounded
from shared.store.ports import StoreUnavailable

MEMBERS = ("operation", "credential", "input", "idempotency_key")

AnyOperation = Operation[Any, Any]


@dataclass(slots=True)
class Answer:
    """What became of a call. `operation`, `project` and `key_id` are ours, never a text of the event.

    `contract` is the operation's, in whose form an error is told; `final` says that a repeat would end as this did.
    """

    status: int
    body: Any
    error: Code | None = None
    operation: str | None = None
    project: str | None = None
    key_id: str | None = None
    ms: float = 0.0
    contract: str = "exec"
    final: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """The answer as it is given."""
        return {"status": self.status, "body": self.body}

    @property
    def again(self) -> bool:
        """Whether the same event may succeed later: what failed is ours, or is only in use at the moment."""
        if self.final:
            return False
        if self.error in (Code.BUSY, Code.IN_PROGRESS):
            return True
        return self.error is not None and self.error is not Code.UNSUPPORTED and self.status in (429, *range(500, 600))

    def line(self, source: str) -> dict[str, Any]:
        """What is logged of it."""
        return {
            "event": "request",
            "source": source,
            "operation": self.operation,
            "project": self.project,
            "key": self.key_id,
            "status": self.status,
            "error": self.error.value.code if self.error is not None else None,
            "ms": self.ms,
        }


def failed(error: BaseException, call_id: str, answer: Answer | None = None) -> Answer:
    """The answer to an error. One that nobody foresaw is logged by its type and place."""
    if isinstance(error, Failure):
        failure = error
    else:
        unexpected(call_id, error)
        failure = Failure(Code.STORE_UNAVAILABLE if isinstance(error, StoreUnavailable) else Code.INTERNAL)
    made = answer or Answer(0, None)
    if made.contract == "agents":
        refusal = as_refusal(failure)
        made.status, made.body, made.error = refusal.status, clean(refusal.envelope()), failure.code
        made.final = refusal.retry is False
    else:
        made.status, made.body, made.error = failure.code.status, clean(failure.body()), failure.code
    return made


def ask(room: Room, event: object, *, call_id: str = "", key: str | None = None) -> Answer:
    """Answer one call. `key` is the idempotency key of an event that brings none of its own."""
    begun = time.perf_counter()
    answer = Answer(0, None)
    try:
        _ask(room, event if isinstance(event, dict) else {}, key, answer)
    except Exception as error:
        failed(error, call_id, answer)
    answer.ms = round((time.perf_counter() - begun) * 1000, 1)
    return answer


def _ask(room: Room, event: dict[Any, Any], key: str | None, answer: Answer) -> None:
    named = operations().get(event["operation"]) if isinstance(event.get("operation"), str) else None
    caller = _caller(room, event.get("credential"), needed=named is None or not named.open)
    if caller is not None:
        answer.project, answer.key_id = caller.project, caller.key_id
    _check(event)
    if named is None or named.audience != "caller":
        raise Failure(Code.NOT_FOUND, "There is no such operation.")
    answer.operation = named.name
    if named.route is not None:
        answer.contract = named.route.contract
    call = Call(caller, _key(room, event, key))
    given = {} if event.get("input") is None else event["input"]

    def work() -> Any:
        return clean(named.call_with(room, call, given).model_dump(mode="json", by_alias=True))

    asked = _asked(named, given) if call.idempotency_key is not None and named.name in KEYED else None
    if asked is not None and call.idempotency_key is not None:
        answer.body = once(room, call, call.idempotency_key, asked, work)
    else:
        answer.body = work()
    answer.status = named.status


def _asked(named: AnyOperation, given: object) -> dict[str, Any] | None:
    """What a key stands for, or None for an input that cannot be read: the operation refuses it in its own order."""
    try:
        parsed = named.parse(given)
    except Failure:
        return None
    return {"how": named.name, **(parsed.sent() if isinstance(parsed, Raw) else parsed.model_dump())}


def _caller(room: Room, credential: object, *, needed: bool) -> Caller | None:
    """The caller that the credential proves, or None where none is needed. Errors: 403; 503 when no key exists."""
    sent = credential if isinstance(credential, str) and credential.isascii() else None
    try:
        return admit(room, Credentials(api_key=sent) if sent is not None and is_key(sent) else Credentials(bearer=sent))
    except Failure as failure:
        if failure.code is Code.UNAUTHORIZED and needed:
            raise Failure(Code.FORBIDDEN) from None
        if needed or failure.code not in (Code.UNAUTHORIZED, Code.NOT_CONFIGURED):
            raise
        return None


def _check(event: dict[Any, Any]) -> None:
    for name in event:
        if name not in MEMBERS:
            raise invalid("event", "has a member that is none of " + ", ".join(MEMBERS))
    if not isinstance(event.get("operation"), str):
        raise invalid("operation", "must be a string" if "operation" in event else "is required")


def _key(room: Room, event: dict[Any, Any], derived: str | None) -> str | None:
    key = event.get("idempotency_key")
    if key is None:
        return derived
    if not isinstance(key, str):
        raise invalid("idempotency_key", "must be a string")
    return bounded("idempotency_key", key, room.limits.label_bytes)
