"""What a completed Turn publishes (agents.md 6.1, 11.28), against deletions, and how much it reads for that."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.operations.agents import places, publishing
from shared.operations.room import Publications
from shared.store.ports import Item, StoreUnavailable
from tests.agents_arts.made import Book, entry

MANY = 4_096


def many(text: str, *, first: int = 0) -> list[Any]:
    return [entry(f"d/{number:05}", text) for number in range(first, first + MANY)]


def newest(book: Book, name: str) -> str:
    """The id of the newest Artifact of a path."""
    rows = book.rows("artifacts.list", limit=100)
    return str(next(row.id for row in rows if row.path == f"/workspace/outputs/{name}"))


def test_6_1_unchanged_is_not_published_and_A_to_B_to_A_is_three(any_book: Book) -> None:
    book = any_book
    assert book.publish(f="A", g="same") == ["f", "g"]
    assert book.publish(f="A", g="same") == []
    assert book.publish(f="B", g="same") == ["f"]
    assert book.publish(f="A", g="same") == ["f"]
    assert sorted(book.artifacts()) == ["f", "f", "f", "g"]


def test_6_1_after_a_deletion_the_older_one_counts(any_book: Book) -> None:
    book = any_book
    book.publish(f="A")
    book.publish(f="B")
    book.do("artifacts.delete", artifact_id=newest(book, "f"))
    assert book.publish(f="A") == []
    assert book.publish(f="B") == ["f"]
    for _ in range(2):
        book.do("artifacts.delete", artifact_id=newest(book, "f"))
    assert book.artifacts() == []
    assert book.publish(f="A") == ["f"]


def test_a_turn_without_files_publishes_nothing_and_reads_nothing(book: Book) -> None:
    turn = book.begin()
    book.forget()
    assert book.complete(turn, []) == []
    assert book.state.asked(places.PUBLICATIONS) == 0
    assert book.do("artifacts.list").data == []


def test_11_28_no_reader_sees_a_completed_turn_without_its_artifacts(book: Book) -> None:
    turn = book.begin()
    assert book.do("artifacts.list").data == []
    assert book.do("turns.get", turn_id=turn.id).status == "in_progress"
    book.complete(turn, [entry("a"), entry("b")])
    assert book.do("turns.get", turn_id=turn.id).status == "completed"
    assert {row.turn_id for row in book.do("artifacts.list").data} == {turn.id}
    assert len(book.do("artifacts.list").data) == 2


@pytest.mark.parametrize("first", ["deletion", "completion"])
def test_6_1_a_deletion_races_a_completion(book: Book, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """Both have decided before either writes; whichever swaps the head second decides again on what won."""
    book.publish(f="A")
    ident = newest(book, "f")
    turn = book.begin()
    real = book.state.inner.transact
    both = threading.Barrier(2, timeout=10)
    done = threading.Event()
    tries: dict[str, int] = {"deletion": 0, "completion": 0}

    def ordered(actions: Any) -> list[int]:
        name = threading.current_thread().name
        tries[name] += 1
        if tries[name] > 1:
            return real(actions)
        both.wait()
        if name != first:
            assert done.wait(10)
            return real(actions)
        try:
            return real(actions)
        finally:
            done.set()

    monkeypatch.setattr(book.state.inner, "transact", ordered)
    made: dict[str, Any] = {}
    threads = [
        threading.Thread(
            name="deletion", target=lambda: made.update(deletion=book.do("artifacts.delete", artifact_id=ident))
        ),
        threading.Thread(
            name="completion", target=lambda: made.update(completion=book.complete(turn, [entry("f", "A")]))
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    monkeypatch.setattr(book.state.inner, "transact", real)
    assert made["deletion"].id == ident
    # Who comes second tries twice. A completion that saw the deletion publishes again, one before it does not.
    assert tries == {first: 1, ({"deletion", "completion"} - {first}).pop(): 2}
    assert made["completion"] == (["f"] if first == "deletion" else [])
    assert book.artifacts() == (["f"] if first == "deletion" else [])
    assert book.do("turns.get", turn_id=turn.id).status == "completed"


def test_two_deletions_of_one_artifact_end_with_one_404(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    book.publish(f="A")
    ident = newest(book, "f")
    real = book.state.inner.transact
    both = threading.Barrier(2, timeout=10)
    waited: set[str] = set()

    def together(actions: Any) -> list[int]:
        name = threading.current_thread().name
        if name not in waited:
            waited.add(name)
            both.wait()
        return real(actions)

    monkeypatch.setattr(book.state.inner, "transact", together)
    ends: list[int] = []

    def run() -> None:
        try:
            book.do("artifacts.delete", artifact_id=ident)
            ends.append(200)
        except Refusal as refusal:
            ends.append(refusal.status)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(ends) == [200, 404]
    assert book.found.head.revision == 1


def test_a_publication_of_4096_files_is_one_object_and_one_row(any_book: Book) -> None:
    book = any_book
    assert len(book.complete(book.begin(), many("x"))) == MANY
    book.forget()
    row = book.do("artifacts.list", limit=100)
    assert (len(row.data), row.has_more) == (100, True)
    assert len(book.objects.reads) == 1
    assert len(book.state.calls) <= 6
    assert book.state.asked(places.REMOVED) == 0
    book.do("artifacts.list", limit=100, after=row.last_id)
    assert len(book.objects.reads) == 1, "what never changes is not read twice"


def test_a_new_path_opens_none_of_the_former_objects_and_a_known_one_its_own(book: Book) -> None:
    for turn in range(21):
        book.room.state.transact([_publication(book, turn, first=turn * MANY)])
    book.forget()
    assert publishing.decide(book.room, book.found, [entry("new", "x")]) == [entry("new", "x")]
    assert book.objects.reads == []
    assert book.state.asked(places.PUBLICATIONS) == 2
    assert publishing.decide(book.room, book.found, [entry(f"d/{3 * MANY:05}", "x")]) == []
    assert len(book.objects.reads) == 1


def test_the_newest_publication_that_has_all_paths_is_the_only_one_that_is_read(book: Book) -> None:
    for turn in range(8):
        book.room.state.transact([_publication(book, turn, text=str(turn))])
    book.forget()
    assert publishing.decide(book.room, book.found, many("7")) == []
    assert (len(book.objects.reads), book.state.asked(places.PUBLICATIONS)) == (1, 1)
    assert len(publishing.decide(book.room, book.found, many("6"))) == MANY


def _publication(book: Book, turn: int, text: str = "x", *, first: int = 0) -> Any:
    made = publishing.record(
        book.room, book.found, 100 + turn, f"turn_{turn}", book.found.environment, 1, many(text, first=first)
    )
    assert made is not None
    assert made.attributes["pointer"]
    return made


def test_a_list_opens_no_publication_behind_its_page(book: Book) -> None:
    for turn in range(3):
        book.room.state.transact([_publication(book, turn)])
    for order in ("asc", "desc"):
        book.forget()
        page = book.do("artifacts.list", limit=100, order=order)
        assert len(page.data) == 100
        assert len(book.objects.reads) == 1


def test_tombstones_are_walked_once_and_not_asked_for_publication_by_publication(book: Book) -> None:
    for turn in range(60):
        book.publish(f=str(turn))
    rising = [row.id for row in book.rows("artifacts.list", order="asc", limit=100)]
    for ident in rising[1:-1]:
        book.do("artifacts.delete", artifact_id=ident)
    for order, whole in (("asc", [rising[0], rising[-1]]), ("desc", [rising[-1], rising[0]])):
        book.forget()
        page = book.do("artifacts.list", order=order, limit=2)
        assert ([row.id for row in page.data], page.has_more) == (whole, False)
        assert book.state.asked(places.REMOVED) == 1
        assert book.state.asked(places.PUBLICATIONS) == 4


def test_more_tombstones_of_one_publication_than_one_query_gives(book: Book) -> None:
    book.complete(book.begin(), many("x"))
    rows = [row.id for row in book.rows("artifacts.list", limit=100)]
    for ident in rows[:600]:
        book.do("artifacts.delete", artifact_id=ident)
    assert [row.id for row in book.rows("artifacts.list", limit=100)] == rows[600:]
    assert len(book.complete(book.begin(), many("x"))) == 600


@pytest.mark.parametrize("broken", [{"inline": "", "pointer": "p/one/s/none/there"}, {"inline": "AAAA", "pointer": ""}])
def test_a_lost_publication_is_an_unavailable_store_and_never_an_empty_one(book: Book, broken: dict[str, str]) -> None:
    item = Item(book.found.partition, places.publication(1), 1, {"created": 1, **broken})
    with pytest.raises(StoreUnavailable):
        publishing.load(book.room, item)


def test_the_cache_is_bounded_by_artifacts_and_long_paths_count_more(book: Book) -> None:
    held = Publications(MANY + 10)
    book.room = replace(book.room, publications=held)
    first, second = _publication(book, 1), _publication(book, 2)
    assert held.get(first.attributes["pointer"]) is None
    assert held.get(second.attributes["pointer"]) is not None
    long = publishing.record(
        book.room, book.found, 3, "turn_3", "env_x", 1, [entry(f"{number}/" + "n" * 4_000) for number in range(300)]
    )
    assert long is not None
    assert held.get(long.attributes["inline"] or long.attributes["pointer"]) is None
