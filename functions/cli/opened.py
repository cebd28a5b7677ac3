"""The room of the data folder, for what works without a service.

A service may be running on the same folder: the state is made for that, a running workspace is not. So the command
runs programs in a work folder of its own, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from functions.cli.show import Refused
from shared.operations.room import Room
from shared.settings import Settings
from shared.store.ports import StoreUnavailable

_WORK = "cli-"
_NOWHERE = Path("/nonexistent")


@contextmanager
def opened_room(settings: Settings, *, programs: bool, owner: str | None = None) -> Iterator[Room]:
    """The room, closed at the end. `owner` as in `open_room`: a service that starts again frees its own locks.

    Without `programs` it works where no toolchains are installed. Errors: Refused, naming what is missing.
    """
    from functions.room import close_room, open_room  # noqa: PLC0415
    from sandbox_image.locate import NotInstalled  # noqa: PLC0415

    if not programs:
        settings = replace(settings, root=settings.root or _NOWHERE, jail=settings.jail or _NOWHERE)

    own = owner is None and settings.work is None
    if own:
        folder = settings.cache / "work"
        _remove_dead(folder)
        settings = replace(settings, work=folder / f"{_WORK}{secrets.token_hex(8)}")
    try:
        room = open_room(settings, owner=owner)
    except NotInstalled as missing:
        raise Refused(str(missing)) from None
    except StoreUnavailable as unavailable:
        raise Refused(str(unavailable) or "the store cannot be opened") from None
    except OSError as error:
        raise Refused(f"the data folder cannot be used: {error.strerror}") from None
    try:
        yield room
    finally:
        close_room(room)
        if own and settings.work is not None:
            shutil.rmtree(settings.work, ignore_errors=True)


def key_of(settings: Settings, room: Room) -> str | None:
    """The key that the command works with. The development key is of a data folder, never of a table."""
    from functions.room import development_key  # noqa: PLC0415

    if settings.key is None and settings.store == "local":
        return development_key(settings, room)
    return settings.key


def _remove_dead(within: Path) -> None:
    """Remove work folders of commands that were killed: their runner's lock is free."""
    for folder in within.glob(f"{_WORK}*"):
        try:
            descriptor = os.open(folder / "lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # another command is about to make it
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # in use
        finally:
            os.close(descriptor)
