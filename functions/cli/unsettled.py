"""`workroom writes`: what an operator sees of unsettled file writes, and says of them (agents.md 11.23)."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from functions.cli.operate import by_name
from functions.cli.show import Refused, line, note, table
from shared.settings import Settings
from shared.store.ports import StoreUnavailable


def writes(settings: Settings, args: Namespace) -> int:
    """List and settle file writes that have no settled receipt. Until then their Sessions take no input and no file.

    `settle` shows the record first and asks. It makes sure that nothing can come of the write any more, and refuses an
    outcome that the record contradicts.
    """
    if settings.url is not None:
        note("writes are those of the store of this machine's settings, not of the service at WORKROOM_URL")
    try:
        return _list(settings) if args.action == "list" else _settle(settings, args)
    except StoreUnavailable:
        raise Refused("the store cannot be reached; the same command may be given again") from None


def _list(settings: Settings) -> int:
    rows = by_name(settings, "writes.list", {})["writes"]
    shown = [
        (row["id"], row["project"], row["since"], row.get("receipt", "none"), str(row["size"]), row["path"])
        for row in rows
    ]
    table(("ID", "PROJECT", "SINCE", "RECEIPT", "BYTES", "PATH"), shown)
    return 0


def _settle(settings: Settings, args: Namespace) -> int:
    _show(by_name(settings, "writes.get", {"id": args.id}))
    if not args.yes and not _agreed(args.outcome):
        raise Refused("nothing was settled")
    settled = by_name(settings, "writes.settle", {"id": args.id, "outcome": args.outcome})
    line(f"settled as {settled['outcome']} at {settled['settled']}")
    return 0


def _show(row: dict[str, Any]) -> None:
    present = row.get("present")
    there = "nothing"
    if present is not None:
        there = present["kind"]
        if there == "file":
            there = f"a file of {present['size']} bytes, sha256 {present['sha256']}"
    receipt = row.get("receipt", "none")
    for name, value in (
        ("write", row["id"]),
        ("project", row["project"]),
        ("session", row["session"]),
        ("path", row["path"]),
        ("size", f"{row['size']} bytes"),
        ("sha256", row["sha256"]),
        ("since", row["since"]),
        ("attempt", "may still go on" if row["in_flight"] else "over"),
        ("fence", f"{row['fence']}, the workspace is at {row['workspace_fence']}"),
        ("receipt", f"{receipt} ({row['reason']})" if row.get("reason") else receipt),
        ("at the path", there),
    ):
        line(f"{name:<12}{value}")


def _agreed(outcome: str) -> bool:
    if not sys.stdin.isatty():
        raise Refused("nobody can be asked here: give --yes")
    print(f"Settle it as {outcome}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
