"""What a reader refuses, in the terms of the contract's envelope (agents.md 1.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.agents_errors import Refusal

LOCAL = "Invalid resource identifier or request limits."


def expect_refused(read: Callable[[], Any], message: str, param: str | None, *, local: bool = False) -> None:
    """A 400 with this message and param; its code is `invalid_request` where `local`."""
    with pytest.raises(Refusal) as caught:
        read()
    assert caught.value.status == 400
    assert caught.value.envelope()["error"] == {
        "message": message,
        "type": "invalid_request_error",
        "code": "invalid_request" if local else "invalid_request_error",
        "param": param,
    }


def expect_local(read: Callable[[], Any]) -> None:
    """The 400 of local limits."""
    expect_refused(read, LOCAL, None, local=True)
