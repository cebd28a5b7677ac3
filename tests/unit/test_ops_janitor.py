"""What the janitor removes, what it never removes, and the races between (DESIGN §4, cases.md D12, D17)."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from shared.errors import Failure
from shared.operations.janitor import sweep
from shared.operations.keys import put_key
from shared.operations.workspace import grace_ms
from shared.store.ports import StoreUnavailable
from tests.fakes import Desk, House, writes


@pytest.fixture(autouse=True)
def projects(house: House) -> None:
    """The janitor walks the projects that have ever had a key."""
    known(house)


def known(house: House) -> None:
    for project in ("one", "two"):
        put_key(house.room, project, {"id": project, "project": project, "name": "", "created": 0, "until": None})


def keys(house: House) -> list[str]:
    return [info.key for info in house.objects.list("p/")]


def orphan(house: House, owner: str, name: str = "o" * 21, body: bytes = b"orphan") -> str:
    key = f"{owner}/{name}"
    house.objects.put_new(key, body, hashlib.sha256(body).hexdigest())
    house.objects.see()
    return key


def test_D17_an_expired_session_is_removed_with_everything_of_it(house: House) -> None:
    over = house.run(lambda desk: desk.write("a", "x"), runtime_session_hint="h").session_id
    foreign = house.put("b", project="two").session_id
    house.clock.forward(house.room.limits.session_ms - 1)
    lives = house.put("c").session_id
    assert sweep(house.room).sessions == 0
    house.clock.forward(1)
    assert sweep(house.room).sessions == 2
    for project, session in (("one", over), ("two", foreign)):
        assert house.objects.list(f"p/{project}/s/{session}/") == []
        assert house.state.query(f"p/{project}/s/{session}") == []
    assert [row.sort for row in house.state.query("p/one")] == [f"session/{lives}"]
    assert house.state.query("p/two") == []
    assert house.names(lives) == ["c"]
    assert sweep(house.room).sessions == 0


def test_a_session_whose_id_begins_like_an_expired_ones_stays(house: House) -> None:
    from shared.domain.manifest import Entry  # noqa: PLC0415
    from shared.operations import workspace  # noqa: PLC0415
    from shared.operations.transfer import Joining, join  # noqa: PLC0415

    short, other = "a" * 21, "a" * 20 + "b"
    for session, start in ((short, 0), (other, house.room.limits.session_ms - 1)):
        house.clock.forward(start)
        opened = workspace.fresh(house.room, "one", session)
        join(house.room, opened, Joining([Entry(session, "file", 0o644)], field="name"))
        house.objects.put_new(f"p/one/s/{session}/x", b"x", hashlib.sha256(b"x").hexdigest())
    house.clock.forward(1)
    sweep(house.room)
    assert house.names(other) == [other]
    assert keys(house) == [f"p/one/s/{other}/x"]


def test_a_session_that_is_in_use_is_not_removed(build: Callable[..., House]) -> None:
    house = build(session_ms=1_000)
    known(house)
    session = house.put("a").session_id

    def script(desk: Desk) -> None:
        house.clock.forward(10_000)
        assert sweep(house.room).sessions == 0
        desk.write("b", "1")

    house.run(script, session_id=session)
    assert house.names(session) == ["a", "b"]


def test_a_removal_that_a_use_overtakes_removes_nothing(house: House) -> None:
    session = house.put("a").session_id
    house.clock.forward(house.room.limits.session_ms)

    def use(_: object) -> None:
        house.clock.now -= 1
        house.put("b", session_id=session)

    house.state.before = use
    assert sweep(house.room).sessions == 0
    assert house.names(session) == ["a", "b"]


@pytest.mark.parametrize("step", ["objects", "partition", "row"])
def test_a_removal_that_is_cut_is_finished_by_the_next_sweep(house: House, step: str, monkeypatch: Any) -> None:
    session = house.put("a", "x" * 40_000).session_id
    house.clock.forward(house.room.limits.session_ms)

    class Cut(BaseException):
        pass

    def cut(*_: Any, **__: Any) -> Any:
        raise Cut

    with monkeypatch.context() as patch:
        if step == "objects":
            patch.setattr(house.objects, "delete_prefix", cut)
        elif step == "partition":
            patch.setattr(house.state, "delete_partition", cut)
        else:
            real = house.state.inner.delete_partition

            def then_cut(partition: str) -> None:
                real(partition)
                raise Cut

            patch.setattr(house.state, "delete_partition", then_cut)
        with pytest.raises(Cut):
            sweep(house.room)
    with pytest.raises(Failure):
        house.names(session)
    assert sweep(house.room).sessions == 1
    assert keys(house) == []
    assert house.state.query("p/one") == []
    assert house.state.query(f"p/one/s/{session}") == []


def test_an_orphan_goes_when_it_is_older_than_any_run_and_not_before(house: House) -> None:
    session = house.put("a").session_id
    orphans = [orphan(house, owner) for owner in (f"p/one/s/{session}", "p/one/s/" + "u" * 21, "p/one/idem/x")]
    house.clock.forward(grace_ms(house.room) - 1)
    assert sweep(house.room).objects == 0
    assert set(orphans) < set(keys(house))
    house.clock.forward(1)
    assert sweep(house.room).objects == 3
    assert not set(orphans) & set(keys(house))
    assert house.text(session, "a") == "data"


def test_the_grace_covers_the_longest_run_wait_and_grant(house: House) -> None:
    limits = house.room.limits
    assert grace_ms(house.room) > limits.run_ms_max + limits.lock_wait_ms + limits.grant_ms + limits.lease_ms


def test_what_is_named_stays_however_old(build: Callable[..., House]) -> None:
    house = build(small_file_bytes=10, inline_item_bytes=50, session_ms=10**12)
    known(house)

    def script(desk: Desk) -> None:
        for number in range(50):
            desk.write(f"d/{number}", str(number))
        desk.write("large", "L" * 100)
        desk.stdout = "x" * 100_000

    answer = house.run(script, code="x", idempotency_key="k")
    other = house.run(files=[{"id": "large", "session_id": answer.session_id}], session_id=house.put("z").session_id)
    house.objects.see()
    house.clock.forward(house.room.limits.record_ms - 1)
    sweep(house.room)
    house.room.manifests.__init__(0)  # type: ignore[misc]
    assert house.text(answer.session_id, "d/49") == "49"
    assert house.text(other.session_id, "large") == "L" * 100
    assert house.run(code="x", idempotency_key="k") == answer


def test_what_replaced_versions_named_goes(house: House) -> None:
    session = house.put("a", "1").session_id
    house.put("a", "2", session_id=session)
    house.put("b", "3", session_id=session)
    house.do("files.delete", {"session_id": session, "file_id": "b"})
    house.objects.see()
    house.clock.forward(grace_ms(house.room))
    assert sweep(house.room).objects == 2
    assert house.text(session, "a") == "2"
    assert len(keys(house)) == 1


def test_an_object_that_a_racing_commit_names_is_never_removed(house: House) -> None:
    """The janitor looks at an old object, a run commits, and only then the janitor reads what is named."""
    session = house.put("a", "1").session_id
    old = orphan(house, f"p/one/s/{session}")
    house.clock.forward(grace_ms(house.room))
    listed = house.objects.list

    def commit_between(*args: Any, **more: Any) -> Any:
        page = listed(*args, **more)
        if page:
            house.objects.list = listed  # type: ignore[method-assign]
            house.run(writes(("b", "2"), ("c", "3" * 2_000_000)), session_id=session)
        return page

    house.objects.list = commit_between  # type: ignore[method-assign]
    assert sweep(house.room).objects == 1
    assert old not in keys(house)
    assert (house.text(session, "a"), house.text(session, "b")) == ("1", "2")
    assert len(house.text(session, "c")) == 2_000_000


def test_a_commit_after_the_janitor_read_what_is_named_loses_nothing(house: House) -> None:
    session = house.put("a", "1").session_id
    orphan(house, f"p/one/s/{session}")
    house.clock.forward(grace_ms(house.room))
    real = house.state.inner.get

    def get(partition: str, sort: str) -> Any:
        item = real(partition, sort)
        if partition == f"p/one/s/{session}" and swept == [False]:
            swept[0] = True
            house.run(lambda desk: desk.write("b", "2"), session_id=session)
        return item

    swept: list[bool] = []
    run_sessions = sweep  # the sessions are walked first; the race begins with the objects
    listed = house.objects.list

    def begin(*args: Any, **more: Any) -> Any:
        swept.append(False) if not swept else None
        return listed(*args, **more)

    house.objects.list = begin  # type: ignore[method-assign]
    house.state.get = get  # type: ignore[method-assign]
    assert run_sessions(house.room).objects == 1
    assert swept == [True]
    assert (house.text(session, "a"), house.text(session, "b")) == ("1", "2")


def test_a_run_that_began_with_copies_never_commits_what_was_swept(house: House) -> None:
    home, other = house.put("x").session_id, house.put("b", "copied")

    def script(desk: Desk) -> None:
        house.objects.see()
        house.clock.forward(grace_ms(house.room) + 1)
        assert sweep(house.room).objects >= 1

    with pytest.raises(Failure) as refusal:
        house.run(script, session_id=home, files=[{"id": other.files[0].fileId, "session_id": other.session_id}])
    assert refusal.value.code.status == 504
    assert house.names(home) == ["x"]
    house.run(session_id=home)


def test_a_manifest_that_cannot_be_read_keeps_its_objects_and_no_others(build: Callable[..., House]) -> None:
    house = build(inline_item_bytes=10)
    known(house)
    broken, well = house.put("a", "1").session_id, house.put("b", "2").session_id
    head = house.state.get(f"p/one/s/{broken}", "head")
    assert head is not None
    house.objects.delete(head.attributes["pointer"])
    house = house.again()
    kept = orphan(house, f"p/one/s/{broken}")
    gone = orphan(house, f"p/one/s/{well}")
    house.clock.forward(grace_ms(house.room))
    assert sweep(house.room).objects == 1
    assert kept in keys(house)
    assert gone not in keys(house)
    with pytest.raises(StoreUnavailable):
        house.names(broken)
    assert house.names(well) == ["b"]


def test_an_object_is_as_old_as_its_key_not_as_its_bytes(house: House) -> None:
    """Else the first file of a batch that came in slowly would be an orphan of age before it is named."""
    folder = house.data / "objects" / "staging"
    with house.objects.stage() as stage:
        stage.write(b"bytes that came an hour ago")
        (part,) = folder.iterdir()
        os.utime(part, (time.time() - 3_600,) * 2)
        stage.commit("p/one/s/x/y")
    (stored,) = [path for path in (house.data / "objects" / "keys").rglob("*") if path.is_file()]
    assert time.time() - stored.stat().st_mtime < 600


def test_many_objects_are_swept_in_pages(house: House) -> None:
    session = house.put("a").session_id
    for number in range(1_050):
        orphan_key = f"p/one/s/{session}/{number:021d}"
        house.objects.put_new(orphan_key, b"", hashlib.sha256(b"").hexdigest())
    house.objects.see()
    house.clock.forward(grace_ms(house.room))
    assert sweep(house.room).objects == 1_050
    assert house.names(session) == ["a"]


def test_a_hint_whose_session_is_gone_goes(house: House) -> None:
    house.run(runtime_session_hint="h")
    house.clock.forward(house.room.limits.session_ms)
    sweep(house.room)
    assert house.state.query("p/one") == []


def test_a_hint_that_a_run_renews_meanwhile_stays(house: House) -> None:
    house.run(runtime_session_hint="h")
    house.clock.forward(house.room.limits.session_ms)
    sessions: list[str] = []
    real = house.state.query

    def query(partition: str, prefix: str = "", **more: Any) -> Any:
        page = real(partition, prefix, **more)
        if prefix == "hint/" and page and not sessions:
            sessions.append(house.run(runtime_session_hint="h").session_id)
        return page

    house.state.query = query  # type: ignore[method-assign]
    sweep(house.room)
    assert house.run(runtime_session_hint="h").session_id == sessions[0]


def test_bytes_that_never_became_an_object_are_swept_by_their_age(house: House) -> None:
    sweep(house.room)
    assert house.objects.staging_swept == [86_400.0]


def test_two_sweeps_at_once_do_no_harm(house: House) -> None:
    house.put("a")
    house.clock.forward(house.room.limits.session_ms)
    inner: list[int] = []
    house.state.before = lambda _: inner.append(sweep(house.room).sessions)
    outer = sweep(house.room).sessions
    assert inner == [1]
    assert outer == 0
    assert keys(house) == []
