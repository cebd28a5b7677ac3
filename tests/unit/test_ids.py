"""Ids: 21 characters, never `file-…`, recomputable (exec.md A4, A8.2, A8.17)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.ids import digest, file_id, is_project, is_short_id, short_id

SHAPE = re.compile(r"^[A-Za-z0-9_-]{21}$")
KEY = b"k" * 32


@given(st.binary(min_size=16, max_size=16))
def test_a_new_id_has_the_clients_shape_and_126_of_the_random_bits(raw: bytes) -> None:
    sources = iter([raw, bytes(16)])
    text = short_id(lambda _: next(sources))
    assert SHAPE.match(text)
    assert not text.startswith("file-")
    if not base64.urlsafe_b64encode(raw).startswith(b"file-"):
        assert base64.urlsafe_b64encode(raw)[:21] == text.encode()


def test_an_id_never_begins_as_the_other_contracts_do() -> None:
    foreign = base64.urlsafe_b64decode("file-" + "A" * 17 + "==")
    sources = iter([foreign, b"\xff" * 16])
    assert short_id(lambda _: next(sources)) == "_" * 21


@given(st.text(max_size=30).filter(lambda path: not any("\ud800" <= char <= "\udc7f" for char in path)))
def test_a_files_id_has_the_shape_and_is_stable(path: str) -> None:
    session = "S" * 21
    made = file_id(KEY, session, path)
    assert SHAPE.match(made)
    assert not made.startswith("file-")
    assert made == file_id(KEY, session, path)


def test_a_files_id_depends_on_key_session_and_path() -> None:
    ids = {
        file_id(key, session, path)
        for key in (KEY, b"other key, also of thirty-two by")
        for session in ("S" * 21, "T" * 21)
        for path in ("a", "b", "a/b", "\udcff", "a\0", "\xff")
    }
    assert len(ids) == 2 * 2 * 6


def test_a_keyed_hash_that_begins_as_the_other_contracts_do_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib  # noqa: PLC0415

    class Foreign:
        def __init__(self, message: bytes, **_: object) -> None:
            self.message = message

        def digest(self) -> bytes:
            salted = self.message.endswith(b"\0\1")
            return b"\xff" * 16 if salted else base64.urlsafe_b64decode("file-" + "A" * 17 + "==")

    monkeypatch.setattr(hashlib, "blake2b", Foreign)
    assert file_id(KEY, "S" * 21, "a") == "_" * 21


@pytest.mark.parametrize(
    "text",
    ["", "a" * 20, "a" * 22, "a" * 20 + ".", "a" * 20 + "/", "a" * 20 + "\n", "a" * 21 + "\n", "file-" + "a" * 16,
     "é" * 21, "\u0661" * 21, "a" * 10_000, "..", "a" * 20 + "\0"],
)  # fmt: skip
def test_K12_what_is_no_id_is_told_apart(text: str) -> None:
    assert not is_short_id(text)


def test_an_id_is_known_as_one() -> None:
    assert is_short_id("qX2v9sT0aBcDeFgHiJkLm")
    assert is_short_id("-_" * 10 + "-")
    assert is_short_id("file_" + "a" * 16)


@pytest.mark.parametrize(("text", "good"), [
    ("a", True), ("a-b", True), ("0", True), ("a" * 40, True), ("a" * 41, False), ("", False), ("-a", False),
    ("a-", False), ("A", False), ("a/b", False), ("a_b", False), ("é", False), ("a\n", False), ("..", False),
])  # fmt: skip
def test_a_projects_id_can_stand_in_keys(text: str, good: bool) -> None:
    assert is_project(text) is good


def test_no_two_lists_of_parts_have_one_digest() -> None:
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("", "abc"), ("abc", ""), ("a", "b", "c"), ("\ud800",), ("\udfff",)]
    assert len({digest(*parts) for parts in lists}) == len(lists)


def test_ids_of_many_sessions_do_not_meet() -> None:
    import os  # noqa: PLC0415

    source: Callable[[int], bytes] = os.urandom
    assert len({short_id(source) for _ in range(5_000)}) == 5_000
