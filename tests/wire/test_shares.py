"""A project that asks for every quick thread keeps no other project out."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.limits import Limits
from shared.operations import names
from tests.wire.scripted import Scripted
from tests.wire.service import expect_eventually, open_test_room, serving

MANY = 100


class Slow:
    """A store whose lists of one partition wait until they may go on."""

    def __init__(self, state: Any, partition: str) -> None:
        self._state = state
        self._partition = partition
        self.go_on = threading.Event()
        self.waiting = 0
        self.most = 0
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def query(self, partition: str, *args: Any, **more: Any) -> Any:
        """See State.query."""
        if partition == self._partition:
            with self._lock:
                self.waiting += 1
                self.most = max(self.most, self.waiting)
            assert self.go_on.wait(60)
            with self._lock:
                self.waiting -= 1
        return self._state.query(partition, *args, **more)


def test_a_project_that_asks_a_hundred_times_at_once_waits_for_itself(tmp_path: Path) -> None:
    room = open_test_room(tmp_path, Limits(), Scripted())
    slow: Any = Slow(room.state, names.project("first"))
    with serving(replace(room, state=slow)) as service:
        beta = {"OpenAI-Beta": "agents=v1"}

        def listed(key: str) -> int:
            headers = {**beta, "Authorization": f"Bearer {key}"}
            return service.ask("GET", "/v1/agents/sessions", key="", headers=headers).status

        with ThreadPoolExecutor(MANY) as pool:
            many = [pool.submit(listed, service.key) for _ in range(MANY)]
            try:
                expect_eventually(lambda: slow.waiting > 0)
                for _ in range(5):
                    assert listed(service.other_key) == 200
                    assert service.ask("GET", "/v1/health", key=service.other_key).status == 200
                # Its programs have threads of their own.
                with service.client() as client:
                    ran = client.post("/v1/exec", json={"lang": "py", "code": "{}"})
                assert ran.status_code == 200
            finally:
                slow.go_on.set()
            assert [one.result(60) for one in many] == [200] * MANY
        assert slow.most <= 8
