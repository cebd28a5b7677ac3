"""What an operator does on the machine: `workroom serve`, `mcp`, `keys` and `janitor`."""

from __future__ import annotations

import signal
import sys
import threading
from argparse import Namespace
from dataclasses import replace
from typing import Any

from functions.cli.call import directly
from functions.cli.opened import key_of, opened_room
from functions.cli.show import Refused, line, note, table
from shared.errors import Failure
from shared.executor.port import ExecutorFailed
from shared.operations.base import operations
from shared.operations.room import Room
from shared.settings import Settings


def serve(settings: Settings, _args: Namespace) -> int:
    """Serve HTTP and MCP until the process is told to end."""
    from functions.api.serve import serve as serve_http  # noqa: PLC0415
    from shared.operations.janitor import sweep  # noqa: PLC0415

    if settings.store == "aws":
        # The development key is of one data folder; the other locks of a store that many share are not ours to free.
        settings = replace(settings, dev_key=False)
    owner = "serve" if settings.store == "local" else None
    if threading.current_thread() is threading.main_thread():
        # Until the server takes signals itself: a service that is ended while it starts ends in order.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    with opened_room(settings, programs=True, owner=owner) as room:
        threading.Thread(target=_warn, args=(room,), name="warn", daemon=True).start()
        serve_http(settings, room, lambda: sweep(room))
    return 0


def _warn(room: Room) -> None:
    """Say on standard error that no program can be run, and why: a service that is ready may have no toolchains."""
    try:
        health = room.executor.health()
    except ExecutorFailed:
        note("warning: no program can be run: the executor does not answer")
        return
    if not health.ready:
        note(f"warning: no program can be run: {health.why}")


def mcp(settings: Settings, _args: Namespace) -> int:
    """Serve MCP on standard input and output: for the service at WORKROOM_URL, else for the data folder."""
    import anyio  # noqa: PLC0415

    if settings.url is not None:
        from functions.api.mcp_forward import forward_stdio  # noqa: PLC0415
        from functions.cli.client import service  # noqa: PLC0415

        anyio.run(forward_stdio, *service(settings))
        return 0
    from functions.api.mcp_server import serve_stdio  # noqa: PLC0415
    from shared.operations.admission import Credentials, admit  # noqa: PLC0415

    with opened_room(settings, programs=True) as room:
        try:
            caller = admit(room, Credentials(api_key=key_of(settings, room)))
        except Failure as failure:
            raise Refused(failure.message, failure.code.value.code) from None
        anyio.run(serve_stdio, room, caller, settings)
    return 0


def keys(settings: Settings, args: Namespace) -> int:
    """Make, list and revoke API keys."""
    if settings.url is not None:
        note("keys are those of the data folder of this machine, not of the service at WORKROOM_URL")
    if args.action == "create":
        wanted = {"project": args.project, "name": args.name, "expires_in_s": args.expires_in_s}
        made = by_name(settings, "keys.create", wanted)
        note(f"key {made['id']} of project {made['project']}; it is shown once:")
        line(made["key"])
    elif args.action == "list":
        rows = by_name(settings, "keys.list", {})["keys"]
        shown = [
            (row["id"], row["project"], row["created"], row.get("expires_at", "never"), row["name"]) for row in rows
        ]
        table(("ID", "PROJECT", "CREATED", "ENDS", "NAME"), shown)
    else:
        by_name(settings, "keys.revoke", {"id": args.id})
    return 0


def janitor(settings: Settings, _args: Namespace) -> int:
    """Remove expired sessions and what nothing names any more, once. `workroom serve` does it by itself."""
    from shared.operations.janitor import sweep  # noqa: PLC0415

    with opened_room(settings, programs=False) as room:
        # The command has no executor of its own; a Session's work is for the service, or for the queue's workers.
        swept = sweep(room, workers=room.queue is not None)
    line(f"removed {swept.sessions} sessions, {swept.objects} objects, {swept.records} records")
    return 0


def by_name(settings: Settings, name: str, data: dict[str, Any]) -> dict[str, Any]:
    """Run an operator's operation on the store of the settings; its output as JSON. Errors: Refused."""
    import shared.operations.all  # noqa: F401, PLC0415

    operation = operations()[name]
    try:
        parsed = operation.parse(data)
    except Failure as failure:
        raise Refused(failure.message, failure.code.value.code) from None
    found: dict[str, Any] = directly(settings, operation, parsed).model_dump(mode="json", by_alias=True)
    return found
