"""Snapshot, sync and collect over real folders (cases C6, C9, D4, D6, D13, D14, D20, D22, E1)."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_image.runner import tree
from sandbox_image.runner.collect import collect
from sandbox_image.runner.grants import GrantFailed
from sandbox_image.runner.snapshot import Bounds, Changed, Snapshot, digest, take
from sandbox_image.runner.sync import SyncFailed, sync
from sandbox_image.runner.tree import Climber
from shared.executor.wire import Entry
from tests.unit.runner_trees import BOUNDS, MIB, Place, Store, commit, describe, folder, gather, limits, restore

Leaf = tuple[Literal["file"], bytes, int] | tuple[Literal["link"], str, int] | tuple[Literal["fifo"], str, int]
Node: TypeAlias = "Leaf | dict[str, Node]"


NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "-rf", "--help", "a b", "$(id)", "`id`", "'q'.txt", "a\nb", "\\", "é", "报告", "🤣", "\udcff\udc80"]
    ),
    st.binary(min_size=1, max_size=24)
    .filter(lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b".."))
    .map(os.fsdecode),
)
LEAVES = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=3_000), st.sampled_from([0o644, 0o755, 0o400, 0o000, 0o777])),
    st.tuples(st.just("link"), st.sampled_from(["x", "/etc/passwd", "..", "a/b", "\udcfe", "🤣"]), st.just(0)),
    st.tuples(st.just("fifo"), st.just(""), st.sampled_from([0o600, 0o644])),
)
TREES = st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12)


def _build(fd: int, nodes: dict[str, Node]) -> None:
    for name, node in nodes.items():
        if isinstance(node, dict):
            os.mkdir(name, dir_fd=fd)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            _build(inner, node)
            os.fchmod(inner, 0o500 if len(name) % 2 else 0o755)
            os.close(inner)
            continue
        mode = node[2]
        if node[0] == "link":
            os.symlink(node[1], name, dir_fd=fd)
        elif node[0] == "fifo":
            os.mkfifo(name, mode, dir_fd=fd)
            os.chmod(name, mode, dir_fd=fd)
        else:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=fd)
            os.write(file, node[1])
            os.fchmod(file, mode)
            os.close(file)


@given(first=st.dictionaries(NAMES, TREES, max_size=5), second=st.dictionaries(NAMES, TREES, max_size=5))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tree_that_is_written_is_restored_elsewhere_exactly(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, Node], second: dict[str, Node]
) -> None:
    """Two runs in one folder, the second over the first's rest, then the same manifest into an empty folder."""
    base = tmp_path_factory.mktemp("trees")
    store, root, other = Store(base / "o"), folder(base / "w"), folder(base / "v")
    manifest: list[Entry] = []
    before = restore(root, store, manifest)
    for nodes in (first, second):
        started = time.time_ns()
        for name in os.listdir(root):
            tree.remove(root, name)
        _build(root, nodes)
        kept = gather(root, store, manifest, before, started)
        assert kept.lost == []
        manifest = commit(store, manifest, kept)
        after = Snapshot(kept.records)
        expected = describe(root)
        before = restore(root, store, manifest, after)
        assert describe(root) == expected
        assert {entry.path for entry in manifest} == set(expected)
    restore(other, store, manifest)
    assert describe(other) == describe(root)
    os.close(root)
    os.close(other)


