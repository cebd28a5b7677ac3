"""What the Lambda executor says of the function: asked for once, kept for a while, believed only where it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.executor import aws
from shared.executor.port import ExecutorFailed
from shared.store.local.objects import FileObjects
from tests.unit.test_executor_aws import endpoint, executor, reply


@pytest.fixture
def objects(tmp_path: Path) -> FileObjects:
    return FileObjects(tmp_path / "objects")


HEALTH = {
    "trouble": "",
    "languages": {"py": {"present": True, "version": "Python 3.13.5", "packages": "python3"}},
    "layers": {"clean": {"active": True, "detail": "d"}, "filter": {"active": False, "detail": "refused"}},
    "cold_ms": 500,
}


def test_health_is_asked_for_once_and_kept(objects: FileObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(lambda *_: reply({"health": HEALTH})) as made:
        room = executor(made, objects)
        health = room.health()
        assert (health.ready, health.why, health.running, health.capacity) == (True, "", 0, 64)
        assert health.languages["py"].version == "Python 3.13.5"
        assert (health.layers["clean"].active, health.layers["clean"].required) == (True, True)
        assert (health.layers["filter"].active, health.layers["filter"].required) == (False, False)
        assert room.health() == health
        assert (made.events, made.headers[0]["x-amz-tenant-id"]) == ([{"op": "health"}], "workroom-health")
        monkeypatch.setattr(aws, "_HEALTH_KEPT_S", -1)
        other = executor(made, objects)
        other.health()
        other.health()
        assert len(made.events) == 3


def test_a_function_in_trouble_is_not_ready(objects: FileObjects) -> None:
    with endpoint(lambda *_: reply({"health": HEALTH | {"trouble": "the jail is not there"}})) as made:
        health = executor(made, objects).health()
        assert (health.ready, health.why) == (False, "the jail is not there")


@pytest.mark.parametrize(
    "said", [None, {}, [], HEALTH | {"trouble": 1}, HEALTH | {"languages": []}, HEALTH | {"layers": {"x": {}}}]
)
def test_health_that_is_none_is_broken_and_kept_for_seconds(
    said: Any, objects: FileObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(lambda *_: reply({"health": said})) as made:
        for kept, invoked in ((10.0, 1), (-1.0, 3)):
            monkeypatch.setattr(aws, "_FAILURE_KEPT_S", kept)
            room = executor(made, objects)
            for _ in range(2):
                with pytest.raises(ExecutorFailed) as failed:
                    room.health()
                assert failed.value.kind == "broken"
            assert len(made.events) == invoked
