"""Publishing, deduplication, deletion and lists of Artifacts (agents.md 6, 11.26, 11.28; cases.md E9, C9)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shared.domain.agents import ids
from shared.domain.agents.cursors import page
from shared.domain.agents.lifecycle import created
from shared.domain.agents.publication import (
    Artifact,
    BadPublication,
    Publication,
    decide,
    newest,
    publish,
    removed,
    walk,
)
from shared.domain.agents.refusals import Refused
from shared.domain.manifest import Entry
from tests.unit.agents.trees import file


def published(sequence: int, *files: Entry) -> Publication:
    made = publish(
        files, sequence=sequence, turn=f"turn_{sequence}", environment="env_1", created=5_999, random=os.urandom
    )
    assert made is not None
    return made


def ids_of(*publications: Publication) -> list[str]:
    return [artifact.id for publication in publications for artifact in publication.artifacts]


def test_6_1_without_a_file_there_is_no_publication() -> None:
    assert publish([], sequence=1, turn="t", environment="e", created=0, random=os.urandom) is None


def test_11_26_ids_begin_with_the_turn_s_number_and_sort_the_record() -> None:
    made = published(7, *(file(f"outputs/{at}") for at in range(20)))
    assert ids_of(made) == sorted(ids_of(made))
    assert {ids.sequence_of(artifact, "art") for artifact in ids_of(made)} == {7}
    assert {(row.path, row.size, row.blob) for row in made.artifacts} == {
        (f"outputs/{at}", 1, "blob") for at in range(20)
    }
    assert made.blobs == {"blob"}


def test_6_2_the_eight_members_on_the_wire() -> None:
    made = published(7, file("outputs/ü b", "abc"))
    (found,) = walk([(made, ())])
    assert found.wire("sess_1") == {
        "id": made.artifacts[0].id, "object": "agent.session.artifact", "session_id": "sess_1", "turn_id": "turn_7",
        "environment_id": "env_1", "path": "/workspace/outputs/ü b", "size_bytes": 3, "created_at": 5,
    }  # fmt: skip


def test_C9_a_path_is_in_no_id() -> None:
    made = published(7, file("outputs/" + "n" * 1_500))
    assert len(made.artifacts[0].id) < 60


def test_E9_unchanged_deleted_and_changed_back() -> None:
    one, two = file("outputs/x", "A"), file("outputs/x", "B")
    first = published(1, one)

    def decided(now: Entry, *history: Publication, gone: tuple[str, ...] = ()) -> list[Entry]:
        return decide([now], newest(history[::-1], gone, {now.path}))

    assert decided(one, first) == []
    assert decided(one, first, gone=tuple(ids_of(first))) == [one]
    second = published(2, two)
    assert decided(two, first) == [two]
    assert decided(one, first, second) == [one], "A, B, A: the third differs from the newest"
    third = published(3, one)
    assert decided(one, first, second, third) == []
    assert decided(one, first, second, third, gone=tuple(ids_of(third))) == [one], "falls back to B"
    assert decided(two, first, second, third, gone=tuple(ids_of(third))) == []
    assert decided(one, first, second, third, gone=tuple(ids_of(second, third))) == []


def test_the_digest_decides_and_not_the_size_or_the_place() -> None:
    first = published(1, file("outputs/x", "A"))
    moved = file("outputs/x", "A")._replace(blob="elsewhere", offset=9, mtime_ns=5, mode=0o600)
    assert decide([moved], newest([first], (), {"outputs/x"})) == []
    other = file("outputs/y", "A")
    assert decide([other], newest([first], (), {"outputs/y"})) == [other]


def test_the_history_is_read_no_further_than_needed() -> None:
    read: list[int] = []

    def history() -> Iterator[Publication]:
        for sequence in (3, 2, 1):
            read.append(sequence)
            yield published(sequence, file("outputs/x"))

    assert newest(history(), (), {"outputs/x"}).keys() == {"outputs/x"}
    assert read == [3]
    assert newest(history(), (), ()) == {}
    assert read == [3]


def test_11_28_a_deletion_moves_the_revision() -> None:
    head = created("openai_hosted", 1)
    assert removed(head).revision == head.revision + 1
    with pytest.raises(Refused):
        removed(created("none", 1).__class__.of({**head.attributes(), "gone": True}))


def test_6_2_a_list_walks_both_ways_from_any_place_past_what_is_gone() -> None:
    history = [published(at, *(file(f"outputs/{name}") for name in "abc")) for at in (3, 9)]
    everything = ids_of(*history)
    gone = {everything[1], everything[3]}
    left = [one for one in everything if one not in gone]
    up = [(publication, gone) for publication in history]
    down = up[::-1]
    assert [found.artifact.id for found in walk(up, descending=False)] == left
    assert [found.artifact.id for found in walk(down)] == left[::-1]
    for at, cursor in enumerate(everything):
        begin = 0 if at < 3 else 1
        behind = [found.artifact.id for found in walk(up[begin:], after=cursor, descending=False)]
        assert behind == [one for one in left if one > cursor]
        before = [found.artifact.id for found in walk(down[0 if at >= 3 else 1 :], after=cursor)]
        assert before == [one for one in left[::-1] if one < cursor]


def test_11_28_one_row_is_looked_ahead_so_a_deleted_rest_is_no_more() -> None:
    made = published(1, *(file(f"outputs/{name}") for name in "abc"))
    rest = {made.artifacts[2].id}
    assert not page(walk([(made, rest)], descending=False), 2).has_more
    assert page(walk([(made, ())], descending=False), 2).has_more


@given(
    st.lists(
        st.builds(
            Artifact,
            st.text(max_size=5),
            st.text(max_size=9) | st.just("\udcff"),
            st.integers(0, 2**40),
            st.text(max_size=4),
            st.text(max_size=4),
            st.integers(0, 2**40),
        )
    )
)
def test_a_publication_is_read_as_it_was_written(artifacts: list[Artifact]) -> None:
    made = Publication(sequence=5, turn="t", environment="e", created=9, artifacts=tuple(artifacts))
    assert Publication.decode(made.encode()) == made
    assert all(made.find(artifact.id) is not None for artifact in artifacts)
    assert made.find("no such") is None


@pytest.mark.parametrize("data", [b"", b"x", published(1, file("a")).encode()[:-3]])
def test_what_is_no_publication_is_not_read(data: bytes) -> None:
    with pytest.raises(BadPublication):
        Publication.decode(data)


class Artifacts(RuleBasedStateMachine):
    """Turns that write and completions that publish, with deletions between, against a list of facts."""

    def __init__(self) -> None:
        super().__init__()
        self.workspace: dict[str, str] = {}
        self.history: list[Publication] = []
        self.gone: set[str] = set()
        self.facts: list[tuple[str, str, str]] = []
        """(id, path, content) of what remains, oldest first."""

    @rule(path=st.sampled_from("xy"), content=st.sampled_from("AB"))
    def write(self, path: str, content: str) -> None:
        self.workspace[path] = content

    @rule()
    def complete(self) -> None:
        files = [file(f"outputs/{path}", content) for path, content in sorted(self.workspace.items())]
        chosen = decide(files, newest(self.history[::-1], self.gone, [entry.path for entry in files]))
        expected = []
        for path, content in sorted(self.workspace.items()):
            remaining = [fact for fact in self.facts if fact[1] == path]
            if not remaining or remaining[-1][2] != content:
                expected.append(path)
        assert [entry.path.removeprefix("outputs/") for entry in chosen] == expected
        if chosen:
            made = published(len(self.history) + 1, *chosen)
            self.history.append(made)
            for artifact in made.artifacts:
                path = artifact.path.removeprefix("outputs/")
                self.facts.append((artifact.id, path, self.workspace[path]))

    @rule(at=st.integers(0, 9))
    def delete(self, at: int) -> None:
        if self.facts:
            self.gone.add(self.facts.pop(at % len(self.facts))[0])

    @invariant()
    def the_list_is_what_remains(self) -> None:
        found = walk([(publication, self.gone) for publication in self.history[::-1]])
        assert [one.artifact.id for one in found] == sorted((fact[0] for fact in self.facts), reverse=True)


TestArtifacts = Artifacts.TestCase
TestArtifacts.settings = settings(max_examples=60, stateful_step_count=20, deadline=None, database=None)
