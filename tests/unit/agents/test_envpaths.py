"""Paths of the two file operations, each row of the contract's tables in its order (agents.md 3.2, 3.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.agents.envpaths import destination, directory, shown
from shared.domain.agents.refusals import Refused

ABSOLUTE = "path must be an absolute directory inside /workspace"
RESERVED = "path must identify a non-reserved directory inside /workspace"
POSIX = "environment.files[0].path must be an absolute POSIX path inside /workspace"
COMPONENTS = "environment.files[0].path cannot contain empty, . or .. path components"

LIST_ROWS = [
    ("7a", "", ABSOLUTE),
    ("7a", "workspace", ABSOLUTE),
    ("7a", "./workspace", ABSOLUTE),
    ("7a", "/workspace/" + "a" * 4_086, ABSOLUTE),
    ("7a", "/workspace/" + "é" * 2_043, ABSOLUTE),
    ("7a", "/workspace/\udcff", ABSOLUTE),
    ("7a", "/workspace/a\\b", ABSOLUTE),
    ("7a", "/workspace/a\0", ABSOLUTE),
    ("7a", "/workspace/a\r", ABSOLUTE),
    ("7a", "/workspace/a\n", ABSOLUTE),
    ("7a before 7b", "/workspace/../a\\", ABSOLUTE),
    ("7a before 7b", "workspace/../x", ABSOLUTE),
    ("7b", "/workspace/", RESERVED),
    ("7b", "/workspace//a", RESERVED),
    ("7b", "//workspace", RESERVED),
    ("7b", "/workspace/.", RESERVED),
    ("7b", "/workspace/./a", RESERVED),
    ("7b", "/workspace/..", RESERVED),
    ("7b", "/workspace/../etc", RESERVED),
    ("7b before 7c", "/etc/", RESERVED),
    ("7c", "/", ABSOLUTE),
    ("7c", "/etc", ABSOLUTE),
    ("7c", "/workspace-sibling", ABSOLUTE),
    ("7c", "/Workspace", ABSOLUTE),
]
CREATE_ROWS = [
    ("6a", "", POSIX),
    ("6a", "workspace/a", POSIX),
    ("6a before 6b", "a//b", POSIX),
    ("6b", "/", COMPONENTS),
    ("6b", "/workspace/", COMPONENTS),
    ("6b", "/workspace/a/", COMPONENTS),
    ("6b", "/workspace//a", COMPONENTS),
    ("6b", "//workspace/a", COMPONENTS),
    ("6b", "/workspace/./a", COMPONENTS),
    ("6b", "/workspace/../x", COMPONENTS),
    ("6b before 6c", "/tmp//x", COMPONENTS),
    ("6b before 6c", "/tmp/../a\0", COMPONENTS),
    ("6c", "/workspace", POSIX),
    ("6c", "/tmp/x", POSIX),
    ("6c", "/workspace-sibling/a", POSIX),
    ("6c", "/workspace/" + "a" * 4_086, POSIX),
    ("6c", "/workspace/\udcff", POSIX),
    ("6c", "/workspace/a\\b", POSIX),
    ("6c", "/workspace/a\0b", POSIX),
    ("6c", "/workspace/a\rb", POSIX),
    ("6c", "/workspace/a\nb", POSIX),
]


@pytest.mark.parametrize(("row", "path", "message"), LIST_ROWS)
def test_3_2_a_directory_is_refused_by_the_first_row_that_applies(row: str, path: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        directory(path)
    assert (caught.value.text, caught.value.reason.value[:2]) == (message, (400, "invalid_request_error")), row


@pytest.mark.parametrize(("row", "path", "message"), CREATE_ROWS)
def test_3_3_a_destination_is_refused_by_the_first_row_that_applies(row: str, path: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        destination(path)
    assert (caught.value.text, caught.value.reason.value[:2]) == (message, (400, "invalid_request_error")), row


@pytest.mark.parametrize(
    ("path", "relative"),
    [
        ("/workspace", ""),
        ("/workspace/a", "a"),
        ("/workspace/.hidden/...", ".hidden/..."),
        ("/workspace/" + "a" * 4_085, "a" * 4_085),
        ("/workspace/ü b", "ü b"),
        ("/workspace/outputs", "outputs"),
    ],
)
def test_3_2_a_clean_directory_is_taken_as_it_stands(path: str, relative: str) -> None:
    assert directory(path) == relative


@pytest.mark.parametrize("relative", ["a", ".codex", "a" * 4_085, "outputs", "ü b/...", "-rf", "é" * 2_042])
def test_3_3_a_clean_destination_is_taken_as_it_stands(relative: str) -> None:
    assert destination("/workspace/" + relative) == relative
    assert shown(relative) == "/workspace/" + relative


@given(st.text(alphabet=st.sampled_from("/.aworkspce\\\0\n\udcff"), max_size=30) | st.text(max_size=20))
def test_whatever_is_taken_is_canonical_and_inside(path: str) -> None:
    for check in (directory, destination):
        try:
            relative = check(path)
        except Refused:
            continue
        assert path == (shown(relative) if relative else "/workspace")
        assert not {"", ".", ".."} & set(path.split("/")[1:])
        assert not set("\\\0\r\n") & set(path)
