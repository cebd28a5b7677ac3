"""`files[]` of a run: which session, and what is copied (exec.md A8.2 to A8.4, cases.md C10, D2, D3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.operations.janitor import sweep
from tests.fakes import Desk, House, Stop, writes

MISSING = 'workroom: input file "data.csv" is not available\n'


def ref(upload: Any, name: str | None = None, *, home: str = "storage_session_id") -> dict[str, Any]:
    """A reference to the one file of an upload's answer."""
    made: dict[str, Any] = {"id": upload.files[0].fileId, home: upload.session_id}
    return made if name is None else {**made, "name": name}


def seen(house: House, **data: Any) -> tuple[Any, dict[str, str]]:
    """The answer of a run, and the files that its program finds."""
    found: dict[str, str] = {}

    def script(desk: Desk) -> None:
        for path, entry in desk.before.items():
            if entry.kind == "file":
                found[path] = desk.read(path).decode()

    return house.run(script, **data), found


@pytest.mark.parametrize("home", ["storage_session_id", "session_id"])
def test_D2_D3_a_run_happens_in_the_session_of_its_first_file(house: House, home: str) -> None:
    upload = house.put("data.csv", "1,2")
    answer, files = seen(house, files=[ref(upload, "data.csv", home=home)])
    assert answer.session_id == upload.session_id
    assert files == {"data.csv": "1,2"}
    assert (answer.stderr, answer.files) == ("", [])


def test_storage_session_id_is_read_before_session_id(house: House) -> None:
    one, two = house.put("a", "1"), house.put("a", "2")
    both = {"id": one.files[0].fileId, "storage_session_id": one.session_id, "session_id": two.session_id}
    assert seen(house, files=[both])[0].session_id == one.session_id


def test_A8_2_a_file_is_found_by_id_or_by_path(house: House) -> None:
    upload = house.put("d/data.csv", "1")
    for ident in (upload.files[0].fileId, "d/data.csv"):
        answer, files = seen(house, files=[{"id": ident, "session_id": upload.session_id}])
        assert (answer.stderr, files) == ("", {"d/data.csv": "1"})


def test_A8_2_an_id_is_tried_before_a_path(house: House) -> None:
    target = house.put("target", "by id")
    ident = target.files[0].fileId
    house.put(ident, "by path", session_id=target.session_id)
    assert house.text(target.session_id, ident) == "by id"


def test_A8_2_an_old_reference_yields_the_paths_present_bytes(house: House) -> None:
    upload = house.put("a", "old")
    house.put("a", "new", session_id=upload.session_id)
    assert house.text(upload.session_id, upload.files[0].fileId) == "new"


def test_A8_2_ids_survive_a_restart(house: House) -> None:
    upload = house.put("a", "1")
    assert house.again().text(upload.session_id, upload.files[0].fileId) == "1"


def test_A8_3_the_body_decides_before_the_hint_before_the_files(house: House) -> None:
    home, other = house.put("a", "1"), house.put("b", "2")
    hinted = house.run(runtime_session_hint="h").session_id
    first, files = seen(house, session_id=home.session_id, runtime_session_hint="h", files=[ref(other)])
    assert (first.session_id, files) == (home.session_id, {"a": "1", "b": "2"})
    second, files = seen(house, runtime_session_hint="h", files=[ref(other)])
    assert (second.session_id, files) == (hinted, {"b": "2"})


def test_A8_3_a_hint_is_of_one_project_and_one_user(house: House) -> None:
    def run(**data: Any) -> str:
        session: str = house.run(runtime_session_hint="conversation", **data).session_id
        return session

    assert run() == run() == run(user_id="")
    sessions = {run(), run(user_id="u"), run(user_id="v"), run(project="two"), run(user_id="u", project="two")}
    assert len(sessions) == 5
    assert house.run(runtime_session_hint="conversation2").session_id not in sessions
    assert house.run(runtime_session_hint="n", user_id="uconversatio").session_id not in sessions


def test_A8_3_a_hint_points_at_a_random_id(house: House) -> None:
    session = house.run(runtime_session_hint="conversation-42", user_id="alice").session_id
    rows = house.state.query("p/one", "hint/")
    assert [row.attributes["session"] for row in rows] == [session]
    assert "conversation" not in rows[0].sort
    assert "alice" not in rows[0].sort


