"""Where a written file stands, and what stands in its way (agents.md 3.3 rows 14 to 18, 11.3, 11.14; cases.md E2)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.agents.destination import Content, Sizes, install, place, resolve
from shared.domain.agents.refusals import Refused
from shared.domain.manifest import Entry, Manifest
from shared.domain.paths import parents
from tests.unit.agents.trees import file, folder, link, special, tree

SIZES = Sizes(
    workspace_bytes=1_000, workspace_entries=50, names_bytes=10_000, path_bytes=5_000, path_depth=80, name_bytes=255
)
CONTENT = Content(size=3, sha256="ab" * 32, blob="key", offset=5, now=1_700_000_000_123)
OCCUPIED = (
    400, "invalid_request_error",
    "environment.files paths must not traverse symlinks or overwrite existing files",
)  # fmt: skip
THERE = (400, "invalid_request_error", "file path conflicts with an existing environment file")
LOCAL = (400, "invalid_request", "Invalid resource identifier or request limits.")

BASE = tree(
    file("f"), folder("d"), file("d/in"), link("l", "d/in"), link("dangling", "nowhere"), special("pipe"),
    special("sock", "other"), link("to_dir", "d"), link("to_root", "."), link("abs", "/workspace/d"),
    link("mnt", "/mnt/data/d"), link("up", ".."), link("etc", "/etc"), link("sibling", "/workspace-sibling"),
    link("out_and_in", "../workspace/d"), link("abs_out", "/workspace/../etc"), link("a", "b"), link("b", "a"),
    link("self", "self"), link("to_file", "f"), link("d/back", ".."), link("d/far", "../../x"),
    link("d/abs", "/workspace/d"),
    link("messy", ".//d/./"), link("chain", "to_dir"), link("whole", "/workspace"), link("deep", "d/sub/../in2"),
    link("mntroot", "/mnt"), link("through", "to_dir/back/d"), link("through_file", "f/.."),
)  # fmt: skip
REFUSALS = [
    ("14 file", "f", OCCUPIED),
    ("14 link to a file", "l", OCCUPIED),
    ("14 dangling link (E2)", "dangling", OCCUPIED),
    ("14 link to a folder", "to_dir", OCCUPIED),
    ("14 link out", "etc", OCCUPIED),
    ("14 FIFO", "pipe", OCCUPIED),
    ("14 socket", "sock", OCCUPIED),
    ("14 through a link", "to_dir/in", OCCUPIED),
    ("15 folder", "d", THERE),
    ("15 through a link", "to_root/d", THERE),
    ("16 parent is a file", "f/x", LOCAL),
    ("16 an outer parent is a file", "f/x/y", LOCAL),
    ("16 parent is a FIFO", "pipe/x", LOCAL),
    ("16 parent is a link to a file", "to_file/x", LOCAL),
    ("16 relative link out", "up/x", LOCAL),
    ("16 relative link out of a folder", "d/far/x", LOCAL),
    ("16 absolute link out", "etc/x", LOCAL),
    ("16 absolute link to a sibling", "sibling/x", LOCAL),
    ("16 out and in again", "out_and_in/x", LOCAL),
    ("16 absolute and then out", "abs_out/x", LOCAL),
    ("16 absolute above the mount", "mntroot/x", LOCAL),
    ("16 loop of two", "a/x", LOCAL),
    ("16 loop of one", "self/x", LOCAL),
    ("16 dangling parent", "dangling/x", LOCAL),
    ("16 through what is missing", "deep/x", LOCAL),
    ("16 through a file", "through_file/x", LOCAL),
    ("a name of 256 bytes", "d/" + "é" * 128, LOCAL),
    ("81 segments", "/".join("x" * 81), LOCAL),
]
PLACES = [
    ("new", "new"),
    ("d/new", "d/new"),
    ("to_dir/new", "d/new"),
    ("to_root/new", "new"),
    ("abs/new", "d/new"),
    ("mnt/new", "d/new"),
    ("d/abs/new", "d/new"),
    ("whole/new", "new"),
    ("d/back/new", "new"),
    ("d/back/d/new", "d/new"),
    ("messy/new", "d/new"),
    ("chain/new", "d/new"),
    ("through/new", "d/new"),
    ("to_dir/p/q/new", "d/p/q/new"),
    ("p/q/new", "p/q/new"),
    ("é" * 127, "é" * 127),
    ("/".join("x" * 80), "/".join("x" * 80)),
]


@pytest.mark.parametrize(("row", "path", "answer"), REFUSALS)
def test_3_3_what_stands_in_the_way_refuses_and_changes_nothing(
    row: str, path: str, answer: tuple[int, str, str]
) -> None:
    before = BASE.encode()
    with pytest.raises(Refused) as caught:
        place(BASE, path, CONTENT, replace(SIZES, workspace_entries=500))
    assert (*caught.value.reason.value[:2], caught.value.text) == answer, row
    assert BASE.encode() == before


@pytest.mark.parametrize(("path", "final"), PLACES)
def test_3_3_a_file_comes_to_stand_where_its_parents_lead(path: str, final: str) -> None:
    after = place(BASE, path, CONTENT, replace(SIZES, workspace_entries=500))
    new = {name: entry for name, entry in after.entries.items() if name not in BASE.entries}
    entry = new.pop(final)
    assert (entry.kind, entry.mode, entry.size, entry.sha256) == ("file", 0o600, 3, "ab" * 32)
    assert (entry.blob, entry.offset, entry.mtime_ns) == ("key", 5, 1_700_000_000_123_000_000)
    assert all((parent.kind, parent.mode) == ("dir", 0o700) for parent in new.values())
    assert all(final.startswith(name + "/") for name in new)
    assert all(after.entries[name] is BASE.entries[name] for name in BASE.entries)
    assert [*after.entries] == sorted(after.entries, key=str.encode)


def test_an_empty_file_lies_in_no_object() -> None:
    after = place(Manifest(), "e", replace(CONTENT, size=0), SIZES)
    assert (after.entries["e"].blob, after.entries["e"].offset) == ("", 0)


@pytest.mark.parametrize(
    "sizes",
    [
        replace(SIZES, workspace_bytes=3),
        replace(SIZES, workspace_entries=2),
        replace(SIZES, names_bytes=4),
    ],
)
def test_a_workspace_takes_what_its_limits_take_and_no_more(sizes: Sizes) -> None:
    assert len(place(Manifest(), "d/b", CONTENT, sizes)) == 2
    for tight in (
        replace(sizes, workspace_bytes=2),
        replace(sizes, workspace_entries=1),
        replace(sizes, names_bytes=3),
    ):
        with pytest.raises(Refused) as caught:
            place(Manifest(), "d/b", CONTENT, tight)
        assert caught.value.reason.value[:2] == (413, "request_too_large")


def chain(links: int) -> Manifest:
    return tree(folder("end"), *(link(f"l{at}", f"l{at + 1}" if at + 1 < links else "end") for at in range(links)))


def test_forty_links_are_followed_and_one_more_is_a_loop() -> None:
    wide = replace(SIZES, workspace_entries=100)
    assert "end/x" in place(chain(40), "l0/x", CONTENT, wide).entries
    with pytest.raises(Refused):
        place(chain(41), "l0/x", CONTENT, wide)


def test_links_that_double_their_way_end_soon() -> None:
    """Each link goes twice through the next: 2^30 steps, if nobody counted."""
    bomb = tree(folder("d"), *(link(f"l{at}", f"l{at + 1}/../l{at + 1}") for at in range(30)), link("l30", "d"))
    with pytest.raises(Refused):
        resolve(bomb, "l0/x")


NAMES = st.sampled_from(["a", "b", "c"])
TARGETS = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=4).map("/".join) | st.sampled_from(
    ["/workspace", "/workspace/a", "/workspace/../a", "/etc", "/mnt/data/b", "/mnt"]
)
ENTRIES = st.builds(
    lambda parts, kind, target: (
        link("/".join(parts), target) if kind == "link" else (file if kind == "file" else folder)("/".join(parts))
    ),
    st.lists(NAMES, min_size=1, max_size=3),
    st.sampled_from(["link", "file", "dir"]),
    TARGETS,
)


@given(st.lists(ENTRIES, max_size=12), st.lists(NAMES, min_size=1, max_size=4))
def test_whatever_the_links_a_file_lands_in_folders_and_over_nothing(entries: list[Entry], parts: list[str]) -> None:
    base = Manifest.of([])
    for entry in entries:
        above = [base.entries[name] for name in parents(entry.path) if name in base.entries]
        if entry.path not in base.entries and all(folder.kind == "dir" for folder in above):
            base = tree(*base, entry)
    try:
        after = place(base, "/".join(parts), CONTENT, SIZES)
    except Refused:
        return
    (new,) = [entry for name, entry in after.entries.items() if name not in base.entries and entry.kind == "file"]
    assert new.path.rpartition("/")[2] == parts[-1]
    for name in after.entries:
        for cut in range(1, name.count("/") + 1):
            assert after.entries["/".join(name.split("/")[:cut])].kind == "dir"
    assert all(after.entries[name] == entry for name, entry in base.entries.items())


def test_2_initial_files_replace_a_file_and_nothing_else() -> None:
    after = install(tree(file("a", "old")), {"a": CONTENT, "d/b": CONTENT}, SIZES)
    assert (after.entries["a"].sha256, after.entries["d/b"].sha256) == ("ab" * 32, "ab" * 32)
    with pytest.raises(Refused):
        install(tree(folder("a")), {"a": CONTENT}, SIZES)
    with pytest.raises(Refused):
        install(tree(link("a", "b")), {"a": CONTENT}, SIZES)