def test_a_path_longer_than_PATH_MAX_is_kept_and_restored(place: Place, tmp_path: Path) -> None:
    _, root, store = place
    names = ["d" * 250] * 19
    fd = os.dup(root)
    for name in names:
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    file = os.open("end", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
    os.write(file, b"deep")
    os.close(file)
    os.close(fd)
    kept = gather(root, store, [], Snapshot(), 0)
    longest = "/".join([*names, "end"])
    assert len(longest) > 4_096
    assert [entry.path for entry in kept.changes if entry.kind == "file"] == [longest]
    other = folder(tmp_path / "v")
    restore(other, store, commit(store, [], kept))
    assert describe(other) == describe(root)
    tree.remove(other, names[0])
    tree.remove(root, names[0])
    assert os.listdir(root) == []


def test_paths_beyond_the_limits_are_named_with_the_limit_and_the_rest_is_kept(place: Place) -> None:
    path, root, store = place
    (path / "a/b/c").mkdir(parents=True)
    (path / "a/b/c/f").write_bytes(b"deep")
    (path / ("n" * 30)).write_bytes(b"long")
    (path / "ok").write_bytes(b"ok")
    kept = gather(root, store, [], Snapshot(), 0, limits=limits(path_bytes=29, path_depth=3))
    assert dict(kept.lost) == {
        "a/b/c/f": "the path is deeper than 3 segments",
        "n" * 30: "the path is longer than 29 bytes",
    }
    assert [entry.path for entry in kept.changes] == ["a", "a/b", "a/b/c", "ok"]
    same = gather(root, store, [], Snapshot(), 0, limits=limits(path_bytes=30, path_depth=4))
    assert same.lost == []


def test_copied_backdated_and_same_size_files_are_all_found(place: Place) -> None:
    path, root, store = place
    manifest = [store.file("in.csv", b"1,2\n"), store.file("same", b"old!"), store.file("still", b"kept")]
    before = restore(root, store, manifest)
    started = time.time_ns()
    status = os.stat(path / "same")
    (path / "same").write_bytes(b"new!")
    os.utime(path / "same", ns=(status.st_mtime_ns, status.st_mtime_ns))
    (path / "out.csv").write_bytes(b"1,2\n")
    os.utime(path / "out.csv", ns=(0, 10**9))
    kept = gather(root, store, manifest, before, started)
    assert [entry.path for entry in kept.changes] == ["out.csv", "same"]
    assert kept.changes[0].mtime_ns == 10**9
    assert kept.deleted == []


def test_a_write_in_the_instant_of_the_snapshot_is_found_without_its_ctime(place: Place) -> None:
    """The clock that stamps ctime may be coarse: a record that claims to be the same is not believed when young."""
    path, root, store = place
    manifest = [store.file("f", b"aaaa")]
    before = restore(root, store, manifest)
    started = time.time_ns()
    (path / "f").write_bytes(b"bbbb")
    os.utime(path / "f", ns=(manifest[0].mtime_ns,) * 2)
    status = os.stat(path / "f")
    lying = before.records["f"]._replace(ctime_ns=status.st_ctime_ns)
    before.records["f"] = lying
    kept = gather(root, store, manifest, before, started)
    assert [(entry.path, entry.size) for entry in kept.changes] == [("f", 4)]
    assert kept.pack == b"bbbb"


def test_an_old_record_that_is_the_same_is_not_read_again(place: Place) -> None:
    path, root, _ = place
    (path / "f").write_bytes(b"one")
    first = take(root, BOUNDS)
    known = {"f": first.records["f"]._replace(text="d" * 64)}
    late = first.records["f"].ctime_ns + 10**9
    assert take(root, BOUNDS, known, late).records["f"].text == "d" * 64
    assert take(root, BOUNDS, known, first.records["f"].ctime_ns).records["f"].text == ""


def test_only_mode_or_time_changed_names_the_old_place_of_the_bytes(place: Place) -> None:
    path, root, store = place
    manifest = [store.file("big", b"x" * (2 * MIB)), store.file("m", b"m")]
    before = restore(root, store, manifest)
    started = time.time_ns()
    os.utime(path / "big", ns=(5, 5))
    os.chmod(path / "m", 0o755)
    kept = gather(root, store, manifest, before, started)
    assert [(entry.path, entry.mtime_ns, entry.mode, entry.blob) for entry in kept.changes] == [
        ("big", 5, 0o644, manifest[0].blob),
        ("m", manifest[1].mtime_ns, 0o755, manifest[1].blob),
    ]
    assert kept.pack == b""


def test_touched_without_change_is_no_change(place: Place) -> None:
    path, root, store = place
    manifest = [store.file("f", b"f")]
    before = restore(root, store, manifest)
    started = time.time_ns()
    (path / "f").write_bytes(b"f")
    os.utime(path / "f", ns=(manifest[0].mtime_ns,) * 2)
    kept = gather(root, store, manifest, before, started)
    assert kept.changes == []


def test_a_program_that_writes_a_read_only_file_is_reported_and_the_next_sync_heals(place: Place) -> None:
    path, root, store = place
    manifest = [store.file("f", b"original", mode=0o444, read_only=True)]
    before = restore(root, store, manifest)
    started = time.time_ns()
    os.chmod(path / "f", 0o644)
    (path / "f").write_bytes(b"changed!")
    kept = gather(root, store, manifest, before, started)
    assert [entry.path for entry in kept.changes] == ["f"]
    restore(root, store, manifest, Snapshot(kept.records))
    assert describe(root) == {"f": ("file", 0o444, manifest[0].mtime_ns, b"original")}


def test_hard_links_become_files_of_their_own(place: Place) -> None:
    path, root, store = place
    (path / "a").write_bytes(b"one")
    os.link(path / "a", path / "b")
    kept = gather(root, store, [], Snapshot(), 0)
    manifest = commit(store, [], kept)
    assert [(entry.path, store.body(entry)) for entry in manifest] == [("a", b"one"), ("b", b"one")]
    restore(root, store, manifest, Snapshot(kept.records))
    (path / "a").write_bytes(b"two")
    assert (path / "b").read_bytes() == b"one"


def test_sockets_are_recorded_as_other_and_not_restored(place: Place) -> None:
    path, root, store = place
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path / "s"))
    kept = gather(root, store, [], Snapshot(), 0)
    assert [(entry.path, entry.kind) for entry in kept.changes] == [("s", "other")]
    before = restore(root, store, commit(store, [], kept), Snapshot(kept.records))
    assert os.listdir(root) == []
    assert before.records == {}