def test_A8_3_an_expired_sessions_hint_gets_a_new_one(house: House) -> None:
    old = house.run(runtime_session_hint="h").session_id
    house.clock.forward(house.room.limits.session_ms)
    new = house.run(runtime_session_hint="h").session_id
    assert new != old
    sweep(house.room)
    assert house.run(runtime_session_hint="h").session_id == new


def test_A8_3_two_first_runs_with_one_hint_share_a_session(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=10_000)
    sessions: list[str] = []

    def other_run(_: object) -> None:
        sessions.append(house.run(lambda desk: desk.write("theirs", "1"), runtime_session_hint="h").session_id)

    house.state.before = other_run  # it comes between the look at the row and its making
    mine = house.run(lambda desk: desk.write("mine", "1"), runtime_session_hint="h").session_id
    assert sessions == [mine]
    assert house.names(mine) == ["mine", "theirs"]
    assert len(house.state.query("p/one", "session/")) == 1


def test_A8_3_threads_that_begin_one_hint_at_once_share_a_session(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=20_000)
    gate = threading.Barrier(4)
    sessions: list[str] = []

    def one(number: int) -> None:
        gate.wait(10)
        made = house.run(lambda desk: desk.write(f"f{number}", "1"), code=f"t{number}", runtime_session_hint="h")
        sessions.append(made.session_id)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(sessions) == 4
    assert len(set(sessions)) == 1
    assert house.names(sessions[0]) == ["f0", "f1", "f2", "f3"]


def test_A8_3_a_hints_waiter_begins_anew_when_the_first_run_came_to_nothing(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=20_000)
    inside, result = Stop(), []

    def fails(desk: Desk) -> None:
        waiter.start()
        inside.need()
        raise RuntimeError

    def wait() -> None:
        result.append(house.run(code="second", runtime_session_hint="h"))

    original = house.state.get

    def get(partition: str, sort: str) -> Any:
        item = original(partition, sort)
        if threading.current_thread() is waiter and sort == "head" and item is not None:
            inside.set()
        return item

    waiter = threading.Thread(target=wait)
    house.state.get = get  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        house.run(fails, runtime_session_hint="h")
    waiter.join(20)
    assert len(result) == 1
    assert [row.sort for row in house.state.query("p/one", "session/")] == [f"session/{result[0].session_id}"]


def test_A8_4_a_file_of_another_session_is_copied_under_its_name(house: House) -> None:
    home, other = house.put("a", "1"), house.put("b", "2")
    answer, files = seen(house, files=[ref(home), ref(other, "in/b.csv")])
    assert answer.session_id == home.session_id
    assert files == {"a": "1", "in/b.csv": "2"}
    assert (answer.stderr, answer.files) == ("", [])
    assert house.text(home.session_id, "in/b.csv") == "2"
    assert house.names(other.session_id) == ["b"]


def test_A8_4_a_copy_is_by_bytes_and_outlives_its_source(house: House) -> None:
    home, other = house.put("a", "1"), house.put("b", "2")
    seen(house, files=[ref(home), ref(other, "b")])
    house.room.objects.delete_prefix(f"p/one/s/{other.session_id}/")
    assert house.text(home.session_id, "b") == "2"


@pytest.mark.parametrize("size", [0, 5, 50])
def test_A8_4_small_large_and_empty_files_are_copied(build: Callable[..., House], size: int) -> None:
    house = build(small_file_bytes=10)
    home, other = house.put("a", "1"), house.put("b", "x" * size)
    _, files = seen(house, files=[ref(home), ref(other)])
    assert files == {"a": "1", "b": "x" * size}


def test_A8_4_mode_time_and_read_only_mark_come_along(house: House) -> None:
    home, other = house.put("a"), house.put("b", "2", read_only=True)
    house.run(lambda desk: desk.write("b", "3"), files=[ref(home), ref(other)])
    assert house.text(home.session_id, "b") == "2"


def test_A8_4_a_repeated_reference_brings_the_sources_new_bytes_while_the_copy_is_unchanged(house: House) -> None:
    home, other = house.put("a"), house.put("b", "1")
    files = [ref(home), ref(other, "b")]
    assert seen(house, files=files)[1]["b"] == "1"
    house.put("b", "2", session_id=other.session_id)
    assert seen(house, files=files)[1]["b"] == "2"


