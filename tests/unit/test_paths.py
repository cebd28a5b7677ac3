"""Which paths are accepted: cases.md C7, exec.md A3, and the limits of issue 2 at N and N+1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.paths import is_text, parents, program_refusal, refusal, sort_key

BOUNDS = {"max_bytes": 5_000, "max_depth": 80, "max_name": 255}


def long_path(size: int) -> str:
    """A canonical path of `size` bytes, of segments of at most 100 bytes."""
    segments = []
    while size > 101:
        segments.append("s" * 100)
        size -= 101
    return "/".join([*segments, "s" * size])


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/etc/passwd", "..", "../../x", "a/../b", "a/..", ".", "./a", "a/./b", "a/.", "a//b", "a/", "//a",
        "C:\\x", "..\\x", "a\\b", "a\0b", "\0", "a\n/../b", "\ud800", "a/\udcff",
    ],
)  # fmt: skip
def test_C7_what_is_not_canonical_is_refused(path: str) -> None:
    assert refusal(path, **BOUNDS) is not None


@pytest.mark.parametrize(
    "path",
    [
        "a", "a/b", ".env", "..a", "a..", "...", "a/...", " ", "-rf", "--help", "$(id)", "`id`", "'q'.txt", "a b.txt",
        "100%.txt", "%2e%2e", "%2e%2e/x", "a#b?.txt", "a&b=c.txt", "报告.csv", "🤣.txt", "C:x", "new\nline", "~", "con",
    ],
)  # fmt: skip
def test_C7_odd_but_canonical_names_are_accepted_as_they_are(path: str) -> None:
    assert refusal(path, **BOUNDS) is None


@pytest.mark.parametrize(
    ("fits", "above", "limit"),
    [
        (long_path(5_000), long_path(5_001), "5000 bytes"),
        ("/".join("a" * 80), "/".join("a" * 81), "80 segments"),
        ("a" * 255, "a" * 256, "255 bytes"),
        ("é" * 127 + "x", "é" * 128, "255 bytes"),
    ],
)
def test_each_limit_bites_at_N_plus_1_and_is_named(fits: str, above: str, limit: str) -> None:
    assert refusal(fits, **BOUNDS) is None
    why = refusal(above, **BOUNDS)
    assert why is not None
    assert limit in why


def test_a_program_may_name_what_a_caller_may_not() -> None:
    for path in ("a\\b", "\udcff\udcfe", "d/\udc80"):
        assert refusal(path, **BOUNDS) is not None
        assert program_refusal(path, **BOUNDS) is None


@pytest.mark.parametrize(
    "path", ["", "/a", "a/../b", "a//b", "a/", "..", "a\0b", "\ud800", "a" * 256, long_path(5_001)]
)
def test_a_program_cannot_name_a_place_outside(path: str) -> None:
    assert program_refusal(path, **BOUNDS) is not None


@given(st.text(alphabet=st.sampled_from(["a", "/", ".", "\\", "\0", "é", "\udcff", " "]), max_size=12))
def test_what_is_accepted_stays_below_the_workspace(path: str) -> None:
    if refusal(path, **BOUNDS) is None:
        segments = path.split("/")
        assert all(segment not in ("", ".", "..") for segment in segments)
        assert "\0" not in path
        assert "\\" not in path
        path.encode("utf-8")


def test_parents_are_the_folders_above_outermost_first() -> None:
    assert parents("a") == []
    assert parents("a/b/c") == ["a", "a/b"]


@given(st.lists(st.text(min_size=1, max_size=4), unique=True))
def test_order_is_bytewise(names: list[str]) -> None:
    names = [name for name in names if is_text(name)]
    assert sorted(names, key=sort_key) == sorted(names, key=lambda name: name.encode("utf-8"))


def test_a_name_that_is_not_UTF8_is_no_text() -> None:
    assert is_text("é🤣")
    assert not is_text(b"\xff".decode("utf-8", "surrogateescape"))
