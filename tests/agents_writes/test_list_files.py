"""`GET /agents/environments/{id}/files`: table 3.2, row by row and each pair of faults in its order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.api.agents.files_query import read_list_query
from functions.api.agents.query import pairs_of
from shared.agents_errors import Refusal
from shared.domain.agents.head import Environment, EnvironmentStatus
from shared.domain.session import Lock, Owner
from shared.operations import names
from shared.store.ports import DeleteIf
from tests.agents_writes.desk import OTHER, Answer, Desk, make_session
from tests.unit.agents.trees import file, folder, link, special, tree

OFFICIAL = "invalid_request_error"
BROKEN = "Failed to deserialize query string: "
DIRECTORY = Answer(400, OFFICIAL, "path must be an absolute directory inside /workspace")
CLEAN = Answer(400, OFFICIAL, "path must identify a non-reserved directory inside /workspace")
TOKEN = Answer(400, OFFICIAL, "Invalid file page token for this request")
PENDING = Answer(
    400,
    OFFICIAL,
    "the hosted environment is still provisioning; wait until it is connected before accessing files",
)
UNAVAILABLE = (503, "execution_unavailable", "Execution is not available on this service.")
EMPTY: dict[str, Any] = {"object": "page", "data": [], "next": None, "has_more": False}


def expect_unavailable(answer: Answer) -> None:
    assert (answer.status, answer.code, answer.message) == UNAVAILABLE


def over_http(desk: Desk, query: str) -> Answer:
    """As the HTTP door asks: the query's rows before the operation's."""
    try:
        given = read_list_query(pairs_of(query.encode(), strict=True))
    except Refusal as refusal:
        error = refusal.envelope()["error"]
        return Answer(refusal.status, error["code"], str(error["message"]), error["param"])
    return desk.listing(**given)


def test_a_page_has_four_keys_and_a_file_four(desk: Desk) -> None:
    desk.fill(*tree(file("a.txt", "abc"), file("b", "")))
    answer = over_http(desk, "order=asc&limit=1")
    assert set(answer.body) == {"object", "data", "next", "has_more"}
    assert answer.body["data"] == [
        {
            "environment_id": desk.environment,
            "object": "agent.environment.file",
            "path": "/workspace/a.txt",
            "size_bytes": 3,
        }
    ]
    assert answer.body["has_more"] is True
    last = desk.listing(order="asc", limit=1, page=answer.body["next"])
    assert [row["path"] for row in last.body["data"]] == ["/workspace/b"]
    assert (last.body["next"], last.body["has_more"]) == (None, False)


def test_names_are_in_the_order_of_their_bytes_newest_letter_first(desk: Desk) -> None:
    desk.fill(*tree(file("a-b.txt"), file("a.txt"), file("B"), file("\u00e9"), file("sub/x")))
    up = ["/workspace/B", "/workspace/a-b.txt", "/workspace/a.txt", "/workspace/\u00e9"]
    assert desk.names() == up
    assert [row["path"] for row in over_http(desk, "").body["data"]] == up[::-1]
    assert desk.names(path="/workspace/sub") == ["/workspace/sub/x"]


def test_all_pages_together_are_the_directory(anywhere: Desk) -> None:
    paths = [f"f{number:02}" for number in range(45)]
    anywhere.fill(*tree(*map(file, paths)))
    for order, limit in itertools.product(("asc", "desc"), (1, 7, 45, 100, None)):
        found: list[str] = []
        page: str | None = None
        while True:
            body = anywhere.listing(order=order, limit=limit, page=page).body
            found += [row["path"].removeprefix("/workspace/") for row in body["data"]]
            assert len(body["data"]) <= (limit or 20)
            page = body["next"]
            assert body["has_more"] is (page is not None)
            if page is None:
                break
        assert found == (paths if order == "asc" else paths[::-1])


def test_what_is_no_regular_file_is_left_out_and_what_is_no_directory_is_empty(desk: Desk) -> None:
    desk.fill(
        *tree(
            file("f"), folder("d"), file("d/in"), link("to_d", "d"), link("to_f", "f"), link("gone", "no"),
            special("pipe"), special("sock", "other"),
        )
    )  # fmt: skip
    assert desk.names() == ["/workspace/f"]
    for path in ("/f", "/to_d", "/to_d/in", "/gone", "/missing", "/d/in", "/d/missing", "/pipe", "/f/x"):
        assert desk.listing(path="/workspace" + path).body == EMPTY
    assert desk.names(path="/workspace/d") == ["/workspace/d/in"]


QUERIES: list[tuple[str, Answer]] = [
    ("%GG", Answer(400, "invalid_request", "Invalid resource identifier or request limits.")),
    ("foo=%GG", Answer(400, "invalid_request", "Invalid resource identifier or request limits.")),
    ("a;b", Answer(400, "invalid_request", "Invalid resource identifier or request limits.")),
    ("path=a&path=b&limit=x", Answer(400, OFFICIAL, f"{BROKEN}duplicate field `path`")),
    ("page=1&page=1&order=x&order=x&limit=1&limit=1", Answer(400, OFFICIAL, f"{BROKEN}duplicate field `limit`")),
    ("page=1&page=1&order=x&order=x", Answer(400, OFFICIAL, f"{BROKEN}duplicate field `order`")),
    ("page=1&page=1", Answer(400, OFFICIAL, f"{BROKEN}duplicate field `page`")),
    ("limit=", Answer(400, OFFICIAL, f"{BROKEN}limit: invalid digit found in string")),
    ("limit", Answer(400, OFFICIAL, f"{BROKEN}limit: invalid digit found in string")),
    ("limit=-1", Answer(400, OFFICIAL, f"{BROKEN}limit: invalid digit found in string")),
    ("limit=+5", Answer(400, OFFICIAL, f"{BROKEN}limit: invalid digit found in string")),
    ("limit=1.0", Answer(400, OFFICIAL, f"{BROKEN}limit: invalid digit found in string")),
    ("limit=9223372036854775808", Answer(400, OFFICIAL, f"{BROKEN}limit: number too large to fit in target type")),
    ("limit=9223372036854775807", Answer(400, OFFICIAL, "limit must be between 1 and 100")),
    ("limit=0", Answer(400, OFFICIAL, "limit must be between 1 and 100")),
    ("limit=101&order=x", Answer(400, OFFICIAL, "limit must be between 1 and 100")),
    ("order=up&path=x", Answer(400, OFFICIAL, f"{BROKEN}order: unknown variant `up`, expected `asc` or `desc`")),
    ("order=&path=x", Answer(400, OFFICIAL, f"{BROKEN}order: unknown variant ``, expected `asc` or `desc`")),
    ("path=&page=", DIRECTORY),
    ("page=", TOKEN),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES, ids=[query for query, _ in QUERIES])
def test_rows_2_to_8_of_a_query(desk: Desk, query: str, expected: Answer) -> None:
    assert over_http(desk, query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "",
        "foo=1&foo=2",
        "after=x&after=y",
        "Path=/etc",
        "tenant_id=two",
        "limit=%2B5",
        "&&",
        "bare",
        "path=%2Fworkspace",
    ],
)
def test_what_a_query_may_also_hold(desk: Desk, query: str) -> None:
    assert over_http(desk, query).body == EMPTY


PATHS = [
    ("", DIRECTORY), ("workspace", DIRECTORY), ("/workspace\\a", DIRECTORY), ("/workspace/\0", DIRECTORY),
    ("/workspace/\r", DIRECTORY), ("/workspace/a\n", DIRECTORY), ("/workspace/\udcff", DIRECTORY),
    ("/workspace/" + "a" * 4_086, DIRECTORY), ("/workspace/" + "\u00e9" * 2_043, DIRECTORY),
    ("/workspace/", CLEAN), ("/workspace//a", CLEAN), ("/workspace/.", CLEAN), ("/workspace/../etc", CLEAN),
    ("/etc/", CLEAN), ("//", CLEAN), ("/workspace/./../..", CLEAN),
    ("/", DIRECTORY), ("/etc", DIRECTORY), ("/workspace-sibling", DIRECTORY), ("/mnt/data", DIRECTORY),
]  # fmt: skip


@pytest.mark.parametrize(("path", "expected"), PATHS, ids=[ascii(path)[:40] for path, _ in PATHS])
def test_row_7_paths(desk: Desk, path: str, expected: Answer) -> None:
    assert desk.listing(path=path, page="") == expected


def test_a_path_of_exactly_4096_bytes_is_taken(desk: Desk) -> None:
    assert desk.listing(path="/workspace/" + "a" * 4_085).body == EMPTY


def test_row_8_a_token_is_of_one_request(desk: Desk) -> None:
    desk.fill(*tree(*(file(f"d/{n}") for n in range(9)), *(file(str(n)) for n in range(9))))
    other = make_session(desk.room)
    asked: dict[str, Any] = {"path": "/workspace/d", "limit": 2, "order": "asc"}
    changes: list[dict[str, Any]] = [
        {"path": "/workspace"}, {"limit": 4}, {"limit": None}, {"order": "desc"}, {"order": None},
    ]  # fmt: skip
    token = desk.listing(**asked).body["next"]
    assert token == token.strip("=")
    assert desk.listing(**asked, page=token).status == 200
    for changed in changes:
        assert desk.listing(**{**asked, **changed}, page=token) == TOKEN
    for wrong in (
        "",
        " ",
        "x",
        token[:-1],
        token + "=",
        token + "A",
        token.swapcase(),
        "A" * 1_024,
        "A" * 1_025,
        "\u00e9",
    ):
        assert desk.listing(**asked, page=wrong) == TOKEN
    desk.session = other
    assert desk.listing(**asked, page=token) == TOKEN
    desk.session = make_session(desk.room, project=OTHER)
    assert desk.listing(**asked, page=token, project=OTHER) == TOKEN


def test_row_12_a_token_is_of_one_listing(desk: Desk) -> None:
    before = [file(str(number)) for number in range(6)]
    desk.fill(*tree(*before, folder("d")))
    token = desk.listing(limit=2).body["next"]
    desk.fill(*tree(*before, folder("d"), file("d/x"), special("pipe")))
    assert desk.listing(limit=2, page=token).status == 200, "no regular file of the directory has changed"
    for changed in (
        [*before, file("6")],
        before[:-1],
        [*before[:-1], file("x")],
        [file("0", "another size"), *before[1:]],
        before[:2],
        [],
    ):
        desk.fill(*tree(*changed))
        assert desk.listing(limit=2, page=token) == TOKEN


def test_row_9_pending_comes_behind_the_query(desk: Desk) -> None:
    desk.session = make_session(desk.room, install=True)
    assert desk.listing() == PENDING
    assert desk.listing(page="x") == TOKEN


@pytest.mark.parametrize("status", ["expired", "failed", "disconnected"])
def test_11_5_another_state_cannot_be_read(desk: Desk, status: EnvironmentStatus) -> None:
    desk.set_head(replace(desk.head(), environment=Environment("openai_hosted", status)))
    expect_unavailable(desk.listing())
    assert desk.listing(path="x") == DIRECTORY


@pytest.mark.parametrize("kind", ["none", "self_hosted"])
def test_11_5_other_environments_have_no_files(desk: Desk, kind: Any) -> None:
    desk.session = make_session(desk.room, kind)
    expect_unavailable(desk.listing())
    assert desk.listing(page="x") == TOKEN


def test_row_10_a_workspace_that_is_lost_is_no_empty_page(desk: Desk) -> None:
    desk.fill(*tree(file("a")))
    opened = desk.workspace()
    desk.set_workspace(replace(opened.head, inline="", pointer=f"{desk.partition}/gone"))
    expect_unavailable(desk.listing())
    desk.set_workspace(replace(opened.head, gone=True))
    expect_unavailable(desk.listing())
    desk.state.inner.transact([DeleteIf(desk.partition, names.HEAD, desk.workspace().version)])
    expect_unavailable(desk.listing())


@pytest.mark.parametrize("kind", [file, folder, special, lambda path: link(path, "x")])
def test_row_11_1025_entries_of_any_kind(desk: Desk, kind: Callable[[str], Any]) -> None:
    full = [*(kind(f"e{n:04}") for n in range(1_023)), file("zz")]
    desk.fill(*tree(*full))
    assert desk.listing(limit=1).body["data"][0]["path"] == "/workspace/zz"
    desk.fill(*tree(*full, folder("one_more")))
    expect_unavailable(desk.listing(limit=1))


def test_a_list_neither_waits_for_a_lock_nor_writes(desk: Desk) -> None:
    desk.fill(*tree(file("a")))
    desk.set_workspace(replace(desk.workspace().head, lock=Lock(Owner("other", "1"), desk.clock() + 60_000)))
    steps = list(desk.state.steps)
    assert desk.names() == ["/workspace/a"]
    assert desk.state.steps == steps


ORDERED: list[tuple[str, dict[str, Any], str]] = [
    ("limit", {"limit": 0}, "limit must be between 1 and 100"),
    ("order", {"order": "x"}, f"{BROKEN}order: unknown variant `x`, expected `asc` or `desc`"),
    ("path", {"path": "/etc"}, DIRECTORY.message),
    ("page", {"page": "x"}, TOKEN.message),
]


@pytest.mark.parametrize(
    ("first", "second"),
    list(itertools.combinations(ORDERED, 2)),
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_of_two_faults_the_earlier_row_is_told(desk: Desk, first: Any, second: Any) -> None:
    assert desk.listing(**second[1], **first[1]).message == first[2]
    desk.session = make_session(desk.room, install=True)
    assert desk.listing(**second[1]).message == second[2], "and before the state"
