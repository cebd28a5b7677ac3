"""SIGKILL of the process that runs a Turn, at every labelled step: what a restarted service finds (11.28, 11.36)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.domain.session import Owner
from shared.operations.room import Room
from shared.store.local import open_local
from tests.kill.forking import Zygote
from tests.torture.place import Scripted, Talk, make, small, talk, until
from tests.torture.zygote import leave


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote("tests.torture.zygote")
    yield made
    made.close()


@contextmanager
def opened(data: Path, incarnation: str = "restarted") -> Iterator[tuple[Room, Scripted]]:
    """The store as a service of the same name opens it after a restart."""
    store = open_local(data)
    executor = Scripted(store.objects)
    executor.acts["go"] = lambda act: leave(act, "new ")
    executor.acts["last"] = lambda act: leave(act, "last ")
    room = make(store.state, store.objects, executor, limits=small(), owner=Owner("serve", incarnation))
    try:
        yield room, executor
    finally:
        room.background.shutdown(wait=True)
        store.close()


def prepare(data: Path) -> str:
    """A Session with a completed Turn of 42 Artifacts."""
    with opened(data, "first") as (room, executor):
        executor.acts["before"] = lambda act: leave(act, "old ")
        one = talk(room)
        assert one.run("before")["status"] == "completed"
        assert len(one.artifacts()) == 41
        return one.session


def expect_after(data: Path, session: str, done: int, label: str) -> str:
    """What is there after so many transactions: nothing, the input, the Turn in progress three times, its end."""
    with opened(data) as (room, executor):
        one = Talk(room, session)
        if done == 1:
            # Nothing has begun: whoever sees it after a while sends for a worker once more, and it runs.
            until(lambda: one.turns()[-1]["status"] == "completed", 15, label)
        turns = one.turns()
        ran = [request.code for request in executor.requests]
        published = len(one.artifacts()) - 41
        if done == 0:
            assert (len(turns), ran, published) == (1, [], 0), label
        elif done == 1:
            assert (len(turns), ran, published) == (2, ["go"], 41), label
        elif done >= 5:
            assert (turns[1]["status"], ran, published) == ("completed", [], 41), label
        else:
            assert (turns[1]["status"], ran, published) == ("failed", [], 0), label
            assert turns[1]["error"]["code"] == "internal_error"
            statuses = [(item["type"], item["status"]) for item in one.items(turns[1]["id"])]
            assert statuses[0] == ("message", "completed")
            assert len(statuses) == done - 1, (label, statuses)
            assert all(status == "incomplete" for _, status in statuses[1:])
        one.need_idle(10)
        one.verify()
        assert one.run("last")["status"] == "completed"
        assert len(one.artifacts()) == 41 + (41 if published else 0) + 41
        one.verify()
        return str(turns[-1]["status"])


def test_11_36_a_turn_killed_at_any_step(zygote: Zygote, tmp_path: Path) -> None:
    session = prepare(tmp_path / "prepared")

    def copied(name: str) -> Path:
        shutil.copytree(tmp_path / "prepared", tmp_path / name)
        return tmp_path / name

    killed, steps = zygote.run(copied("whole"), None, session=session)
    assert not killed
    assert steps.count("after state.transact") == 5
    expected = {"the program runs", "the program ends", "before executor.run", "after objects.put_new"}
    assert expected <= set(steps)
    found: set[str] = set()
    for number in range(1, len(steps) + 1):
        folder = copied(str(number))
        killed, labels = zygote.run(folder, number, session=session)
        assert killed or labels, steps[number - 1]
        # Where an answer was on its way the count of what was sent says less than the store; the frames say it.
        done = committed(folder, session)
        found.add(expect_after(folder, session, done, f"{number} {steps[number - 1]}"))
        shutil.rmtree(folder)
    assert found == {"completed", "failed"}


def committed(data: Path, session: str) -> int:
    """How many transactions of the killed Turn tell of something, by the store alone."""
    store = open_local(data)
    try:
        partitions = Talk(make(store.state, store.objects, Scripted(store.objects)), session).found.partition
        rows = store.state.query(partitions, "event/", limit=1000)
    finally:
        store.close()
    created = [
        index
        for index, row in enumerate(rows)
        if any(frame["type"] == "agent.session.turn.created" for frame in row.attributes["frames"])
    ]
    return len(rows) - created[1] if len(created) == 2 else 0