@pytest.mark.parametrize("damage", ["gone", "short", "flipped", "no grant"])
def test_a_bad_read_fails_the_restore(place: Place, damage: str) -> None:
    _, root, store = place
    manifest = [store.file("a", b"aaaa"), store.file("b", b"bbbb"), store.file("c", b"c" * (9 * MIB))]
    reads = store.reads(manifest)
    for entry in (manifest[1], manifest[2]):
        file = store.path / entry.blob
        whole = file.read_bytes()
        if damage == "gone":
            file.unlink()
        elif damage == "short":
            file.write_bytes(whole[:-1])
        elif damage == "flipped":
            file.write_bytes(whole[:-1] + b"?")
        else:
            del reads[entry.blob]
        for name in os.listdir(root):
            tree.remove(root, name)
        with pytest.raises(SyncFailed):
            sync(root, manifest, reads, Snapshot(), None, BOUNDS)
        if damage != "no grant":
            file.write_bytes(whole)
        else:
            reads = store.reads(manifest)


def test_sync_does_only_what_differs(place: Place) -> None:
    path, root, store = place
    manifest = [Entry("d", "dir", 0o755, mtime_ns=7), store.file("d/same", b"s"), store.file("d/gone", b"g")]
    before = restore(root, store, manifest)
    inode = os.stat(path / "d/same").st_ino
    following = [manifest[0], manifest[1], store.file("d/new", b"n")]
    after = restore(root, store, following, before)
    assert os.stat(path / "d/same").st_ino == inode
    assert set(after.records) == {"d", "d/same", "d/new"}
    assert os.stat(path / "d").st_mtime_ns == 7
    assert restore(root, store, following, after) is after


def test_links_are_kept_as_text_and_never_followed(place: Place, tmp_path: Path) -> None:
    path, root, store = place
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "passwd").write_bytes(b"secret")
    os.symlink(secret / "passwd", path / "out.txt")
    os.symlink(secret, path / "outd")
    kept = gather(root, store, [], Snapshot(), 0)
    assert [(entry.path, entry.kind, entry.target) for entry in kept.changes] == [
        ("out.txt", "link", str(secret / "passwd")),
        ("outd", "link", str(secret)),
    ]
    assert kept.pack == b""
    manifest = [store.file("outd", b"now a file"), Entry("out.txt", "dir", 0o755), store.file("out.txt/x", b"x")]
    restore(root, store, manifest, Snapshot(kept.records))
    assert (secret / "passwd").read_bytes() == b"secret"
    assert os.listdir(secret) == ["passwd"]


