"""A sweep whose time is bounded: it stops, keeps its place, and what there is gets looked at in turn."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions import telemetry
from functions.direct import app as direct
from functions.environment import HERE
from functions.janitor import app
from shared.operations.janitor import UNSETTLED, Swept, oldest_unsettled_ms, sweep
from shared.operations.keys import put_key
from shared.operations.room import Room
from shared.operations.workspace import grace_ms
from shared.store.ports import PutNew, StoreUnavailable
from tests.events.samples import SETTINGS, Context, Stage
from tests.fakes import House, make_room, shut
from tests.wire.scripted import program

PROJECTS = ("one", "three", "two")


@pytest.fixture
def house(tmp_path: Any) -> Any:
    """A room whose clock the test moves, with three projects."""
    made = make_room(tmp_path)
    for project in PROJECTS:
        put_key(made.room, project, {"id": project, "project": project, "name": "", "created": 0, "until": None})
    yield made
    shut(made)


def steps(count: int) -> Callable[[], bool]:
    """Late after that many steps."""
    left = [count]

    def late() -> bool:
        left[0] -= 1
        return left[0] < 0

    return late


def fill(house: House) -> None:
    """In each project two expired sessions with a hint each, one that lives, and an old object that nothing names."""
    for project in PROJECTS:
        for number in range(2):
            house.run(lambda desk: desk.write("a", "x"), runtime_session_hint=f"h{number}", project=project)
    house.clock.forward(house.room.limits.session_ms + grace_ms(house.room))
    for project in PROJECTS:
        house.put("lives", project=project)
        house.objects.put_new(f"p/{project}/s/{'u' * 21}/o", b"x", hashlib.sha256(b"x").hexdigest())


def whole(house: House, count: int) -> tuple[Swept, int]:
    """Sweep with so many steps a time until it says that it came to its end: what it removed in all, and how often."""
    sessions = objects = 0
    for times in range(1, 200):
        swept = sweep(house.room, steps(count))
        sessions += swept.sessions
        objects += swept.objects
        if swept.whole:
            return Swept(sessions, objects, 0), times
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 100])
def test_a_sweep_in_parts_removes_what_a_whole_one_removes(house: House, count: int) -> None:
    fill(house)
    house.objects.see()
    house.clock.forward(grace_ms(house.room) + 1)
    swept, times = whole(house, count)
    assert (swept.sessions, swept.objects) == (6, 3)
    assert (times > 1) == (count < 100)
    for project in PROJECTS:
        rows = [row.sort.partition("/")[0] for row in house.state.query(f"p/{project}")]
        assert rows == ["session"]
    assert house.state.get("sys", "sweep") is None
    assert sweep(house.room) == Swept(0, 0, 0)


def test_what_is_not_over_holds_up_no_later_sweep(house: House) -> None:
    """With two steps a time and five live sessions before it, the expired one of the last project goes in the end."""
    for _ in range(5):
        house.put("a", project="one")
    house.put("a", project="two")
    house.clock.forward(house.room.limits.session_ms - 1)
    for row in house.state.query("p/one", "session/"):
        house.put("b", project="one", session_id=row.sort.removeprefix("session/"))
    house.clock.forward(1)
    house.objects.see()
    swept, _ = whole(house, 2)
    assert swept.sessions == 1
    assert len(house.state.query("p/one", "session/")) == 5


def test_a_sweep_without_a_bound_neither_reads_nor_keeps_a_place(house: House) -> None:
    fill(house)
    assert not sweep(house.room, steps(1)).whole
    kept = house.state.get("sys", "sweep")
    assert kept is not None
    assert sweep(house.room).whole
    assert house.state.get("sys", "sweep") == kept


def test_the_oldest_write_that_is_not_settled_is_the_one_that_is_told(house: House) -> None:
    assert oldest_unsettled_ms(house.room) == 0
    now = house.clock.now
    for project, age in (("one", 5_000), ("one", 70_000), ("two", 61_000)):
        since = now - age
        house.state.transact([PutNew(f"p/{project}", f"{UNSETTLED}{since:015d}/w", {"since": since})])
    assert oldest_unsettled_ms(house.room) == 70_000


def test_the_function_tells_what_it_removed_and_how_long_the_oldest_write_waits(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    since = stage.room.clock() - 90_000
    stage.room.state.transact([PutNew("p/first", f"{UNSETTLED}{since:015d}/w", {"since": since})])
    assert app.handler({}, Context()) == {"sessions": 0, "objects": 0, "records": 0, "whole": True}
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    values = {name: row[name] for row in lines if "_aws" in row for name in row if name != "_aws"}
    assert set(values) == {"unsettled_writes_oldest_s", "sessions_removed", "objects_removed"}
    assert 90 <= values["unsettled_writes_oldest_s"][0] < 150
    assert [row["whole"] for row in lines if row.get("event") == "sweep"] == [True]


def test_the_function_ends_before_its_time_does(stage: Stage) -> None:
    stage.do("files.write", name="a", content="1")
    stage.room.objects.put_new("p/first/s/u/o", b"x", hashlib.sha256(b"x").hexdigest())
    assert app.handler({}, Context(left_ms=app.MARGIN_MS))["whole"] is False
    assert app.handler({}, Context(left_ms=app.MARGIN_MS + 30_000))["whole"] is True


def test_a_store_that_cannot_be_reached_is_an_error_of_the_function(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(room: Room, late: Any, *, workers: bool) -> Swept:
        raise StoreUnavailable("x")

    monkeypatch.setattr(app, "sweep", broken)
    with pytest.raises(StoreUnavailable):
        app.handler({}, Context())


def test_gauges_are_metrics_without_dimensions() -> None:
    stream = io.StringIO()
    telemetry.EmfMetrics(stream).gauges(unsettled_writes_oldest_s=("Seconds", 0))
    row = json.loads(stream.getvalue())
    (directive,) = row["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [[]]
    assert directive["Metrics"] == [{"Name": "unsettled_writes_oldest_s", "Unit": "Seconds"}]
    assert row["unsettled_writes_oldest_s"] == [0.0]


@pytest.mark.parametrize("queued", [False, True])
def test_a_sessions_work_is_queued_where_there_is_a_queue_and_never_done_here(stage: Stage, queued: bool) -> None:
    sent: list[Any] = []

    class Kept:
        def send(self, message: Any) -> None:
            sent.append(message)

    lost = replace(stage.room, queue=Kept())
    with HERE.using(lost, SETTINGS):
        asked = {"agent": {"model": "program:py"}, "environment": {"type": "openai_hosted"}}
        given = {**asked, "input": program(stdout="out")}
        session = direct.handler(stage.ask("sessions.create", given), Context())["body"]["id"]
    sent.clear()
    with HERE.using(lost if queued else stage.room, SETTINGS):
        app.handler({}, Context())
    assert sent == ([{"project": "first", "session": session}] if queued else [])
    stage.room.background.shutdown(wait=True)
    assert stage.executor.started == 0