def test_A8_4_a_file_that_a_program_changed_is_never_overwritten(house: House) -> None:
    home, other = house.put("a"), house.put("b", "1")
    files = [ref(home), ref(other, "b")]
    house.run(lambda desk: desk.write("b", "changed"), files=files)
    house.put("b", "2", session_id=other.session_id)
    answer, found = seen(house, files=files)
    assert found["b"] == "changed"
    assert answer.stderr == 'workroom: input file "b" was not copied: another file has that name\n'


def test_A8_4_nor_is_an_upload_or_a_copy_of_another_file(house: House) -> None:
    home, other, third = house.put("b", "upload"), house.put("b", "1"), house.put("c", "2")
    answer, found = seen(house, session_id=home.session_id, files=[ref(other, "b")])
    assert (found["b"], "another file" in answer.stderr) == ("upload", True)
    seen(house, session_id=home.session_id, files=[ref(third, "c")])
    answer, found = seen(house, session_id=home.session_id, files=[ref(other, "c")])
    assert (found["c"], "another file" in answer.stderr) == ("2", True)


def test_A8_4_the_same_bytes_need_no_copy_and_no_word(house: House) -> None:
    home, other = house.put("b", "same"), house.put("b", "same")
    before = house.room.objects.list(f"p/one/s/{home.session_id}/")
    answer, found = seen(house, session_id=home.session_id, files=[ref(other, "b")])
    assert (found, answer.stderr) == ({"b": "same"}, "")
    assert house.room.objects.list(f"p/one/s/{home.session_id}/") == before


def test_A8_4_a_removed_copy_comes_back(house: House) -> None:
    home, other = house.put("a"), house.put("b", "1")
    files = [ref(home), ref(other, "b")]
    house.run(lambda desk: desk.remove("b"), files=files)
    assert seen(house, files=files)[1]["b"] == "1"


def test_A8_4_unknown_foreign_expired_and_missing_have_one_and_the_same_line(house: House) -> None:
    expired = house.put("data.csv")
    house.clock.forward(house.room.limits.session_ms)
    foreign, live = house.put("data.csv", project="two"), house.put("x", "1")
    bad: list[dict[str, Any]] = [
        {"id": "u" * 21, "session_id": "u" * 21},
        {"id": "u" * 21, "session_id": live.session_id},
        {"id": "u" * 21},
        {"id": "u" * 21, "session_id": ""},
        {"id": "../../etc/passwd", "session_id": live.session_id},
        {"id": "u" * 21, "session_id": "../" + live.session_id},
        ref(foreign),
        ref(expired),
    ]
    lines = {seen(house, files=[{**one, "name": "data.csv"}])[0].stderr for one in bad}
    assert lines == {MISSING}


def test_A8_4_they_are_skipped_in_choosing_the_session_and_the_run_goes_on(house: House) -> None:
    live = house.put("x", "1")
    bad = {"id": "u" * 21, "session_id": "u" * 21, "name": "data.csv"}
    answer, files = seen(house, files=[bad, ref(live)])
    assert (answer.session_id, files, answer.stderr) == (live.session_id, {"x": "1"}, MISSING)
    alone = house.run(files=[bad])
    assert (alone.code, alone.stderr) == (0, MISSING)


def test_A8_4_a_reference_without_a_name_is_named_by_its_id(house: House) -> None:
    answer = house.run(files=[{"id": "some\nid", "session_id": "u" * 21}])
    assert answer.stderr == 'workroom: input file "some\\nid" is not available\n'


def test_C10_of_two_files_with_one_name_the_last_wins_and_it_is_said(house: House) -> None:
    first, last = house.put("data.csv", "first"), house.put("data.csv", "last")
    files = [ref(first, "data.csv"), ref(last, "data.csv")]
    answer, found = seen(house, files=files)
    assert found == {"data.csv": "last"}
    assert answer.stderr == 'workroom: input file "data.csv" was named twice; the last one is used\n'
    assert house.text(first.session_id, "data.csv") == "first"
    again, found = seen(house, session_id=answer.session_id, files=files)
    assert (again.code, found) == (0, {"data.csv": "last"})