def test_a_folder_swapped_for_a_link_before_it_is_read_gives_nothing_of_the_target(
    place: Place, tmp_path: Path
) -> None:
    """K8: the swap happens between the traversal and the reading."""
    path, root, store = place
    (path / "d").mkdir()
    (path / "d/passwd").write_bytes(b"mine")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwd").write_bytes(b"root")
    after = take(root, BOUNDS)
    (path / "d").rename(path / "e")
    os.symlink(outside, path / "d")
    with Climber(root) as climber, pytest.raises(Changed):
        digest(climber, "d/passwd", after.records["d/passwd"])
    kept = collect(root, [], Snapshot(), after, limits(), [], uid=None)
    assert kept.pack == b""
    assert ("d/passwd", "the file changed while it was saved") in kept.lost
    manifest = [Entry("d", "dir", 0o755), store.file("d/new", b"n")]
    with pytest.raises(SyncFailed):
        restore(root, store, manifest, Snapshot({"d": after.records["d"]}))
    assert os.listdir(outside) == ["passwd"]


def test_a_file_of_another_user_is_not_read(place: Place) -> None:
    path, root, _ = place
    (path / "f").write_bytes(b"root's")
    after = take(root, BOUNDS)
    kept = collect(root, [], Snapshot(), after, limits(), [], uid=os.getuid() + 1)
    assert (kept.changes, kept.pack, kept.lost) == ([], b"", [("f", "the file belongs to another user")])


def test_a_file_above_its_limit_is_lost_and_the_earlier_version_stays(place: Place) -> None:
    path, root, store = place
    manifest = [store.file("big", b"small yet"), store.file("gone", b"g")]
    before = restore(root, store, manifest)
    (path / "big").write_bytes(b"x" * 101)
    (path / "at").write_bytes(b"x" * 100)
    (path / "gone").unlink()
    os.truncate(path / "at", 100)
    kept = gather(root, store, manifest, before, 0, limits=limits(file_bytes=100))
    assert kept.lost == [("big", "the file has 101 bytes, more than the limit of 100 bytes")]
    assert [entry.path for entry in kept.changes] == ["at"]
    assert kept.deleted == ["gone"]


def test_the_workspace_never_grows_beyond_its_bytes_or_entries(place: Place) -> None:
    path, root, store = place
    manifest = [store.file("a", b"x" * 60), store.file("b", b"x" * 30)]
    before = restore(root, store, manifest)
    (path / "a").write_bytes(b"y" * 10)
    for name in ("c", "d", "e"):
        (path / name).write_bytes(b"z" * 30)
    kept = gather(root, store, manifest, before, 0, limits=limits(workspace_bytes=100))
    assert sorted(entry.path for entry in kept.changes) == ["a", "c", "d"]
    assert [path for path, why in kept.lost if "100 bytes" in why] == ["e"]
    few = gather(root, store, manifest, before, 0, limits=limits(workspace_entries=3))
    assert sorted(entry.path for entry in few.changes) == ["a", "c"]
    assert [path for path, why in few.lost if "3 entries" in why] == ["d", "e"]


def test_a_traversal_that_is_cut_never_calls_a_file_deleted(place: Place) -> None:
    path, root, store = place
    manifest = [store.file(f"f{number}", b"") for number in range(8)]
    before = restore(root, store, manifest)
    (path / "f7").unlink()
    after = take(root, Bounds(5_000, 80, 3), before.records, 0)
    assert not after.complete
    kept = collect(root, manifest, before, after, limits(workspace_entries=1), [], uid=None)
    assert kept.deleted == ["f7"]
    assert kept.lost


