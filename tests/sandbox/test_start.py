"""What an environment does whose start did not show a required layer: it looks again before it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from functions.sandbox import app
from sandbox_image.runner import sole
from sandbox_image.runner.probes import Shown
from sandbox_image.runner.run import RunFailed
from shared.executor.wire import RunRequest


class Context:
    """What the runtime hands the handler."""

    aws_request_id = "request"
    tenant_id: str | None = "tenant"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Failing:
    """A runner that is reached: its failure is not that of a layer."""

    def run(self, *_: Any) -> None:
        raise RunFailed("broken", "reached")


def started(monkeypatch: pytest.MonkeyPatch, *active: bool) -> app.Sandbox:
    """An environment whose looks at the layer `reap` come out like this, one after another."""
    looks = iter(active)

    def prepare(_jail: str) -> tuple[Any, dict[str, Shown]]:
        return Failing(), {"reap": Shown(next(looks), True, "looked")}

    monkeypatch.setattr(sole, "prepare", prepare)
    monkeypatch.setattr(RunRequest, "of", lambda data: type("Request", (), {"run_id": data["run_id"]})())
    return app.Sandbox("jail", frozenset({"reap"}), alone=True)


def run(sandbox: app.Sandbox, run_id: str) -> tuple[str, str]:
    answer = sandbox.handle({"op": "run", "run_id": run_id, "request": {"run_id": run_id}}, Context())
    return answer["error"], answer["why"]


def test_a_layer_that_is_shown_at_last_lets_programs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = started(monkeypatch, False, False, True)
    assert "`reap` is required and not active" in sandbox.trouble
    kind, why = run(sandbox, "1")
    assert (kind, "`reap` is required" in why) == ("unavailable", True)
    assert run(sandbox, "2") == ("broken", "reached")
    assert sandbox.trouble == ""


def test_a_layer_that_was_shown_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = started(monkeypatch, True)
    assert run(sandbox, "1") == ("broken", "reached")
    assert run(sandbox, "2") == ("broken", "reached")
