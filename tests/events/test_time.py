"""A call's time bounds what is done in it."""

from __future__ import annotations

from functions import environment
from functions.direct import app
from tests.events.samples import Context, Stage
from tests.wire.scripted import program


def test_a_run_ends_before_the_function_does(stage: Stage) -> None:
    event = stage.ask("exec.run", {"lang": "py", "code": program(), "timeout": 300_000})
    app.handler(event, Context(left_ms=20_000))
    assert 0 < stage.executor.wall_ms <= 20_000 - environment.MARGIN_MS
    app.handler(event, Context(left_ms=900_000))
    assert stage.executor.wall_ms == 300_000
