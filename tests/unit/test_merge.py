"""What a run's changes make of a workspace: read-only files (exec.md A8.13, cases.md D20), and what is told of it."""

from __future__ import annotations

from hypothesis import given

from shared.domain.manifest import Entry, Manifest
from shared.domain.merge import Merged, merge
from shared.domain.paths import parents
from tests.unit.trees import ACTS, Act, after, difference, file, folder, tree, workspaces


def done(base: Manifest, *acts: Act) -> Merged:
    """The merge of a program's acts."""
    changes, deleted = difference(base, after(base, list(acts)))
    return merge(base, changes, deleted)


def kept(merged: Merged) -> list[str]:
    return [entry.path for entry in merged.kept]


def written(merged: Merged) -> list[str]:
    return [entry.path for entry in merged.written]


BASE = tree(file("d/ro", b"original", read_only=True), file("d/rw", b"old"), file("top"))


def test_a_program_that_changes_nothing_changes_nothing() -> None:
    merged = merge(BASE, [], [])
    assert merged == Merged(BASE)
    assert merged.manifest is BASE


def test_new_changed_and_removed_files_are_told_by_name() -> None:
    merged = done(BASE, Act("write", "d/rw", b"new"), Act("write", "z", b"1"), Act("remove", "top", b""))
    assert written(merged) == ["d/rw", "z"]
    assert merged.deleted == ("top",)
    assert merged.kept == ()
    assert merged.manifest.entries["d/rw"].blob == "new"


def test_D20_a_read_only_file_that_is_written_stays() -> None:
    merged = done(BASE, Act("write", "d/ro", b"changed"))
    assert merged.manifest == BASE
    assert kept(merged) == ["d/ro"]
    assert written(merged) == []


def test_D20_a_read_only_file_that_is_removed_stays() -> None:
    merged = done(BASE, Act("remove", "d/ro", b""))
    assert merged.manifest == BASE
    assert (kept(merged), merged.deleted) == (["d/ro"], ())


def test_D20_a_read_only_file_whose_folder_is_removed_stays_with_its_folder() -> None:
    merged = done(BASE, Act("remove", "d", b""))
    assert sorted(merged.manifest.entries) == ["d", "d/ro", "top"]
    assert (kept(merged), merged.deleted) == (["d/ro"], ("d/rw",))


def test_D20_a_moved_read_only_file_stays_and_its_copy_is_an_ordinary_file() -> None:
    copy = file("d/copy", b"original", blob="new")
    merged = merge(BASE, [copy], ["d/ro"])
    assert merged.manifest.entries["d/ro"] == BASE.entries["d/ro"]
    assert merged.manifest.entries["d/copy"] == copy
    assert not merged.manifest.entries["d/copy"].read_only
    assert (kept(merged), written(merged), merged.deleted) == (["d/ro"], ["d/copy"], ())


def test_D20_a_read_only_file_whose_folder_is_moved_stays() -> None:
    moved = [folder("e"), file("e/ro", b"original", blob="new"), file("e/rw", b"old", blob="new")]
    merged = merge(BASE, moved, ["d", "d/ro", "d/rw"])
    assert sorted(merged.manifest.entries) == ["d", "d/ro", "e", "e/ro", "e/rw", "top"]
    assert merged.deleted == ("d/rw",)


def test_D20_a_mode_or_time_alone_changes_nothing_of_a_read_only_file() -> None:
    for verb in ("chmod", "touch"):
        assert done(BASE, Act(verb, "d/ro", b"")).manifest == BASE


def test_D20_a_folder_in_the_place_of_a_read_only_file_is_dropped_with_all_in_it() -> None:
    merged = done(BASE, Act("write", "d/ro/in/x", b"1"))
    assert merged.manifest == BASE
    assert kept(merged) == ["d/ro"]
    assert merged.dropped == ("d/ro/in", "d/ro/in/x")
    assert written(merged) == []


def test_D20_a_file_in_the_place_of_a_read_only_files_folder_is_dropped() -> None:
    for verb in ("write", "link"):
        merged = done(BASE, Act(verb, "d", b"1"))
        assert sorted(merged.manifest.entries) == ["d", "d/ro", "top"]
        assert merged.manifest.entries["d"] == folder("d")
        assert (kept(merged), merged.dropped, merged.deleted) == (["d/ro"], ("d",), ("d/rw",))


def test_only_what_lies_below_is_dropped_not_what_begins_alike() -> None:
    merged = done(BASE, Act("mkdir", "d/ro", b""), Act("write", "d/ro.txt", b"1"), Act("write", "d/rox/y", b"2"))
    assert written(merged) == ["d/ro.txt", "d/rox/y"]
    assert merged.dropped == ()


