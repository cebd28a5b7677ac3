"""Artifacts: what is read, listed and deleted (agents.md 1.6, 6.2)."""

from __future__ import annotations

import os
from typing import Any

import pytest
from openai.types.beta.agents.sessions.session_artifact import SessionArtifact
from openai.types.beta.agents.sessions.session_artifact_deleted import SessionArtifactDeleted

from shared.agents_errors import Refusal
from shared.domain.agents import ids, lifecycle
from shared.domain.agents.head import Session
from shared.operations.agents import places
from shared.operations.agents.artifacts import open_artifact
from shared.operations.agents.session import Draft, swap
from shared.store.ports import PutIf, StoreUnavailable
from tests.agents_arts.made import Book, entry, make_book

BAD_IDS = ["", "art_", "x", "art_" + "v" * 32, "art_" + "z" * 32, "turn_" + "0" * 32, "art_\x00", "art_" + "é" * 32]


def raises(status: int, message: str, book: Book, name: str, **given: Any) -> None:
    """The operation refuses with that status and that sentence."""
    with pytest.raises(Refusal) as refusal:
        book.do(name, **given)
    assert (refusal.value.status, refusal.value.message) == (status, message)


def ids_of(book: Book, **given: Any) -> list[str]:
    return [row.id for row in book.rows("artifacts.list", **given)]


def delete(book: Book, *artifacts: str) -> None:
    for artifact in artifacts:
        assert book.do("artifacts.delete", artifact_id=artifact).id == artifact


def test_6_2_an_artifact_has_exactly_the_eight_members_of_the_sdk(book: Book) -> None:
    turn = book.begin()
    book.complete(turn, [entry("a/ü.txt", "four")])
    (row,) = book.do("artifacts.list").data
    wire = book.do("artifacts.get", artifact_id=row.id).model_dump()
    assert wire == row.model_dump() == {
        "id": row.id, "object": "agent.session.artifact", "session_id": book.session, "turn_id": turn.id,
        "environment_id": "env_" + book.session.removeprefix("sess_"), "path": "/workspace/outputs/a/ü.txt",
        "size_bytes": 4, "created_at": book.room.clock() // 1000,
    }  # fmt: skip
    SessionArtifact.model_validate(wire, strict=True)
    gone = book.do("artifacts.delete", artifact_id=row.id).model_dump()
    assert gone == {"id": row.id, "object": "agent.session.artifact.deleted", "deleted": True}
    SessionArtifactDeleted.model_validate(gone, strict=True)


@pytest.mark.parametrize("name", ["artifacts.get", "artifacts.delete"])
def test_6_2_missing_malformed_and_foreign_are_404(book: Book, name: str) -> None:
    other, foreign = make_book(book.room), make_book(book.room, "two")
    for one in (book, other, foreign):
        one.publish(a="x")
    (own,) = ids_of(book)
    for ident in [*BAD_IDS, *ids_of(other), *ids_of(foreign), own[:-1], own + "A"]:
        raises(404, "Resource not found.", book, name, artifact_id=ident)
        with pytest.raises(Refusal, match="not_found"):
            open_artifact(book.room, "one", book.session, ident)
    raises(404, "Resource not found.", book, name, artifact_id=own, project="two")
    raises(404, "Resource not found.", book, name, artifact_id=own, session_id="sess_x")
    with pytest.raises(Refusal, match="not_found"):
        open_artifact(book.room, "two", book.session, own)
    assert ids_of(book) == [own]


def test_6_2_a_second_delete_and_later_reads_are_404(book: Book) -> None:
    book.publish(a="x", b="y")
    first, second = ids_of(book)
    delete(book, first)
    for name in ("artifacts.get", "artifacts.delete"):
        raises(404, "Resource not found.", book, name, artifact_id=first)
    assert ids_of(book) == [second]
    assert book.found.head.revision == 1


def test_6_2_what_a_door_sends_is_named_by_the_opened_artifact(book: Book) -> None:
    book.complete(book.begin(), [entry("deep/er/n.txt", "hello")])
    (ident,) = ids_of(book)
    opened = open_artifact(book.room, "one", book.session, ident)
    assert (opened.path, opened.name, opened.size, opened.blob, opened.offset) == (
        "/workspace/outputs/deep/er/n.txt", "n.txt", 5, "p/one/s/x/blob", 7,
    )  # fmt: skip
    assert opened.sha256 == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def test_6_2_reads_work_after_the_environment_expired_and_not_after_the_session_is_deleted(book: Book) -> None:
    book.publish(a="x")
    (ident,) = ids_of(book)

    def expire(draft: Draft) -> None:
        draft.head = lifecycle.expired(draft.head)

    swap(book.room, book.found, expire)
    assert ids_of(book) == [ident]
    assert book.do("artifacts.get", artifact_id=ident).id == ident
    assert open_artifact(book.room, "one", book.session, ident).size == 1
    found = book.found
    gone = lifecycle.deleted(found.head)
    book.room.state.transact([PutIf(found.partition, places.HEAD, found.version, gone.attributes())])
    for name in ("artifacts.get", "artifacts.delete"):
        raises(404, "Resource not found.", book, name, artifact_id=ident)
    raises(404, "Resource not found.", book, "artifacts.list")
    with pytest.raises(Refusal, match="not_found"):
        open_artifact(book.room, "one", book.session, ident)


