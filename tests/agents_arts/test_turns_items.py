"""Turns and items as lists and alone (agents.md 1.6, 5.4, 5.5, 11.43)."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from openai.types.beta.agent_session_item import AgentSessionItem
from openai.types.beta.agents.sessions.turn import Turn as SdkTurn
from pydantic import TypeAdapter

from shared.agents_errors import Refusal
from shared.domain.agents import ids, turns
from shared.operations.agents import pages, places
from shared.store.ports import PutNew
from tests.agents_arts.made import LEASE, Book, make_book, message
from tests.fakes import Clock

BAD_IDS = ["", "x", "item_", "turn_", "turn_" + "z" * 32, "item_" + "v" * 32, "turn_" + "v" * 32, "item_\x00"]
ITEM = "Invalid session item ID in `after`"


def raises(status: int, message: str, book: Book, name: str, **given: Any) -> None:
    """The operation refuses with that status and that sentence."""
    with pytest.raises(Refusal) as refusal:
        book.do(name, **given)
    assert (refusal.value.status, refusal.value.message) == (status, message)


def ids_of(book: Book, name: str, **given: Any) -> list[str]:
    return [row["id"] if isinstance(row, dict) else row.id for row in book.rows(name, **given)]


def make_turns(book: Book, count: int) -> list[str]:
    """Completed Turns, oldest first."""
    made = []
    for _ in range(count):
        turn = book.begin()
        book.complete(turn, [])
        made.append(turn.id)
    return made


def put_turns(book: Book, count: int, step: int = 1) -> list[str]:
    """The rows of so many Turns, oldest first, by no engine; their numbers are `step` apart."""
    rows = []
    for number in range(step, count * step + 1, step):
        ident = ids.new("turn", os.urandom, ids.order(number))
        rows.append(turns.Turn(id=ident, sequence=number, created=1_000))
    for start in range(0, count, 50):
        book.room.state.transact(
            [
                PutNew(book.found.partition, places.TURNS + turn.id, turn.attributes())
                for turn in rows[start : start + 50]
            ]
        )
    return [turn.id for turn in rows]


def put_items(book: Book, turn: str, numbers: range) -> list[str]:
    """Rows of small items of a Turn, by no engine."""
    made = [(ids.new("item", os.urandom, ids.order(number)), number) for number in numbers]
    for start in range(0, len(made), 50):
        book.room.state.transact(
            [
                PutNew(
                    book.found.partition,
                    places.ITEMS + ident,
                    {"sequence": number, "turn": turn, "value": message(ident, turn, "x"), "pointer": ""},
                )
                for ident, number in made[start : start + 50]
            ]
        )
    return [ident for ident, _ in made]


def test_5_4_a_turn_has_all_members_of_the_sdk_nullable_ones_too(book: Book) -> None:
    turn = book.begin()
    now = book.room.clock() // 1000
    wire = book.do("turns.get", turn_id=turn.id).model_dump()
    expected = {
        "id": turn.id, "object": "agent.session.turn", "session_id": book.session, "agent_id": "agent_one",
        "status": "in_progress", "created_at": now, "started_at": now, "completed_at": None, "error": None,
        "usage": None, "subagent_id": None,
    }  # fmt: skip
    assert wire == expected
    book.complete(turn, [])
    (listed,) = book.do("turns.list").data
    assert listed.model_dump() == {**expected, "status": "completed", "completed_at": now}
    for one in (wire, listed.model_dump()):
        SdkTurn.model_validate(one, strict=True)


def test_5_4_a_failed_turn_shows_its_error_and_its_usage(book: Book) -> None:
    error = turns.TurnError("artifact_capture_failed", "outputs is not a directory.")
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    ident = ids.new("turn", os.urandom, ids.order(1))
    row = turns.Turn(id=ident, sequence=1, created=1, status="failed", ended=2_000, error=error, usage=usage)
    book.room.state.transact([PutNew(book.found.partition, places.TURNS + ident, row.attributes())])
    wire = book.do("turns.get", turn_id=ident).model_dump()
    assert wire["error"] == {"code": "artifact_capture_failed", "message": "outputs is not a directory."}
    assert (wire["usage"], wire["completed_at"], wire["started_at"]) == (usage, 2, None)


def test_5_4_missing_malformed_and_foreign_turns_are_404(book: Book) -> None:
    other, foreign = make_book(book.room), make_book(book.room, "two")
    (own,), (beside,), (far,) = make_turns(book, 1), make_turns(other, 1), make_turns(foreign, 1)
    for ident in [*BAD_IDS, beside, far, ids.new("turn", os.urandom, ids.order(1))]:
        raises(404, "Resource not found.", book, "turns.get", turn_id=ident)
        raises(404, "Resource not found.", book, "turns.items", turn_id=ident)
        raises(404, "Resource not found.", book, "turns.list", after=ident)
    for name in ("turns.list", "items.list"):
        raises(404, "Resource not found.", book, name, project="two")
        raises(404, "Resource not found.", book, name, session_id="sess_x")
    assert ids_of(book, "turns.list") == [own]


def test_1_6_turns_in_both_orders_and_from_any_place(any_book: Book) -> None:
    book = any_book
    rising = make_turns(book, 5)
    for order, whole in (("asc", rising), ("desc", rising[::-1])):
        for limit in (1, 2, 5, 6):
            assert ids_of(book, "turns.list", order=order, limit=limit) == whole
            for place, after in enumerate(whole):
                page = book.do("turns.list", order=order, limit=limit, after=after)
                assert [row.id for row in page.data] == whole[place + 1 : place + 1 + limit]
                assert page.has_more is (place + 1 + limit < len(whole))
    assert ids_of(book, "turns.list") == rising[::-1]


def test_1_6_the_limit_of_turns_is_1_to_100_and_20_by_default(book: Book) -> None:
    put_turns(book, 101)
    for limit in (0, -1, 101, 2**63 - 1):
        raises(400, "limit must be between 1 and 100", book, "turns.list", limit=limit)
    wanted: list[tuple[int | None, int]] = [(None, 20), (1, 1), (100, 100)]
    for asked, count in wanted:
        page = book.do("turns.list", limit=asked)
        assert (len(page.data), page.has_more) == (count, True)


def test_an_empty_list_has_no_ids(book: Book) -> None:
    for name in ("turns.list", "items.list"):
        empty: dict[str, Any] = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
        assert book.do(name).model_dump() == empty


def test_5_5_items_are_as_on_the_wire_inline_or_an_object(any_book: Book) -> None:
    book = any_book
    turn = book.begin()
    texts = ["short", "l" * 40_000, "\ud7ff\U0001f600" * 9_000]
    made = [book.item(turn.id, text) for text in texts]
    rows = book.do("items.list", order="asc").data
    assert rows == [message(ident, turn.id, text) for ident, text in zip(made, texts, strict=True)]
    adapter: TypeAdapter[Any] = TypeAdapter(AgentSessionItem)
    for row in json.loads(book.do("items.list").model_dump_json())["data"]:
        assert type(adapter.validate_python(row, strict=True)).__name__ == "AgentSessionMessage"


def test_1_6_the_limit_of_items_is_clamped(book: Book) -> None:
    turn = book.begin()
    put_items(book, turn.id, range(10, 111))
    for name, more in (("items.list", {}), ("turns.items", {"turn_id": turn.id})):
        for limit, count in ((None, 20), (0, 1), (-5, 1), (1, 1), (100, 100), (101, 100), (2**63 - 1, 100)):
            page = book.do(name, limit=limit, **more)
            assert (len(page.data), page.has_more) == (count, True)
        last = book.do(name, limit=100, order="asc", **more).last_id
        page = book.do(name, after=last, order="asc", **more)
        assert (len(page.data), page.has_more) == (1, False)


def test_1_6_a_cursor_of_items_is_one_of_the_same_list(book: Book) -> None:
    other = make_book(book.room)
    first = book.begin()
    one = book.item(first.id)
    book.complete(first, [])
    second = book.begin()
    two = book.item(second.id)
    strange = other.item(other.begin().id)
    for after in [*BAD_IDS, strange, first.id, ids.new("item", os.urandom, ids.order(1))]:
        raises(400, ITEM, book, "items.list", after=after)
        raises(400, ITEM, book, "turns.items", turn_id=first.id, after=after)
    raises(400, ITEM, book, "turns.items", turn_id=first.id, after=two)
    assert ids_of(book, "items.list", after=two) == [one]
    assert ids_of(book, "turns.items", turn_id=first.id, after=one) == []


def test_11_43_a_turn_shows_its_own_items_and_no_other(any_book: Book) -> None:
    book = any_book
    whole: dict[str, list[str]] = {}
    for count in (3, 0, 1, 4):
        turn = book.begin()
        whole[turn.id] = [book.item(turn.id, f"{number}") for number in range(count)]
        book.complete(turn, [])
    everything = [ident for made in whole.values() for ident in made]
    assert ids_of(book, "items.list", order="asc", limit=3) == everything
    assert ids_of(book, "items.list", limit=3) == everything[::-1]
    for turn_id, made in whole.items():
        for order, expected in (("asc", made), ("desc", made[::-1])):
            for limit in (1, 3, 4, 5):
                assert ids_of(book, "turns.items", turn_id=turn_id, order=order, limit=limit) == expected
            for place, after in enumerate(expected):
                page = book.do("turns.items", turn_id=turn_id, order=order, after=after, limit=1)
                assert [row["id"] for row in page.data] == expected[place + 1 : place + 2]
                assert page.has_more is (place + 2 < len(expected))


@pytest.mark.parametrize("late", [1, 3])
def test_items_numbered_behind_the_turn_that_follows_belong_to_the_one_before(book: Book, late: int) -> None:
    """The transaction that ends a Turn numbers its successor, and may number last items behind it."""
    first, second = put_turns(book, 2)
    early = put_items(book, first, range(3, 5))
    last = put_items(book, first, range(5, 5 + late))
    behind = put_items(book, second, range(20, 23))
    for order, step in (("asc", 1), ("desc", -1)):
        assert ids_of(book, "turns.items", turn_id=first, order=order, limit=2) == (early + last)[::step]
        assert ids_of(book, "turns.items", turn_id=second, order=order, limit=2) == behind[::step]


def test_the_items_of_one_turn_are_found_without_reading_those_of_others(book: Book) -> None:
    made = put_turns(book, 30, step=100)
    own = {
        turn: put_items(book, turn, range(100 * place + 1, 100 * place + 91))
        for place, turn in enumerate(made, start=1)
        if place != 17
    }
    for turn in made:
        for order, step in (("asc", 1), ("desc", -1)):
            book.forget()
            page = book.do("turns.items", turn_id=turn, order=order, limit=5)
            assert [row["id"] for row in page.data] == own.get(turn, [])[::step][:5]
            assert page.has_more is (turn in own)
            # Two pieces, the Turn that follows, and the rows that are read one by one.
            assert book.state.rows <= 43


def test_a_page_of_large_items_ends_early_and_reads_no_further(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = book.begin()
    made = [book.item(turn.id, f"{number}" * 50_000) for number in range(6)]
    monkeypatch.setattr(pages, "PAGE_BYTES", 120_000)
    for name, more in (("items.list", {}), ("turns.items", {"turn_id": turn.id})):
        book.forget()
        page = book.do(name, order="asc", **more)
        assert ([row["id"] for row in page.data], page.has_more) == (made[:2], True)
        assert len(book.objects.reads) == 3
        assert ids_of(book, name, order="asc", **more) == made
        assert ids_of(book, name, **more) == made[::-1]


def test_an_item_above_the_bound_is_a_page_of_its_own(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = book.begin()
    made = [book.item(turn.id, "x" * size) for size in (10, 50_000, 10, 10)]
    monkeypatch.setattr(pages, "PAGE_BYTES", 1_000)
    page = book.do("items.list", order="asc")
    assert ([row["id"] for row in page.data], page.has_more) == (made[:1], True)
    page = book.do("items.list", order="asc", after=page.last_id)
    assert ([row["id"] for row in page.data], page.has_more) == (made[1:2], True)
    page = book.do("items.list", order="asc", after=page.last_id)
    assert ([row["id"] for row in page.data], page.has_more) == (made[2:], False)


@pytest.mark.parametrize("name", ["turns.get", "turns.list", "items.list", "turns.items", "artifacts.list"])
def test_11_36_a_turn_in_nobodys_hand_is_over_for_whoever_reads(book: Book, name: str) -> None:
    turn = book.begin()
    assert isinstance(book.room.clock, Clock)
    book.room.clock.forward(LEASE)
    given = {"turn_id": turn.id} if name in ("turns.get", "turns.items") else {}
    book.do(name, **given)
    assert book.found.head.active is None
    assert book.do("turns.get", turn_id=turn.id).error["code"] == "internal_error"