def test_an_ordinary_file_may_become_a_folder_and_a_folder_a_file() -> None:
    base = tree(file("f"), file("d/x"))
    merged = done(base, Act("write", "f/in", b"1"), Act("write", "d", b"2"))
    assert sorted(merged.manifest.entries) == ["d", "f", "f/in"]
    assert written(merged) == ["d", "f/in"]
    assert merged.deleted == ("d/x", "f")


def test_a_changed_mode_or_time_is_a_change() -> None:
    for verb in ("chmod", "touch"):
        merged = done(BASE, Act(verb, "top", b""))
        assert written(merged) == ["top"]
        assert merged.manifest.entries["top"].blob == "old"


def test_a_link_with_another_target_is_kept_also_when_its_time_is_the_same() -> None:
    base = tree(Entry("l", "link", 0o777, mtime_ns=5, target="a"))
    merged = merge(base, [Entry("l", "link", 0o777, mtime_ns=5, target="b")], [])
    assert merged.manifest.entries["l"].target == "b"
    assert merged.written == ()


def test_links_pipes_and_names_that_are_no_text_are_kept_and_told_to_nobody() -> None:
    base = tree(file("\udcff"), Entry("l", "link", 0o777, target="x"))
    merged = merge(base, [Entry("p", "fifo", 0o644), file("\udcfe", b"1")], ["\udcff", "l"])
    assert sorted(merged.manifest.entries) == ["p", "\udcfe"]
    assert (merged.written, merged.deleted) == ((), ())


def test_a_repeated_file_only_moves_to_its_new_place() -> None:
    for read_only in (False, True):
        base = tree(file("f", b"same", read_only=read_only))
        merged = merge(base, [file("f", b"same", blob="pack")._replace(mode=base.entries["f"].mode, offset=9)], [])
        assert merged.manifest.entries["f"] == base.entries["f"]._replace(blob="pack", offset=9)
        assert (merged.written, merged.kept) == ((), ())


def test_a_file_that_becomes_something_that_is_not_listed_is_deleted() -> None:
    merged = done(tree(file("f")), Act("link", "f", b"x"))
    assert merged.deleted == ("f",)


def test_a_folder_that_the_executor_does_not_name_is_added() -> None:
    merged = merge(Manifest(), [file("a/b/c")], [])
    assert {path: entry.kind for path, entry in merged.manifest.entries.items()} == {
        "a": "dir",
        "a/b": "dir",
        "a/b/c": "file",
    }


@given(workspaces(), ACTS)
def test_whatever_a_program_does_every_entry_has_its_folders(base: Manifest, acts: list[Act]) -> None:
    entries = done(base, *acts).manifest.entries
    for path in entries:
        assert all(entries[parent].kind == "dir" for parent in parents(path))


@given(workspaces(), ACTS)
def test_whatever_a_program_does_no_read_only_file_changes(base: Manifest, acts: list[Act]) -> None:
    entries = done(base, *acts).manifest.entries
    for entry in base:
        if entry.read_only:
            assert entries[entry.path] == entry


@given(workspaces(), ACTS)
def test_without_read_only_files_the_workspace_is_what_the_program_left(base: Manifest, acts: list[Act]) -> None:
    base = Manifest.of(entry._replace(read_only=False) for entry in base)
    left = after(base, acts)
    merged = done(base, *acts)
    assert dict(merged.manifest.entries) == left
    listed = {path for path, entry in left.items() if entry.listed}
    assert {entry.path for entry in merged.written} == {path for path in listed if base.entries.get(path) != left[path]}
    assert set(merged.deleted) == {entry.path for entry in base.listed} - listed


@given(workspaces(), ACTS)
def test_every_change_of_the_program_is_kept_or_told(base: Manifest, acts: list[Act]) -> None:
    left = after(base, acts)
    merged = done(base, *acts)
    told = {entry.path for entry in merged.kept} | set(merged.dropped)
    for path, entry in left.items():
        now = merged.manifest.entries.get(path)
        unchanged_bytes = now is not None and (now.kind, now.sha256) == (entry.kind, entry.sha256)
        assert unchanged_bytes or path in told


def test_the_cost_of_a_change_does_not_grow_with_read_only_files() -> None:
    files = [file(f"d/{number}", read_only=True) for number in range(20_000)]
    base = tree(*files)
    merged = merge(base, [], list(base.entries))
    assert merged.manifest == base
    assert len(merged.kept) == 20_000