def test_1_6_pages_follow_publication_then_id_in_both_orders(any_book: Book) -> None:
    book = any_book
    for turn in range(4):
        book.complete(book.begin(), [entry(f"{turn}{name}", f"{turn}") for name in "abc"])
    rising = ids_of(book, order="asc", limit=100)
    assert len(rising) == 12
    assert rising == sorted(rising)
    assert ids_of(book, limit=100) == rising[::-1] == ids_of(book, order="desc", limit=5)
    for order, whole in (("asc", rising), ("desc", rising[::-1])):
        for limit in (2, 12, 13):
            assert ids_of(book, order=order, limit=limit) == whole
            for place, after in enumerate(whole):
                page = book.do("artifacts.list", order=order, limit=limit, after=after)
                expected = whole[place + 1 : place + 1 + limit]
                assert [row.id for row in page.data] == expected
                assert page.has_more is (place + 1 + limit < len(whole))
                assert (page.first_id, page.last_id) == (
                    (expected[0], expected[-1]) if expected else (None, None)
                )  # fmt: skip


@pytest.mark.parametrize("holes", [{0}, {11}, {3, 4, 5}, {0, 1, 2, 9, 10, 11}, {2, 3}, set(range(1, 11)), {1, 4, 7}])
def test_11_28_deleted_artifacts_leave_no_trace_at_any_page_border(book: Book, holes: set[int]) -> None:
    for turn in range(4):
        book.complete(book.begin(), [entry(f"{turn}{name}", f"{turn}") for name in "abc"])
    rising = ids_of(book, order="asc", limit=100)
    delete(book, *(rising[hole] for hole in holes))
    left = [ident for place, ident in enumerate(rising) if place not in holes]
    for order, whole in (("asc", left), ("desc", left[::-1])):
        for limit in range(1, len(left) + 2):
            assert ids_of(book, order=order, limit=limit) == whole
            for place, after in enumerate(whole):
                page = book.do("artifacts.list", order=order, limit=limit, after=after)
                assert [row.id for row in page.data] == whole[place + 1 : place + 1 + limit]
                assert page.has_more is (place + 1 + limit < len(whole))


def test_1_6_the_default_is_twenty_newest_first(book: Book) -> None:
    book.complete(book.begin(), [entry(f"{number}") for number in range(21)])
    page = book.do("artifacts.list")
    assert (len(page.data), page.has_more) == (20, True)
    assert [row.id for row in page.data] == sorted((row.id for row in page.data), reverse=True)
    (first, *_) = page.data
    delete(book, first.id)
    assert book.do("artifacts.list").has_more is False


def test_1_6_the_limit_is_1_to_100_and_never_clamped(book: Book) -> None:
    book.complete(book.begin(), [entry(f"{number}") for number in range(101)])
    for limit in (0, -1, 101, 2**63 - 1):
        raises(400, "limit must be between 1 and 100", book, "artifacts.list", limit=limit)
    page = book.do("artifacts.list", limit=100)
    assert (len(page.data), page.has_more) == (100, True)
    assert len(book.do("artifacts.list", limit=1).data) == 1


def test_1_6_a_cursor_is_an_artifact_of_this_session_that_is_there(book: Book) -> None:
    other = make_book(book.room)
    other.publish(a="x")
    book.publish(a="x", b="y")
    newest, oldest = ids_of(book)
    delete(book, newest)
    unknown = ids.new("art", os.urandom, ids.order(1))
    for after in [*BAD_IDS, newest, unknown, *ids_of(other), book.session]:
        raises(400, "after is not a valid artifact ID", book, "artifacts.list", after=after)
    assert book.do("artifacts.list", after=oldest).data == []


def test_6_2_the_environment_filters_and_errors_still_apply(book: Book) -> None:
    book.publish(a="x")
    other = make_book(book.room)
    everything = ids_of(book)
    assert ids_of(book, environment_id="") == everything == ids_of(book, environment_id=book.found.environment)
    for wanted in ("env_", "x", "\x00", other.found.environment, ids.new("env", os.urandom, ids.stamp(1))):
        page = book.do("artifacts.list", environment_id=wanted).model_dump()
        assert page == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
        raises(400, "limit must be between 1 and 100", book, "artifacts.list", environment_id=wanted, limit=0)
        raises(400, "after is not a valid artifact ID", book, "artifacts.list", environment_id=wanted, after="art_x")


def test_11_6_a_missing_session_is_404_whatever_the_query(book: Book) -> None:
    book.publish(a="x")
    for given in ({"limit": 0}, {"after": "x"}, {"order": "up"}, {"limit": "many"}, {"environment_id": "x"}):
        raises(404, "Resource not found.", book, "artifacts.list", project="two", **given)
        raises(404, "Resource not found.", book, "artifacts.list", session_id="sess_nothing", **given)


def test_a_lost_answer_of_a_deletion_is_asked_for(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    book.publish(a="x", b="y")
    first, second = ids_of(book)
    real = book.state.inner.transact

    def lost(actions: Any) -> list[int]:
        real(actions)
        raise StoreUnavailable("no answer")

    def never(actions: Any) -> list[int]:
        raise StoreUnavailable("not sent")

    monkeypatch.setattr(book.state.inner, "transact", lost)
    delete(book, first)
    monkeypatch.setattr(book.state.inner, "transact", never)
    with pytest.raises(StoreUnavailable):
        book.do("artifacts.delete", artifact_id=second)
    monkeypatch.setattr(book.state.inner, "transact", real)
    assert ids_of(book) == [second]


def test_a_session_with_deletions_only_is_an_empty_page(book: Book) -> None:
    book.publish(a="x")
    delete(book, *ids_of(book))
    page = book.do("artifacts.list").model_dump()
    assert page == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert Session.of(book.found.head.attributes()).revision == 1
