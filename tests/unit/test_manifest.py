"""Manifests: what is written is read back, order is bytewise, limits of size hold (DESIGN §4, exec.md A8.11, A8.12)."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.manifest import MAX_DECODED, BadManifest, Draft, Entry, Manifest, name_bytes
from shared.limits import Limits

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(["\udcff", "\udc80x"])
ENTRIES = st.builds(
    Entry,
    path=TEXT.filter(bool),
    kind=st.sampled_from(["file", "dir", "link", "fifo", "other"]),
    mode=st.integers(0, 0o7777),
    size=st.integers(0, 2**40),
    mtime_ns=st.integers(-(2**63), 2**63 - 1),
    sha256=TEXT,
    target=TEXT,
    blob=TEXT,
    offset=st.integers(0, 2**40),
    read_only=st.booleans(),
    stored_ms=st.integers(0, 2**53),
    origin=TEXT,
)


@given(st.lists(ENTRIES, max_size=12))
def test_what_is_encoded_is_decoded(entries: list[Entry]) -> None:
    manifest = Manifest.of(entries)
    again = Manifest.decode(manifest.encode())
    assert again == manifest
    assert list(again.entries) == list(manifest.entries)


@given(st.lists(ENTRIES, max_size=12))
def test_order_is_bytewise_and_the_last_of_a_path_wins(entries: list[Entry]) -> None:
    manifest = Manifest.of(entries)
    raw = [path.encode("utf-8", "surrogateescape") for path in manifest.entries]
    assert raw == sorted(raw)
    assert dict(manifest.entries) == {entry.path: entry for entry in entries}


def test_order_of_bytes_that_are_not_UTF8_is_by_bytes_not_by_code_points() -> None:
    # U+DC80 stands for the byte 0x80, which comes before the 0xF0 of an emoji and the 0xC3 of é.
    manifest = Manifest.of(Entry(path, "file", 0o644) for path in ("🤣", "\udc80", "é", "z"))
    assert list(manifest.entries) == ["z", "\udc80", "é", "🤣"]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", zlib.compress(b""), zlib.compress(b"{}"), zlib.compress(b"[]"), zlib.compress(b"[2,[]]"),
        zlib.compress(b'[1,[["a"]]]'), zlib.compress(b"[1,[[]]]"), zlib.compress(b"[1,5]"), zlib.compress(b"\xff"),
        Manifest.of([Entry("a", "file", 0o644)]).encode()[:-3], zlib.compress(b"[" * 20_000),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(BadManifest):
        Manifest.decode(data)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(b'[1,["' + b"a" * MAX_DECODED + b'"]]')
    assert len(bomb) < 1_000_000
    with pytest.raises(BadManifest):
        Manifest.decode(bomb)


def test_the_largest_workspace_that_the_limits_allow_can_be_read_back() -> None:
    limits = Limits()
    # The worst names: a control character is one byte and six characters of JSON.
    row = Entry("p", "file", 0o7777, 2**63, -(2**63), "f" * 64, "", "b" * 200, 2**40, False, 2**53, "copy:" + "i" * 43)
    fixed = len(json.dumps(list(row._replace(read_only=True)))) + 1
    assert 6 * limits.names_bytes + limits.workspace_entries * fixed <= MAX_DECODED


def test_the_listing_is_regular_files_with_UTF8_names_dotfiles_too() -> None:
    kinds = [Entry("d", "dir", 0o755), Entry("l", "link", 0o777, target="/etc/passwd"), Entry("p", "fifo", 0o644)]
    files = [Entry(".env", "file", 0o600), Entry("\udcff", "file", 0o644), Entry("d/f", "file", 0o444)]
    manifest = Manifest.of([*kinds, Entry("s", "other", 0o755), *files])
    assert [entry.path for entry in manifest.listed] == [".env", "d/f"]
    assert manifest.file("l") is None
    assert manifest.file("\udcff") is None
    assert manifest.file("d/f") == Entry("d/f", "file", 0o444)


def test_last_modified_is_the_later_of_the_files_own_time_and_the_time_it_was_stored() -> None:
    assert Entry("a", "file", 0o644, mtime_ns=5_000_000, stored_ms=9).modified_ms == 9
    assert Entry("a", "file", 0o644, mtime_ns=10_000_000, stored_ms=9).modified_ms == 10
    assert Entry("a", "file", 0o644, mtime_ns=-1, stored_ms=0).modified_ms == 0


def test_sizes_are_of_files_only() -> None:
    manifest = Manifest.of(
        [Entry("a", "file", 0o644, 5, blob="x"), Entry("b", "file", 0o644), Entry("d", "dir", 0o755)]
    )
    assert manifest.size == 5
    assert manifest.blobs == {"x"}
    assert manifest.names == 3


def test_a_draft_names_what_is_in_the_way() -> None:
    base = Manifest.of([Entry("d", "dir", 0o755), Entry("d/f", "file", 0o644), Entry("l", "link", 0o777, target="d")])
    draft = Draft(base)
    assert draft.obstacle("d") == "names a folder"
    assert draft.obstacle("d/f/x") == "has a parent that is not a folder"
    assert draft.obstacle("l/x") == "has a parent that is not a folder"
    assert draft.obstacle("d/f") is None
    assert draft.obstacle("l") is None
    assert draft.obstacle("dd/x") is None
    draft.put(Entry("n", "file", 0o644))
    assert draft.obstacle("n/x") == "has a parent that is not a folder"


@given(st.lists(st.tuples(st.sampled_from(["a", "a/b", "a/b/c", "d", "d/e", "é"]), st.integers(0, 9)), max_size=8))
def test_a_draft_counts_as_the_manifest_that_it_becomes(puts: list[tuple[str, int]]) -> None:
    draft = Draft(Manifest.of([Entry("d", "dir", 0o755), Entry("d/old", "file", 0o644, 3)]))
    for path, size in puts:
        if draft.obstacle(path) is None:
            draft.put(Entry(path, "file", 0o644, size))
    made = draft.done()
    assert (len(draft), draft.size, draft.names) == (len(made), made.size, sum(map(name_bytes, made)))
    for path in made.entries:
        for depth in range(1, path.count("/") + 1):
            assert made.entries["/".join(path.split("/")[:depth])].kind == "dir"


def test_without_takes_one_path_and_nothing_like_it() -> None:
    manifest = Manifest.of(Entry(path, "file", 0o644) for path in ("a", "a.b", "aa", "ab"))
    assert list(manifest.without("a").entries) == ["a.b", "aa", "ab"]
    assert manifest.without("zz") == manifest


def test_without_a_kind_that_is_not_there_it_is_the_same() -> None:
    manifest = Manifest.of([Entry("a", "file", 0o644)])
    assert manifest.without_kind("other") is manifest
    assert list(Manifest.of([*manifest, Entry("s", "other", 0o755)]).without_kind("other").entries) == ["a"]
