"""`workroom serve` with small limits, so that each bites within a second; all else is the real one."""

from __future__ import annotations

import os
from dataclasses import replace

from functions.api.serve import serve
from functions.room import close_room, limits_of, open_room
from shared.limits import KIB, MIB, Limits
from shared.operations.janitor import sweep
from shared.settings import Settings


def small(settings: Settings) -> Limits:
    """The limits."""
    return replace(
        limits_of(settings),
        run_ms=4_000,
        stdout_bytes=64 * KIB,
        stderr_bytes=64 * KIB,
        flood_bytes=2 * MIB,
        memory_bytes=256 * MIB,
        processes=64,
        open_files=64,
        tmp_bytes=32 * MIB,
        workspace_bytes=16 * MIB,
        workspace_entries=200,
        file_bytes=8 * MIB,
    )


def main() -> None:
    """Serve until told to end."""
    settings = Settings.read(os.environ)
    room = open_room(settings, owner="serve", limits=small(settings))
    try:
        serve(settings, room, lambda: sweep(room))
    finally:
        close_room(room)


if __name__ == "__main__":
    main()
