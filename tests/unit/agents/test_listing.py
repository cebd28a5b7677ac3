"""Listing a directory and the tokens of its pages (agents.md 3.2, 11.10, 11.18; cases.md E10, E11)."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.agents.listing import Page, Request, children, page, read_token
from shared.domain.agents.refusals import Refused
from shared.domain.manifest import Entry, Manifest
from tests.unit.agents.trees import file, folder, link, special, tree

REQUEST = Request("project", "env_1", "", 2, "asc")
TOKEN_ERROR = (400, "invalid_request_error", "Invalid file page token for this request")


def names(found: Page) -> list[str]:
    return [entry.path for entry in found.files]


def test_3_2_regular_files_right_below_in_bytewise_order_and_nothing_else() -> None:
    base = tree(
        file("b"), file("B"), file("a-b.txt"), file("a.txt"), file("é"), file("d/in"), folder("e"), link("l", "b"),
        special("p"), special("s", "other"), file("\udcff"),
    )  # fmt: skip
    assert [entry.path for entry in children(base, "")] == ["B", "a-b.txt", "a.txt", "b", "é"]
    assert [entry.path for entry in children(base, "d")] == ["d/in"]


@pytest.mark.parametrize(
    "directory",
    ["missing", "f", "f/x", "to_dir", "to_dir/sub", "dangling", "d/missing", "empty", "pipe", "d/to_sub"],
)
def test_E11_what_is_no_directory_of_its_own_name_is_an_empty_page(directory: str) -> None:
    base = tree(
        file("f"), file("d/in"), file("d/sub/in"), link("to_dir", "d"), link("dangling", "nowhere"), folder("empty"),
        special("pipe"), link("d/to_sub", "sub"),
    )  # fmt: skip
    files = children(base, directory)
    assert page(files, replace(REQUEST, directory=directory), None) == Page((), None)


@pytest.mark.parametrize("kind", ["file", "dir", "link", "fifo", "other", "not UTF-8"])
def test_E10_1024_entries_of_any_kind_are_listed_and_one_more_is_503(kind: str) -> None:
    made = {
        "file": file("d/one more"), "dir": folder("d/one more"), "link": link("d/one more", "x"),
        "fifo": special("d/one more"), "other": special("d/one more", "other"), "not UTF-8": file("d/\udcfe"),
    }[kind]  # fmt: skip
    full = [file(f"d/{at}") for at in range(1_023)]
    assert len(children(tree(*full, made), "d")) == 1_023 + (kind == "file")
    with pytest.raises(Refused) as caught:
        children(tree(*full, file("d/x"), made), "d")
    assert caught.value.reason.value[:2] == (503, "execution_unavailable")
    assert children(tree(*full, file("d/sub/x"), file("e/y")), "e") != []


def through(base: Manifest, request: Request) -> list[str]:
    found: list[str] = []
    token = None
    while True:
        files = children(base, request.directory)
        got = page(files, request, None if token is None else read_token(token, request))
        assert len(got.files) <= request.limit
        found += names(got)
        if got.next is None:
            return found
        assert len(got.files) == request.limit
        token = got.next


@given(
    st.sets(st.text(alphabet="abAB-.é", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))),
    st.integers(1, 5),
)
def test_3_2_the_pages_are_the_listing_in_both_orders(found: set[str], limit: int) -> None:
    base = tree(*(file(name) for name in found))
    ordered = sorted(found, key=lambda name: name.encode())
    assert through(base, replace(REQUEST, limit=limit)) == ordered
    assert through(base, replace(REQUEST, limit=limit, order="desc")) == ordered[::-1]


FILES = [file(name, "12") for name in "abcde"]


def token_of(request: Request = REQUEST) -> str:
    token = page(FILES, request, None).next
    assert token is not None
    return token


def expect_refused(text: str, request: Request = REQUEST) -> None:
    with pytest.raises(Refused) as caught:
        read_token(text, request)
    assert (*caught.value.reason.value[:2], caught.value.text) == TOKEN_ERROR


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, project="other"),
        replace(REQUEST, environment="env_2"),
        replace(REQUEST, directory="d"),
        replace(REQUEST, limit=1),
        replace(REQUEST, order="desc"),
    ],
)
def test_3_2_row_8_a_token_of_another_request_is_refused(other: Request) -> None:
    expect_refused(token_of(), other)
    expect_refused(token_of(other), REQUEST)


@pytest.mark.parametrize("text", ["", "a", "garbage", "=" * 4, "é" * 8, "\udcff", "a" * 1_024, "a" * 1_025, "a b", "0"])
def test_3_2_row_8_garbage_is_refused(text: str) -> None:
    expect_refused(text)


def test_3_2_row_8_each_changed_character_of_a_token_is_refused_or_stale() -> None:
    token = token_of()
    for at, there in enumerate(token):
        changed = token[:at] + ("A" if there != "A" else "B") + token[at + 1 :]
        with pytest.raises(Refused):
            page(FILES, REQUEST, read_token(changed, REQUEST))
    for other in (token + "=", token + "==", " " + token, token + "\n", token[:-1], token + "A"):
        expect_refused(other)


def forged(offset: int, request: Request) -> str:
    token = token_of(request)
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    return base64.urlsafe_b64encode(raw[:-4] + offset.to_bytes(4, "big")).decode().rstrip("=")


@pytest.mark.parametrize("offset", [0, 1, 3, 5])
def test_3_2_an_offset_that_no_page_begins_at_is_refused(offset: int) -> None:
    expect_refused(forged(offset, REQUEST))


@pytest.mark.parametrize("offset", [6, 8, 2**32 - 2])
def test_3_2_row_12_an_offset_outside_is_refused(offset: int) -> None:
    with pytest.raises(Refused) as caught:
        page(FILES, REQUEST, read_token(forged(offset, REQUEST), REQUEST))
    assert (*caught.value.reason.value[:2], caught.value.text) == TOKEN_ERROR


def test_an_offset_right_behind_the_last_file_is_outside() -> None:
    request = replace(REQUEST, limit=1)
    assert names(page(FILES, request, read_token(forged(4, request), request))) == ["e"]
    with pytest.raises(Refused):
        page(FILES, request, read_token(forged(5, request), request))


@pytest.mark.parametrize(
    "now",
    [
        [*FILES, file("f", "12")],
        FILES[:-1],
        [file("A", "12"), *FILES[1:]],
        [*FILES[:-1], file("e", "123")],
    ],
)
def test_E10_row_12_a_listing_that_changed_refuses_the_token(now: list[Entry]) -> None:
    token = read_token(token_of(), REQUEST)
    with pytest.raises(Refused) as caught:
        page(now, REQUEST, token)
    assert (*caught.value.reason.value[:2], caught.value.text) == TOKEN_ERROR


def test_row_12_only_names_and_sizes_of_regular_files_count() -> None:
    token = token_of()
    same = [file(name, "34")._replace(mode=0o600, mtime_ns=7) for name in "abcde"]
    files = children(tree(*same, folder("new"), link("l", "a")), "")
    assert names(page(files, REQUEST, read_token(token, REQUEST))) == ["c", "d"]


def test_a_token_names_no_path() -> None:
    request = replace(REQUEST, directory="secret", limit=1)
    token = page([file("secret/plan"), file("secret/x")], request, None).next
    assert token is not None
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert b"secret" not in raw
    assert b"plan" not in raw
