"""The function behind an HTTP API or a function URL: the application of every other door, through Mangum.

    init        modules are loaded; a snapshot of that starts many environments (SnapStart)
    restored    each environment opens a room of its own: names, random bits and connections are never shared
    call        one event loop for one request; its threads end with it

An event that is no HTTP request of payload format 2.0 is answered with 400 and nothing of it is logged.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import random
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from mangum import Mangum

from functions.api.access import Entry, unexpected
from functions.api.answers import compact
from functions.api.app import create_app
from functions.api.door import as_failure
from functions.api.gateway import KINDS, AnswerTooLarge, NotHttp
from functions.api.whole import Whole
from functions.environment import HERE
from functions.telemetry import function
from shared.errors import Code, Failure, invalid
from shared.operations.room import Room
from shared.settings import Settings

# Mangum's own log has the paths of requests (cases.md K20).
for _name in ("mangum", "mangum.http", "mangum.lifespan"):
    logging.getLogger(_name).disabled = True

_SLOW = ("shared.store.aws", "shared.executor.aws", "functions.worker.queue")
_SLOWER = ("functions.api.mcp_server",)


class Front:
    """What one environment answers requests with. The application is made with the first call.

    An environment has one call at a time, as Lambda gives it.
    """

    def __init__(self, room: Callable[[], Room], settings: Callable[[], Settings]) -> None:
        self._room = room
        self._settings = settings
        self._application: Mangum | None = None

    def open(self) -> None:
        """Open the room and make the application. Errors: BadSetting, StoreUnavailable, NotInstalled."""
        if self._application is None:
            app = create_app(self._room(), self._settings(), pace=None)
            self._application = Mangum(Whole(app), lifespan="off", custom_handlers=list(KINDS))

    def __call__(self, event: Any, context: Any) -> dict[str, Any]:
        """The answer to one event, in payload format 2.0. Never raises what an event can cause."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            self.open()
            assert self._application is not None
            return self._application(event, context)
        except NotHttp:
            return _refused(invalid("event", "must be an HTTP request of payload format 2.0"))
        except AnswerTooLarge:
            return _refused(Failure(Code.INVALID_REQUEST, "The answer is larger than this address carries."))
        except Failure as failure:
            return _refused(failure)
        except Exception as error:
            return _refused(as_failure(error), error)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _refused(failure: Failure, error: Exception | None = None) -> dict[str, Any]:
    """An answer that no route gave, with its id and its line in the log."""
    entry = Entry(secrets.token_hex(12), "OTHER", status=failure.code.status)
    if error is not None:
        unexpected(entry.request_id, error)
    body = compact(failure.body()).decode("utf-8")
    entry.bytes_out, entry.whole = len(body.encode()), True
    entry.write()
    named = {"content-type": "application/json", "x-request-id": entry.request_id}
    headers = {**named, **{name.lower(): value for name, value in failure.headers().items()}}
    return {"statusCode": failure.code.status, "headers": headers, "body": body, "isBase64Encoded": False}


FRONT = Front(HERE.room, lambda: HERE.settings)
"""This process's."""


@function("api")
def handler(event: Any, context: Any) -> dict[str, Any]:
    """Answer one request."""
    return FRONT(event, context)


def restored() -> None:
    """A snapshot was started: open the room before the first request comes. One that cannot be is opened with it."""
    random.seed()
    try:
        FRONT.open()
    except Exception as error:
        unexpected(secrets.token_hex(12), error)


def prepare(environ: Mapping[str, str]) -> None:
    """Load at init, on Lambda, what the first request would wait for. Errors: BadSetting, which ends the init."""
    if "AWS_LAMBDA_FUNCTION_NAME" not in environ:
        return
    snapshot = environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start"
    aws = Settings.read(environ).store == "aws"
    for name in (*(_SLOW if aws else ()), *(_SLOWER if snapshot else ())):
        importlib.import_module(name)
    if snapshot:
        hooks = importlib.import_module("snapshot_restore_py")
        hooks.register_after_restore(restored)


prepare(os.environ)