def test_small_files_share_the_pack_and_large_ones_have_their_own_objects(place: Place) -> None:
    path, root, store = place
    bodies = {"s1": b"1" * 10, "s2": b"2" * 20, "L1": b"3" * 2_000, "L2": b"4" * 3_000}
    for name, body in bodies.items():
        (path / name).write_bytes(body)
    bounds = limits(small_file_bytes=1_000, inline_bytes=2_500)
    kept = gather(root, store, [], Snapshot(), 0, 3, limits=bounds)
    assert len(kept.pack) == 30
    blobs = {entry.path: entry.blob for entry in kept.changes}
    assert blobs["s1"] == blobs["s2"] == ""
    assert len({blobs["L1"], blobs["L2"], ""}) == 3
    for entry in commit(store, [], kept):
        assert store.body(entry) == bodies[entry.path]


def test_grants_that_run_out_make_one_pack_through_the_last(place: Place) -> None:
    path, root, store = place
    bodies = {f"L{number}": bytes([number]) * 2_000 for number in range(5)} | {"s": b"s" * 10}
    for name, body in bodies.items():
        (path / name).write_bytes(body)
    kept = gather(root, store, [], Snapshot(), 0, 2, limits=limits(small_file_bytes=1_000, inline_bytes=100))
    assert kept.pack == b""
    assert kept.lost == []
    assert len({entry.blob for entry in kept.changes}) == 2
    for entry in kept.changes:
        assert store.body(entry) == bodies[entry.path]


def test_without_grants_what_does_not_fit_is_lost_by_name(place: Place) -> None:
    path, root, store = place
    (path / "big").write_bytes(b"b" * 200)
    (path / "ok").write_bytes(b"o" * 90)
    kept = gather(root, store, [], Snapshot(), 0, 0, limits=limits(inline_bytes=100))
    assert [entry.path for entry in kept.changes] == ["ok"]
    assert kept.lost == [("big", "the outputs of this run exceed 100 bytes")]


def test_a_store_that_refuses_an_output_fails_the_run(place: Place) -> None:
    path, root, store = place
    (path / "big").write_bytes(b"b" * 200)
    after = take(root, BOUNDS)
    taken = store.put(b"exists")
    with pytest.raises(GrantFailed):
        collect(
            root, [], Snapshot(), after, limits(small_file_bytes=10), [(taken, f"file:{store.path}/{taken}")], uid=None
        )
    assert (store.path / taken).read_bytes() == b"exists"


def test_repack_brings_every_small_file(place: Place) -> None:
    path, root, store = place
    manifest = [store.file("a", b"a"), store.file("b", b"bb"), store.file("L", b"L" * 2_000)]
    before = restore(root, store, manifest)
    (path / "c").write_bytes(b"ccc")
    started = time.time_ns()
    kept = gather(root, store, manifest, before, started, limits=limits(small_file_bytes=1_000), repack=True)
    assert [entry.path for entry in kept.changes] == ["a", "b", "c"]
    assert kept.pack == b"abbccc"
    plain = gather(root, store, manifest, before, started, limits=limits(small_file_bytes=1_000))
    assert [entry.path for entry in plain.changes] == ["c"]


def test_remove_ends_with_any_depth_and_few_descriptors(place: Place) -> None:
    _, root, _ = place
    fd = os.dup(root)
    for _ in range(1_200):
        os.mkdir("x", dir_fd=fd)
        inner = os.open("x", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    tree.remove(root, "x")
    assert os.listdir(root) == []


def test_of_a_thousand_unchanged_files_none_is_opened(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    _, root, store = place
    manifest = [store.file(f"f{number:04}", b"%d" % number) for number in range(1_000)]
    before = restore(root, store, manifest)
    opened: list[str] = []
    real = os.open

    def watched(path: str, *args: int, **more: int) -> int:
        opened.append(os.fspath(path))
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", watched)
    present = restore(root, store, manifest, before)
    kept = gather(root, store, manifest, present, time.time_ns() + 10**9)
    assert (kept.changes, [name for name in opened if name.startswith("f")]) == ([], [])
