"""SIGKILL of a process at every labelled step of a write, and of an operator's settling (agents.md 4, 11.22, 11.23).

The store is the real local one. What has to be there afterwards follows from how many transactions had happened.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from shared.domain.session import Owner
from tests.agents_writes.desk import Desk, Losing
from tests.agents_writes.test_lost_answers import expect_free, expect_settles_only, expect_unsettled
from tests.fakes import make_room, shut
from tests.kill.forking import Zygote
from tests.unit.agents.trees import file

DATA = bytes(range(256)) * 5_000


@dataclass
class Case:
    """A prepared data folder, and the write that is tried in it."""

    folder: Path
    desk: Desk
    given: dict[str, Any]
    rejected: bool


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote("tests.agents_writes.zygote")
    yield made
    made.close()


@pytest.fixture(params=["inline", "file_id", "rejected"])
def case(request: pytest.FixtureRequest, desk: Desk, tmp_path: Path) -> Case:
    """A Session whose store is closed; the write has not begun."""
    given: dict[str, Any] = {"environment_id": desk.environment, "path": "/workspace/a.txt"}
    if request.param == "file_id":
        given |= {"type": "file_id", "file_id": desk.source(DATA)}
    else:
        given |= {"type": "inline", "data": base64.b64encode(DATA).decode()}
    rejected = request.param == "rejected"
    if rejected:
        desk.fill(file("a.txt"))
    shut(desk.house)
    return Case(tmp_path / "data", desk, given, rejected)


def reopened(case: Case, folder: Path, check: Callable[[Desk], None]) -> None:
    """Look at a folder as a restarted service finds it."""
    house = make_room(folder.parent)
    losing = Losing(house.state.inner)
    room = replace(house.room, state=losing, owner=Owner("serve", "restarted"))
    try:
        check(replace(case.desk, house=house, room=room, state=losing, clock=house.clock))
    finally:
        shut(house)


def copied(case: Case, to: Path) -> Path:
    """A copy of the prepared folder."""
    shutil.copytree(case.folder, to / "data")
    return to / "data"


def expect_after(desk: Desk, done: int, case: Case) -> None:
    """What is there after so many transactions of a write: none, the intent, the receipt, the end."""
    if done == 0:
        expect_free(desk, records=0)
    elif done == 3:
        there = desk.content("a.txt") if not case.rejected else DATA
        assert there == DATA
        expect_free(desk, records=1)
    else:
        published = done == 2 and not case.rejected
        receipt: Any = None if done == 1 else "rejected" if case.rejected else "committed"
        expect_unsettled(desk, receipt=receipt, there=published or case.rejected)
        assert desk.create("/workspace/other").retry == "false", "11.19: its attempt died with its process"
        if published:
            assert desk.content("a.txt") == DATA
        expect_settles_only(desk, "committed" if published else "rejected")


def test_G9_a_write_killed_at_any_step(case: Case, zygote: Zygote, tmp_path: Path) -> None:
    killed, labels = zygote.run(
        copied(case, tmp_path / "whole"), None, operation="environments.create_file", input=case.given
    )
    assert not killed
    assert labels.count("after state.transact") == 3
    assert {"before objects.stage", "after os.fsync"} <= set(labels)
    assert ("refused" in labels) is case.rejected
    steps = [label for label in labels if label != "refused"]
    for number in range(1, len(steps) + 1):
        folder = copied(case, tmp_path / str(number))
        killed, _ = zygote.run(folder, number, operation="environments.create_file", input=case.given)
        assert killed, steps[number - 1]
        done = steps[:number].count("after state.transact")

        def check(desk: Desk, done: int = done) -> None:
            expect_after(desk, done, case)

        reopened(case, folder, check)
        shutil.rmtree(folder.parent)


def test_an_operators_settling_killed_at_any_step(desk: Desk, zygote: Zygote, tmp_path: Path) -> None:
    desk.state.plan["publish"] = "after away"
    assert desk.create(data=DATA).status == 503
    desk.state.away = False
    (record,) = desk.records()
    shut(desk.house)
    case = Case(tmp_path / "data", desk, {"id": record.id, "outcome": "committed"}, rejected=False)
    killed, labels = zygote.run(copied(case, tmp_path / "whole"), None, operation="writes.settle", input=case.given)
    assert not killed
    assert labels == ["before state.transact", "after state.transact"] * 2
    for number in range(1, len(labels) + 1):
        folder = copied(case, tmp_path / str(number))
        assert zygote.run(folder, number, operation="writes.settle", input=case.given)[0]

        def check(desk: Desk, number: int = number) -> None:
            again = desk.ask("writes.settle", case.given)
            assert again.status == (404 if number == 4 else 200)
            assert desk.content("a.txt") == DATA
            expect_free(desk, records=1)

        reopened(case, folder, check)
