"""Both stores of one machine in one data folder: `state.sqlite` and `objects/`."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from shared.store.local.objects import FileObjects
from shared.store.local.state import SqliteState
from shared.store.ports import StoreUnavailable

_STATE, _OBJECTS = "state.sqlite", "objects"


@dataclass(frozen=True, slots=True)
class LocalStore:
    """The two ports of one data folder."""

    state: SqliteState
    objects: FileObjects

    def close(self) -> None:
        """Close the state file."""
        self.state.close()


def open_local(data: Path) -> LocalStore:
    """Open the stores of a data folder, or create them. The folder is 0700 where it is ours.

    A folder is ours when we made it, when it was empty, or when a state file lies in it. Another one keeps its mode,
    and what we put into it is private by itself; one in which others may rename our files is refused.
    Errors: StoreUnavailable.
    """
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = os.listdir(data)
        if not names or _STATE in names:
            data.chmod(0o700)
        elif data.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StoreUnavailable("the data folder holds other files and may be written by others")
    except OSError as error:
        raise StoreUnavailable("the data folder cannot be opened") from error
    return LocalStore(SqliteState(data / _STATE), FileObjects(data / _OBJECTS))