def test_C10_also_in_a_named_session(house: House) -> None:
    home, first, last = house.put("x"), house.put("data.csv", "first"), house.put("data.csv", "last")
    _, found = seen(house, session_id=home.session_id, files=[ref(first), ref(last)])
    assert found["data.csv"] == "last"


def test_C10_the_same_reference_twice_is_one(house: House) -> None:
    home, other = house.put("x"), house.put("b", "1")
    answer, found = seen(house, files=[ref(home), ref(other), ref(other)])
    assert (answer.stderr, found["b"]) == ("", "1")


def test_a_file_is_never_put_below_a_file(house: House) -> None:
    home, one, two = house.put("x"), house.put("a", "1"), house.put("b", "2")
    answer, found = seen(house, session_id=home.session_id, files=[ref(one, "n"), ref(two, "n/b")])
    assert found == {"x": "data", "n": "1"}
    assert answer.stderr == 'workroom: input file "n/b" was not copied: it has a parent that is not a folder\n'
    assert seen(house, session_id=home.session_id)[1] == found


def test_a_file_is_never_put_over_a_folder(house: House) -> None:
    home, other = house.put("d/x"), house.put("b", "2")
    answer, _ = seen(house, session_id=home.session_id, files=[ref(other, "d")])
    assert "was not copied" in answer.stderr
    assert house.names(home.session_id) == ["d/x"]


def test_a_file_of_the_same_session_is_copied_as_it_is_under_the_lock(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=10_000)
    home = house.put("a", "old")
    begun = Stop()
    found: list[str] = []

    def first(desk: Desk) -> None:
        waiter.start()
        begun.need()
        desk.write("a", "new")

    def wait() -> None:
        files = [ref(home, "copy")]
        house.run(lambda desk: found.append(desk.read("copy").decode()), code="second", files=files)

    original = house.state.get
    looks = 0

    def get(partition: str, sort: str) -> Any:
        nonlocal looks
        if threading.current_thread() is waiter and sort == "head":
            looks += 1
            if looks == 2:  # the references are resolved, and it waits for the lock
                begun.set()
        return original(partition, sort)

    waiter = threading.Thread(target=wait)
    house.state.get = get  # type: ignore[method-assign]
    house.run(first, code="first", session_id=home.session_id)
    waiter.join(20)
    assert found == ["new"]


@pytest.mark.parametrize("limit", [{"workspace_bytes": 150}, {"workspace_entries": 2}, {"names_bytes": 8}])
@pytest.mark.parametrize("where", ["session", "hint"])
def test_inputs_that_would_fill_the_workspace_are_400_and_open_nothing(
    build: Callable[..., House], limit: dict[str, int], where: str
) -> None:
    house = build(**limit)
    ups = [house.put(name * 3, name * 60) for name in "abc"]
    before = house.state.query("p/one", "")
    data = {"session_id": ups[0].session_id} if where == "session" else {"runtime_session_hint": "h"}
    with pytest.raises(Failure) as refusal:
        house.run(files=[ref(up) for up in ups], **data)
    assert refusal.value.code is Code.INVALID_REQUEST
    assert "`files`" in refusal.value.message
    assert str(next(iter(limit.values()))) in refusal.value.message
    assert house.state.query("p/one", "") == before
    assert house.run(session_id=ups[0].session_id).code == 0


def test_bytes_that_the_store_lost_are_503_and_commit_nothing(house: House) -> None:
    home, other = house.put("a"), house.put("b", "1")
    house.room.objects.delete_prefix(f"p/one/s/{other.session_id}/")
    with pytest.raises(Failure) as refusal:
        house.run(session_id=home.session_id, files=[ref(other)])
    assert refusal.value.code is Code.STORE_UNAVAILABLE
    assert house.names(home.session_id) == ["a"]
    assert house.run(session_id=home.session_id).code == 0


def test_1_000_references_into_a_session_of_many_files_are_looked_up_at_once(house: House) -> None:
    session = house.run(writes(*((f"f{number}", "x") for number in range(2_000)))).session_id
    rows = house.do("files.list", {"session_id": session}).root
    files = [{"id": row.id, "session_id": session, "name": row.metadata["original-filename"]} for row in rows[:1_000]]
    begun = time.process_time()
    assert house.run(files=files).session_id == session
    assert time.process_time() - begun < 5  # a hash for each pair takes ten times as long
