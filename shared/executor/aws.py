"""The executor on AWS: one Invoke of a function for each run, as the tenant of the run (DESIGN §6.6, §7).

    run ── thread: Invoke(TenantId) ── functions/sandbox
     └──── waits for the thread, a cancellation or its patience, whichever comes first

A run is invoked once: no retry of the SDK, none here. What is lost is an error and nothing of it is committed, for the
caller's fence refuses whatever would come late. An Invoke cannot be stopped: a cancelled run answers at once, and the
function goes on to its limit for nobody. The answer is a program's word until `shared.executor.judge` has passed it.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)

from shared.executor.port import (
    Executor,
    ExecutorFailed,
    ExecutorHealth,
    FailureKind,
    LanguageHealth,
    LayerHealth,
    Output,
)
from shared.executor.turns import Turns, stopped
from shared.executor.wire import RunAnswer, RunRequest, WireError
from shared.store.ports import ObjectMissing, Objects, StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_lambda.type_defs import InvocationResponseTypeDef

REQUEST_BYTES: Final = 5_000_000
"""A longer event goes by an object: the platform takes 6 MiB."""
PAYLOAD_BYTES: Final = 7 << 20
ANSWER_BYTES: Final = 64 << 20
"""What an answer may have: directly, above what the platform passes on; as an object."""
_VALUES_LEAST, _VALUES_AN_ENTRY = 10_000, 13
"""Values of an answer: those beside its entries, and those of one. Each costs a hundred bytes of memory or more."""
HEALTH_TENANT: Final = "workroom-health"
REQUIRED_LAYERS: Final = frozenset({"clean", "reap", "wipe", "memory"})
_LIMIT_S = 900
"""The longest that a function runs."""
_HEALTH_S, _HEALTH_KEPT_S, _FAILURE_KEPT_S = 30.0, 300.0, 10.0
_RETRY_MAX_S = 60
_IDS = 10_000
_UNREACHED = (
    ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError, SSLError,
    NoCredentialsError, PartialCredentialsError, ParamValidationError,
)  # fmt: skip
_THROTTLED = frozenset({"TooManyRequestsException", "EC2ThrottledException", "ThrottlingException"})
_MAY_HAVE_RUN = frozenset({"ServiceException", "InternalFailure", "InternalServerError"})


def make_client(run_ms: int, *, region: str | None = None, connections: int = 64) -> LambdaClient:
    """A client that never sends an Invoke twice and waits for longer than a run of `run_ms` may take."""
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=3,
        read_timeout=min(_LIMIT_S, run_ms // 1000 + 60) + 10,
        max_pool_connections=connections,
        tcp_keepalive=True,
    )
    return boto3.client("lambda", region_name=region, config=config)


@dataclass(slots=True, eq=False)
class _Call:
    """One Invoke that goes on. `over` is set when there is an answer, a failure, or a reason not to wait for one."""

    over: threading.Event = field(default_factory=threading.Event)
    payload: bytes | None = None
    failure: ExecutorFailed | None = None
    cancelled: bool = False
    closed: bool = False


class LambdaExecutor(Executor):
    """Runs programs in the function `function`. At most `capacity` at once; others wait, as `Turns` says.

    `spare_ms` is what starting an environment, restoring and collecting may take beside a run's own time. `required`
    only says in `health` what the function itself insists on.
    """

    def __init__(
        self,
        client: LambdaClient,
        function: str,
        objects: Objects,
        *,
        capacity: int = 64,
        spare_ms: int = 60_000,
        required: frozenset[str] = REQUIRED_LAYERS,
    ) -> None:
        self._client = client
        self._function = function
        self._objects = objects
        self._capacity = capacity
        self._spare_ms = spare_ms
        self._required = required
        self._turns = Turns(capacity)
        self._lock = threading.Lock()
        self._calls: dict[str, _Call] = {}
        self._taken: dict[str, None] = {}
        self._asking = threading.Lock()
        self._health: tuple[float, dict[str, Any] | ExecutorFailed] | None = None
        self._closed = False

    def run(self, request: RunRequest, output: Output | None = None) -> RunAnswer:
        """See Executor.run."""
        patience_s = (request.limits.wall_ms + self._spare_ms) / 1000
        call = self._claim(request)
        try:
            with self._turns.turn(request.share, call.over.is_set, patience_s) as mine:
                answer = self._invoked(request, call, patience_s) if mine else None
            if answer is not None:
                if output is not None:
                    _tell(output, answer, request)
                return answer
            if call.closed:
                raise ExecutorFailed("unavailable", "the executor is closed")
            if not call.cancelled:
                raise ExecutorFailed("throttled", "every place is taken", retry_after=1)
            return stopped(request)
        finally:
            with self._lock:
                self._calls.pop(request.run_id, None)

    def place(self, share: str) -> AbstractContextManager[bool]:
        """See Executor.place."""
        return self._turns.turn(share)

    def cancel(self, run_id: str) -> None:
        """See Executor.cancel. The function goes on; its answer is dropped."""
        with self._lock:
            call = self._calls.get(run_id)
        if call is not None:
            call.cancelled = True
            call.over.set()
            self._turns.look()

    def health(self) -> ExecutorHealth:
        """See Executor.health: the probes of an environment that is nobody's, asked for every five minutes at most.

        A failure is kept for some seconds: anyone may ask, and each question would start an environment.
        """
        said = self._said()
        with self._lock:
            running = len(self._calls)
        return ExecutorHealth(
            ready=not said["trouble"],
            why=said["trouble"],
            languages={
                name: LanguageHealth(bool(row["present"]), str(row["version"]), str(row["packages"]))
                for name, row in said["languages"].items()
            },
            layers={
                name: LayerHealth(bool(row["active"]), name in self._required, str(row["detail"]))
                for name, row in said["layers"].items()
            },
            running=min(running, self._capacity),
            capacity=self._capacity,
        )

    def _said(self) -> dict[str, Any]:
        with self._asking:
            if self._health is None or time.monotonic() > self._health[0]:
                try:
                    self._health = (time.monotonic() + _HEALTH_KEPT_S, self._ask())
                except ExecutorFailed as failed:
                    self._health = (time.monotonic() + _FAILURE_KEPT_S, failed)
            said = self._health[1]
        if isinstance(said, ExecutorFailed):
            raise ExecutorFailed(said.kind, said.why, said.retry_after)
        return said

    def close(self) -> None:
        """See Executor.close. Whoever waits is told."""
        with self._lock:
            self._closed = True
            calls = list(self._calls.values())
        for call in calls:
            call.closed = True
            call.over.set()
        self._turns.close()

    def _claim(self, request: RunRequest) -> _Call:
        """A run id is invoked once in the life of this adapter."""
        if not request.tenant:
            raise ExecutorFailed("unavailable", "the run has no tenant")
        call = _Call()
        with self._lock:
            if self._closed:
                raise ExecutorFailed("unavailable", "the executor is closed")
            if request.run_id in self._taken:
                raise ExecutorFailed("broken", "the run id is taken")
            self._taken[request.run_id] = None
            if len(self._taken) > _IDS:
                del self._taken[next(iter(self._taken))]
            self._calls[request.run_id] = call
        return call

    def _invoked(self, request: RunRequest, call: _Call, patience_s: float) -> RunAnswer | None:
        """The answer; None for a run that was given up meanwhile. Errors: ExecutorFailed."""
        seconds = int(patience_s) + 1
        try:
            event, answer_key = self._event(request, seconds)
        except StoreUnavailable as error:
            raise ExecutorFailed("unavailable", "the request cannot be stored") from error
        most = _VALUES_LEAST + _VALUES_AN_ENTRY * (request.limits.workspace_entries + len(request.manifest))
        self._begin(call, event, request.tenant)
        if not call.over.wait(patience_s):
            raise ExecutorFailed("timeout", "the function did not answer in time")
        if call.cancelled or call.closed:
            return None
        message = self._message(call, most)
        if message.get("run_id") != request.run_id:
            raise ExecutorFailed("broken", "the answer is of another run")
        if "error" in message:
            raise ExecutorFailed(_kind(message["error"]), str(message.get("why", ""))[:200])
        data = message.get("answer")
        if "answer_at" in message:
            data = self._stored(message["answer_at"], answer_key, request.run_id, most)
        try:
            answer = RunAnswer.of(data)
        except (WireError, KeyError, TypeError) as error:
            raise ExecutorFailed("broken", "the answer is not of the shape") from error
        if answer.run_id != request.run_id:
            raise ExecutorFailed("broken", "the answer is of another run")
        return answer

    def _event(self, request: RunRequest, seconds: int) -> tuple[bytes, str]:
        """The event, and the key under which a large answer may be put. Errors: StoreUnavailable, ExecutorFailed.

        Both objects lie beside the run's own outputs, where nothing names them, so they go as orphans do.
        """
        granted = replace(
            request,
            reads={key: self._objects.grant_read(key, seconds=seconds).url for key in request.reads},
            writes=tuple((key, self._objects.grant_write(key, seconds=seconds).url) for key, _ in request.writes),
        )
        event: dict[str, Any] = {"op": "run", "run_id": request.run_id}
        folder = request.writes[0][0].rpartition("/")[0] if request.writes else ""
        answer_key = ""
        if folder:
            answer_key = _fresh(folder)
            url = self._objects.grant_write(answer_key, seconds=seconds).url
            event["answer"] = {"key": answer_key, "url": url}
        body = _json(granted.to_json())
        if len(body) + len(_json(event)) + 100 <= REQUEST_BYTES:
            event["request"] = granted.to_json()
        elif folder:
            key = _fresh(folder)
            self._objects.put_new(key, body, hashlib.sha256(body).hexdigest())
            event["request_at"] = self._objects.grant_read(key, seconds=seconds).url
            event["request_bytes"] = len(body)
        else:
            raise ExecutorFailed("unavailable", "the request is too large and has no place to be put")
        return _json(event), answer_key

    def _begin(self, call: _Call, event: bytes, tenant: str) -> None:
        threading.Thread(target=self._invoke, args=(call, event, tenant), name="invoke", daemon=True).start()

    def _invoke(self, call: _Call, event: bytes, tenant: str) -> None:
        """In a thread of its own. Sets the payload or the failure, whatever happens."""
        try:
            answer = self._client.invoke(
                FunctionName=self._function, InvocationType="RequestResponse", TenantId=tenant, Payload=event
            )
            call.payload = _payload(answer)
        except ExecutorFailed as failure:
            call.failure = failure
        except ClientError as error:
            call.failure = _refused(error)
        except ReadTimeoutError:
            call.failure = ExecutorFailed("timeout", "the function did not answer in time")
        except _UNREACHED as error:
            call.failure = ExecutorFailed("unavailable", f"the function cannot be reached: {type(error).__name__}")
        except Exception as error:
            # Of whatever library under the client: the run may have begun.
            call.failure = ExecutorFailed("broken", f"the answer was lost: {type(error).__name__}")
        finally:
            call.over.set()

    def _message(self, call: _Call, most: int) -> dict[str, Any]:
        """What the function said, in `most` values. Errors: ExecutorFailed."""
        if call.failure is not None:
            raise call.failure
        try:
            message = _read(call.payload or b"", most)
        except (ValueError, RecursionError) as error:
            raise _platform(call.payload or b"", "the answer is not JSON") from error
        if type(message) is not dict or not message.keys() & {"run_id", "health"}:
            raise _platform(call.payload or b"", "the answer is not the function's")
        return message

    def _stored(self, key: object, granted: str, run_id: str, most: int) -> object:
        """A large answer, from where it was allowed to be put, in `most` values. Errors: ExecutorFailed."""
        if not granted or key != granted:
            raise ExecutorFailed("broken", "the answer lies where none was allowed")
        try:
            info = self._objects.head(granted)
            if info is None or info.size > ANSWER_BYTES:
                raise ExecutorFailed("broken", "the answer is not there or too large")
            message = _read(b"".join(self._objects.read(granted, 0, info.size)), most)
        except (ObjectMissing, StoreUnavailable) as error:
            raise ExecutorFailed("broken", "the answer cannot be read") from error
        except (ValueError, RecursionError) as error:
            raise ExecutorFailed("broken", "the answer is not JSON") from error
        if type(message) is not dict or message.get("run_id") != run_id:
            raise ExecutorFailed("broken", "the answer is of another run")
        return message.get("answer")

    def _ask(self) -> dict[str, Any]:
        """The function's word on itself. Errors: ExecutorFailed."""
        if self._closed:
            raise ExecutorFailed("unavailable", "the executor is closed")
        call = _Call()
        self._begin(call, _json({"op": "health"}), HEALTH_TENANT)
        if not call.over.wait(_HEALTH_S):
            raise ExecutorFailed("timeout", "the function did not answer in time")
        said: Any = self._message(call, _VALUES_LEAST).get("health")
        if not _is_health(said):
            raise ExecutorFailed("broken", "the function does not say how it is")
        health: dict[str, Any] = said
        return health


