"""What an executor answers is hostile: one test for each refusal, and random lies (DESIGN §6.5)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.paths import parents
from shared.executor.judge import BrokenAnswer, judge
from shared.executor.wire import Entry, RunAnswer, RunLimits, RunRequest

EMPTY = hashlib.sha256(b"").hexdigest()
DIGEST = hashlib.sha256(b"12345").hexdigest()
LIMITS = RunLimits(
    wall_ms=1_000, memory_bytes=1, processes=1, open_files=1, file_bytes=500, tmp_bytes=1, stdout_bytes=100,
    stderr_bytes=50, flood_bytes=1_000, workspace_bytes=1_000, workspace_entries=8, path_bytes=200, path_depth=4,
    inline_bytes=100, small_file_bytes=50,
)  # fmt: skip
REQUEST = RunRequest(
    run_id="r" * 21,
    workspace="w",
    lang="py",
    code="",
    args=(),
    limits=LIMITS,
    manifest=(
        Entry("d", "dir", 0o755),
        Entry("d/f", "file", 0o644, 5, 7, DIGEST, blob="p/x/s/y/old", offset=3),
        Entry("l", "link", 0o777, target="d/f"),
    ),
    reads={"p/x/s/y/old": ""},
    writes=(("p/x/s/y/g1", ""), ("p/x/s/y/g2", "")),
)


def new(path: str = "n", size: int = 5, *, blob: str = "", offset: int = 0, **more: Any) -> Entry:
    return Entry(path, "file", more.pop("mode", 0o644), size, more.pop("mtime_ns", 9),
                 more.pop("sha256", DIGEST if size else EMPTY), blob=blob, offset=offset, **more)  # fmt: skip


SOUND = RunAnswer(
    run_id="r" * 21, phase="run", code=0, signal=None, reason=None, stdout="out", stderr="err",
    changes=(new(), new("big", 400, blob="p/x/s/y/g1"), Entry("e", "dir", 0o755), new("e/x", 0)),
    deleted=("l",), lost=(("q", "it is too large"),), pack=b"12345", wall_ms=3,
)  # fmt: skip


def written(key: str) -> int | None:
    return {"p/x/s/y/g1": 400}.get(key)


def must_pass(**changes: Any) -> None:
    judge(replace(SOUND, **changes), REQUEST, written)


def must_refuse(**changes: Any) -> None:
    with pytest.raises(BrokenAnswer):
        must_pass(**changes)


def test_a_sound_answer_passes() -> None:
    must_pass()


@pytest.mark.parametrize("size", [100, 101])
def test_the_inline_pack_is_bounded(size: int) -> None:
    (must_pass if size == 100 else must_refuse)(pack=bytes(size))


def test_another_runs_answer() -> None:
    must_refuse(run_id="s" * 21)


@pytest.mark.parametrize(("name", "limit"), [("stdout", 100), ("stderr", 50)])
def test_output_is_bounded_by_what_replacement_makes_of_it(name: str, limit: int) -> None:
    must_pass(**{name: "\ufffd" * limit})
    must_refuse(**{name: "x" * (3 * limit + 4_097)})
    must_refuse(**{name: "\ufffd" * (limit + 1_400)})


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_output_that_is_no_text(name: str) -> None:
    must_refuse(**{name: "a\ud800b"})
    must_refuse(**{name: "\udcff"})
    must_pass(**{name: "a\0b\x1b"})


@pytest.mark.parametrize(
    ("code", "signal", "reason", "good"),
    [
        (0, None, None, True), (255, None, None, True), (None, 9, None, True), (None, 64, "memory", True),
        (None, None, "stopped", True), (1, None, "output", True), (None, None, None, False), (0, 9, None, False),
        (0, 9, "time", False), (256, None, None, False), (-1, None, None, False), (None, 0, None, False),
        (None, 65, None, False), (None, -9, "time", False),
    ],
)  # fmt: skip
def test_how_it_ended_must_be_possible(code: int | None, signal: int | None, reason: Any, good: bool) -> None:
    (must_pass if good else must_refuse)(code=code, signal=signal, reason=reason)


@pytest.mark.parametrize("name", ["wall_ms", "cpu_ms", "peak_memory", "restore_ms", "collect_ms"])
def test_times_and_sizes_are_numbers_that_clients_can_read(name: str) -> None:
    must_pass(**{name: 2**53})
    must_refuse(**{name: -1})
    must_refuse(**{name: 2**53 + 1})


def test_what_was_lost_is_bounded_and_cannot_forge_lines() -> None:
    must_pass(lost=(("q", "r" * 200),) * 100)
    must_refuse(lost=(("q", "r"),) * 101)
    must_refuse(lost=(("q", "r" * 201),))
    must_refuse(lost=(("q", "a\nb"),))
    must_refuse(lost=(("q", "\udcff"),))
    must_refuse(lost=(("q" * 5_000, "r"),))
    must_pass(lost=(("bad\nname\udcff", "it is too large"),))


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "a\0b", "a/b/c/d/e", "x" * 256, "\ud800"]
)
def test_a_path_outside_or_above_a_limit(path: str) -> None:
    must_refuse(changes=(new(path),))


@pytest.mark.parametrize("path", ["a/b/c/d", "x" * 200, "back\\slash", "\udcff", "new\nline"])
def test_a_path_at_its_limits(path: str) -> None:
    must_pass(changes=(new(path),))


def test_a_path_above_its_bytes() -> None:
    must_refuse(changes=(new("x" * 201),))
    must_refuse(changes=(new("é" * 101),))


def test_a_path_twice() -> None:
    must_refuse(changes=(new("n"), new("n")))
    must_refuse(changes=(new("l"),), deleted=("l",))
    must_refuse(deleted=("l", "l"))


def test_a_deletion_of_what_was_not_there() -> None:
    must_refuse(deleted=("nothing",))
    must_refuse(deleted=("../x",))


@pytest.mark.parametrize(("mode", "good"), [(0, True), (0o7777, True), (0o10000, False), (-1, False)])
def test_a_mode(mode: int, good: bool) -> None:
    (must_pass if good else must_refuse)(changes=(new(mode=mode),))


@pytest.mark.parametrize(("ns", "good"), [(2**63 - 1, True), (-(2**63), True), (2**63, False), (-(2**63) - 1, False)])
def test_a_time(ns: int, good: bool) -> None:
    (must_pass if good else must_refuse)(changes=(new(mtime_ns=ns),))


@pytest.mark.parametrize(
    ("kind", "target", "good"),
    [
        ("link", "x", True), ("link", "/etc/passwd", True), ("link", "\udcff", True), ("link", "t" * 4_096, True),
        ("link", "", False), ("link", "t" * 4_097, False), ("link", "é" * 2_049, False), ("link", "a\0b", False),
        ("link", "\ud800", False), ("dir", "x", False), ("file", "x", False), ("fifo", "x", False),
    ],
)  # fmt: skip
def test_a_links_target(kind: Any, target: str, good: bool) -> None:
    entry = replace(new(), target=target) if kind == "file" else Entry("n", kind, 0o777, target=target)
    (must_pass if good else must_refuse)(changes=(entry,))


@pytest.mark.parametrize("more", [{"size": 1}, {"sha256": DIGEST}, {"blob": "p/x/s/y/g1"}, {"offset": 1}])
def test_bytes_of_what_is_no_file(more: dict[str, Any]) -> None:
    must_refuse(changes=(Entry("n", "dir", 0o755, **more),))


@pytest.mark.parametrize("sha256", ["", "f" * 63, "F" * 64, "g" * 64, "\uff10" * 64, EMPTY])
def test_a_digest(sha256: str) -> None:
    must_refuse(changes=(new(sha256=sha256),))


def test_an_empty_file_has_the_digest_of_nothing() -> None:
    must_refuse(changes=(new(size=0, sha256=DIGEST),))
    must_refuse(changes=(new(size=-1),))


@pytest.mark.parametrize(
    ("size", "offset", "good"),
    [(5, 0, True), (4, 1, True), (5, 1, False), (6, 0, False), (1, 5, False), (1, -1, False)],
)
def test_bytes_inside_the_pack(size: int, offset: int, good: bool) -> None:
    (must_pass if good else must_refuse)(changes=(new(size=size, offset=offset),))


def test_bytes_inside_a_granted_object() -> None:
    must_pass(changes=(new(size=400, blob="p/x/s/y/g1"), new("m", 1, blob="p/x/s/y/g1", offset=399)))
    must_refuse(changes=(new(size=401, blob="p/x/s/y/g1"),))
    must_refuse(changes=(new(blob="p/x/s/y/g2"),))


@pytest.mark.parametrize("blob", ["p/x/s/y/old", "p/other/s/y/secret", "p/x/s/y/g", "../g1", "P/x/s/y/g1"])
def test_an_object_that_was_not_granted(blob: str) -> None:
    """Also when it is there: another project's object, or another file's place."""
    answer = replace(SOUND, changes=(new(blob=blob, size=5, offset=3),))
    with pytest.raises(BrokenAnswer):
        judge(answer, REQUEST, lambda key: 10_000)


def test_a_touched_file_keeps_the_place_of_its_bytes() -> None:
    same = replace(REQUEST.manifest[1], mode=0o755, mtime_ns=99)
    must_pass(changes=(same,))
    must_refuse(changes=(replace(same, offset=4),))
    must_refuse(changes=(replace(same, sha256=hashlib.sha256(b"other").hexdigest()),))
    must_refuse(changes=(replace(same, size=4),))
    must_refuse(changes=(replace(same, path="d/g"),))


def test_a_file_above_its_limit() -> None:
    def huge(key: str) -> int | None:
        return 10_000

    for size, good in ((500, True), (501, False)):
        answer = replace(SOUND, changes=(new(size=size, blob="p/x/s/y/g1"),))
        if good:
            judge(answer, REQUEST, huge)
        else:
            with pytest.raises(BrokenAnswer):
                judge(answer, REQUEST, huge)


@pytest.mark.parametrize(("second", "good"), [(495, True), (496, False)])
def test_bytes_of_the_workspace(second: int, good: bool) -> None:
    def large(key: str) -> int | None:
        return 500

    changes = (new("a", 500, blob="p/x/s/y/g1"), new("b", second, blob="p/x/s/y/g2"))
    answer = replace(SOUND, changes=changes, deleted=())
    if good:
        judge(answer, REQUEST, large)
    else:
        with pytest.raises(BrokenAnswer):
            judge(answer, REQUEST, large)


def test_entries_of_the_workspace() -> None:
    five = tuple(new(f"n{number}") for number in range(5))
    must_pass(changes=five, deleted=())
    must_pass(changes=(*five, new("n5")), deleted=("l",))
    must_refuse(changes=(*five, new("n5")), deleted=())


def test_folders_that_are_not_named_count_as_entries() -> None:
    must_pass(changes=(new("a/b/c/d"), new("a/b/c/e")), deleted=("l",))
    must_refuse(changes=(new("a/b/c/d"), new("b/b/c/e")), deleted=("l",))


def test_a_workspace_above_a_limit_may_stay_or_shrink_but_not_grow() -> None:
    limits = replace(LIMITS, workspace_bytes=4, workspace_entries=2)
    request = replace(REQUEST, limits=limits)
    nothing = replace(SOUND, changes=(), deleted=())
    judge(nothing, request, written)
    judge(replace(nothing, deleted=("l",)), request, written)
    judge(replace(nothing, deleted=("d/f", "l"), changes=(new("d/f2"),)), request, written)
    with pytest.raises(BrokenAnswer):
        judge(replace(nothing, changes=(new(size=1),), deleted=("l",)), request, written)
    with pytest.raises(BrokenAnswer):
        judge(replace(nothing, changes=(new(size=0),)), request, written)


@pytest.mark.parametrize("path", ["d/f/x", "l/x", "n/x"])
def test_a_parent_that_is_no_folder(path: str) -> None:
    must_refuse(changes=(new("n"), new(path)), deleted=())


def test_a_folder_that_goes_while_something_is_left_in_it() -> None:
    must_refuse(deleted=("d",))
    must_refuse(changes=(new("d"),), deleted=())
    must_refuse(changes=(Entry("d", "link", 0o777, target="x"),), deleted=())
    must_pass(changes=(new("d"),), deleted=("d/f",))
    must_pass(changes=(new("d/f/x"), Entry("d/f", "dir", 0o755)), deleted=())


def test_20_000_entries_are_judged_in_one_pass() -> None:
    limits = replace(LIMITS, workspace_entries=20_000, workspace_bytes=10**9)
    manifest = tuple(Entry(f"f{number}", "file", 0o644, 5, 0, DIGEST, blob="b") for number in range(20_000))
    request = replace(REQUEST, limits=limits, manifest=manifest)
    begun = time.process_time()
    judge(replace(SOUND, changes=(), deleted=tuple(entry.path for entry in manifest)), request, written)
    judge(replace(SOUND, changes=tuple(replace(e, mode=0o600) for e in manifest), deleted=()), request, written)
    assert time.process_time() - begun < 10  # a pass for each entry takes minutes


LIES: dict[str, st.SearchStrategy[Any]] = {
    "path": st.sampled_from(
        ["", "..", "../x", "/x", "a/../b", "d/f/x", "l", "d", "n", "e", "x" * 300, "a\0", "\ud800"]
    ),
    "kind": st.sampled_from(["file", "dir", "link", "fifo", "other"]),
    "mode": st.integers(-1, 0o20000),
    "size": st.integers(-1, 2_000),
    "mtime_ns": st.sampled_from([0, -(2**70), 2**70]),
    "sha256": st.sampled_from(["", EMPTY, DIGEST, "x"]),
    "target": st.sampled_from(["", "/etc/passwd", "a\0b"]),
    "blob": st.sampled_from(["", "p/x/s/y/g1", "p/x/s/y/g2", "p/x/s/y/old", "p/other/secret"]),
    "offset": st.integers(-1, 500),
}


@st.composite
def lies(draw: st.DrawFn) -> RunAnswer:
    changes = list(SOUND.changes)
    for _ in range(draw(st.integers(1, 4))):
        index = draw(st.integers(0, len(changes) - 1))
        name = draw(st.sampled_from(sorted(LIES)))
        changes[index] = replace(changes[index], **{name: draw(LIES[name])})
    deleted = draw(st.lists(st.sampled_from(["l", "d", "d/f", "n", "../x"]), max_size=3))
    return replace(SOUND, changes=tuple(changes), deleted=tuple(deleted))


@given(lies())
def test_a_lie_that_passes_does_no_harm(answer: RunAnswer) -> None:
    try:
        judge(answer, REQUEST, written)
    except BrokenAnswer:
        return
    tree = {entry.path: entry for entry in REQUEST.manifest if entry.path not in answer.deleted}
    tree |= {entry.path: entry for entry in answer.changes}
    for path, entry in tree.items():
        segments = path.split("/")
        assert all(segment not in ("", ".", "..") for segment in segments)
        assert "\0" not in path + entry.target
        assert all(tree[parent].kind == "dir" for parent in parents(path) if parent in tree)
        assert len(segments) <= LIMITS.path_depth
        if entry.kind == "file" and entry.size:
            own = path == "d/f" and (entry.blob, entry.offset, entry.size) == ("p/x/s/y/old", 3, 5)
            places = {"": 5, "p/x/s/y/g1": 400}
            assert own or 0 <= entry.offset <= entry.offset + entry.size <= places[entry.blob]
    assert sum(entry.size for entry in tree.values()) <= LIMITS.workspace_bytes
    assert len(tree) <= LIMITS.workspace_entries


@given(st.binary(max_size=40), st.integers(0, 40))
def test_the_judge_is_called_with_what_the_wire_has_read(raw: bytes, cut: int) -> None:
    answer = replace(SOUND, pack=raw, changes=(new(size=cut, sha256=DIGEST if cut else EMPTY),))
    check: Callable[[], None] = lambda: judge(RunAnswer.of(answer.to_json()), REQUEST, written)  # noqa: E731
    if cut <= len(raw):
        check()
    else:
        with pytest.raises(BrokenAnswer):
            check()


@pytest.mark.parametrize(
    ("changed", "good"),
    [
        (("q", "e/gone"), True),
        (("q", "q"), False),
        (("n",), False),
        (("../q",), False),
        (("/q",), False),
        (("a//b",), False),
        (("",), False),
        (("a\0b",), False),
        (("x" * 300,), False),
    ],
)
def test_files_that_changed_while_they_were_read_are_named_once_and_not_kept(
    changed: tuple[str, ...], good: bool
) -> None:
    (must_pass if good else must_refuse)(changed=changed)


def test_no_more_files_changed_than_a_workspace_may_hold() -> None:
    most = max(REQUEST.limits.workspace_entries, len(REQUEST.manifest))
    must_pass(changed=tuple(f"c{number}" for number in range(most)))
    must_refuse(changed=tuple(f"c{number}" for number in range(most + 1)))
