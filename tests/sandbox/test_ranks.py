"""A program that ranks its supervisor behind all others does so to no run but its own (cases.md A15, K3)."""

from __future__ import annotations

import pytest

from tests.sandbox.rooms import Room

_LOWER = {
    "processor": "import os; os.setpriority(os.PRIO_USER, os.getuid(), 19)",
    # Of every process of the user: the idle class.
    "disk": "import ctypes, os; ctypes.CDLL(None).syscall(251, 3, os.getuid(), 3 << 13)",
}
_SHOW = "import ctypes, os; print(os.getpriority(os.PRIO_PROCESS, 0), ctypes.CDLL(None).syscall(252, 1, 0) >> 13)"


@pytest.mark.parametrize("what", _LOWER)
def test_no_run_has_the_rank_that_one_before_it_gave(sole: Room, what: str) -> None:
    before = sole.python(_SHOW, "ranks").stdout
    request = sole.request("py", _LOWER[what], "low")
    if sole.filtered:
        assert sole.executor.run(request).reason is None
    else:
        assert sole.failure("py", _LOWER[what], "low").kind == "broken"
        assert sole.function.lines()[-1]["kind"] == "retired"
    assert sole.python(_SHOW, "ranks").stdout == before