def _json(data: dict[str, Any]) -> bytes:
    """ASCII: a name that is not UTF-8 is a lone surrogate, which has no other form."""
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def _read(data: bytes, most: int) -> Any:
    """The JSON of an answer, refused before anything is made of it where it has more than `most` values.

    A program can answer in the function's place, and three bytes become a hundred in memory: an answer of the size that
    is allowed would end this process, and every other run in it. Errors: ValueError, RecursionError.
    """
    if len(data) > most:
        plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        if plain.count(b'"') > 4 * most:
            raise ValueError("too many texts")
        between = b"".join(plain.split(b'"')[::2])
        if sum(map(between.count, (b",", b"[", b"{"))) > most:
            raise ValueError("too many values")
    # Of bytes, JSON would also be read as UTF-16, whose values were not counted.
    return json.loads(data.decode("utf-8"))


def _fresh(folder: str) -> str:
    return f"{folder}/{os.urandom(16).hex()}"


def _payload(answer: InvocationResponseTypeDef) -> bytes:
    """The bytes of an answer of the function. Errors: ExecutorFailed, and the connection's."""
    with answer["Payload"] as body:
        data: bytes = body.read(PAYLOAD_BYTES + 1)
    if len(data) > PAYLOAD_BYTES:
        raise ExecutorFailed("broken", "the answer is too large")
    if answer.get("FunctionError"):
        raise _platform(data, "the function failed")
    return data


