"""Caps of output, decoding, and our own lines (cases A4, B1, B2)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_image.runner.output import Stream, with_lines
from sandbox_image.runner.stop_lines import lines, reason_of
from tests.unit.runner_trees import limits

LEFT_OUT = re.compile(r"^\[(\d+) bytes of output left out\]$", re.M)


def _text(cap: int, *pieces: bytes) -> str:
    stream = Stream(cap)
    for piece in pieces:
        stream.feed(piece)
    return stream.text()


def test_all_is_kept_at_the_cap_and_cut_one_byte_above() -> None:
    assert _text(100, b"x" * 100) == "x" * 100
    cut = _text(100, b"x" * 101)
    found = LEFT_OUT.search(cut)
    assert found is not None
    assert cut.count("x") + int(found[1]) == 101


@given(st.lists(st.binary(max_size=50)), st.integers(2, 60))
def test_head_and_tail_are_kept_whatever_the_pieces(pieces: list[bytes], cap: int) -> None:
    data = b"".join(pieces)
    stream = Stream(cap)
    for piece in pieces:
        stream.feed(piece)
    assert stream.total == len(data)
    assert stream.cut == (len(data) > cap)
    text = stream.text()
    if not stream.cut:
        assert text == data.decode("utf-8", "replace")
        return
    assert text == _text(cap, data)
    assert len(LEFT_OUT.findall(text)) >= 1


@given(st.text(alphabet="aé報🤣", min_size=1, max_size=200), st.integers(4, 60))
def test_the_cut_never_splits_a_character(text: str, cap: int) -> None:
    data = text.encode()
    shown = _text(cap, data)
    assert "\ufffd" not in shown
    if len(data) > cap:
        head, marker, tail = re.split(r"\n?\[(\d+) bytes of output left out\]\n", shown)
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len((head + tail).encode()) + int(marker) == len(data)
        assert len((head + tail).encode()) <= cap


@pytest.mark.parametrize(
    ("data", "text"), [(b"\xff\xfe\x00ok", "\ufffd\ufffd\0ok"), (b"a\0b", "a\0b"), ("π 🤣".encode(), "π 🤣")]
)
def test_bytes_that_are_no_text_become_replacement_characters(data: bytes, text: str) -> None:
    assert _text(1_000, data) == text


def test_a_flood_is_held_in_bounded_memory() -> None:
    stream = Stream(1_000)
    for _ in range(10_000):
        stream.feed(b"y\n" * 500)
    assert stream.total == 10_000_000
    assert sum(map(len, stream._tail)) <= 2_000
    assert stream.text().startswith("y\ny\n")
    assert stream.text().endswith("y\ny\n")


def test_our_lines_stand_on_lines_of_their_own() -> None:
    assert with_lines("", ["a"]) == "a\n"
    assert with_lines("x", ["a", "b"]) == "x\na\nb\n"
    assert with_lines("x\n", ["a"]) == "x\na\n"
    assert with_lines("x", []) == "x"


@pytest.mark.parametrize(
    ("reported", "number", "reason", "line"),
    [
        ("time", 9, "time", "timed out after 2.5 s"),
        ("memory", 9, "memory", "killed: out of memory (limit 1073741824 bytes for all processes and /tmp together)"),
        ("workspace_bytes", 9, "workspace_bytes", "killed: workspace limit of 1073741824 bytes"),
        ("workspace_entries", 9, "workspace_entries", "killed: workspace limit of 20000 entries"),
        ("output", 9, "output", "killed: output limit of 67108864 bytes of one stream"),
        ("stopped", 9, "stopped", "killed: the run was cancelled"),
        (None, 25, "file_bytes", "killed: a file reached the limit of 268435456 bytes"),
        (None, 24, "cpu", "killed: CPU time limit of a run of 2.5 s"),
        (None, 11, None, "killed by signal 11 (SIGSEGV)"),
        (None, 40, None, "killed by signal 40 (real-time signal)"),
    ],
)
def test_each_end_has_its_sentence(reported: str | None, number: int, reason: str | None, line: str) -> None:
    assert reason_of(reported, number) == reason
    assert lines(reason_of(reported, number), number, limits(wall_ms=2_500)) == [line]


def test_a_program_that_ends_by_itself_has_no_sentence() -> None:
    assert lines(reason_of(None, None), None, limits()) == []