def _platform(data: bytes, why: str) -> ExecutorFailed:
    """What the platform says instead of the function: its time was up, it ended, its answer was too large."""
    return ExecutorFailed("timeout" if b"Task timed out" in data[:4096] else "broken", why)


def _refused(error: ClientError) -> ExecutorFailed:
    """An Invoke that the service itself answered with an error."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    metadata = error.response.get("ResponseMetadata", {})
    status = metadata.get("HTTPStatusCode", 0)
    if status == 429 or code in _THROTTLED:
        after = metadata.get("HTTPHeaders", {}).get("retry-after", "")
        seconds = int(after) if after.isascii() and after.isdigit() else 1
        return ExecutorFailed("throttled", code, retry_after=max(1, min(seconds, _RETRY_MAX_S)))
    if b"Task timed out" in code.encode("utf-8", "replace"):
        return ExecutorFailed("timeout", "the function did not answer in time")
    # An error without a name is not the service's own: what became of the run is not known.
    unknown = status >= 500 and (code in _MAY_HAVE_RUN or not code.endswith("Exception"))
    return ExecutorFailed("broken" if unknown else "unavailable", code[:100])


def _tell(output: Output, answer: RunAnswer, request: RunRequest) -> None:
    """Tell the whole of stdout once. It is not judged yet: what is no text, or too long for one, is not told."""
    if not answer.stdout or len(answer.stdout) > 3 * request.limits.stdout_bytes:
        return
    try:
        answer.stdout.encode("utf-8")
    except UnicodeEncodeError:
        return
    output("stdout", answer.stdout)


def _kind(said: object) -> FailureKind:
    return "unavailable" if said == "unavailable" else "timeout" if said == "timeout" else "broken"


def _is_health(said: Any) -> bool:
    """Whether the function's word on itself has the shape that is relied on."""
    if type(said) is not dict or type(said.get("trouble")) is not str:
        return False
    tables = (said.get("languages"), {"present", "version", "packages"}), (said.get("layers"), {"active", "detail"})
    return all(
        type(table) is dict and all(type(row) is dict and members <= row.keys() for row in table.values())
        for table, members in tables
    )
