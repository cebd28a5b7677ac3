"""The states of a Turn and its shape on the wire (agents.md 5.4, 11.1)."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.agents.turns import (
    BadTransition,
    ErrorCode,
    Outcome,
    Turn,
    TurnError,
    TurnStatus,
    ended,
    moved,
    undone,
)

ALLOWED = {
    ("queued", "in_progress"), ("queued", "cancelled"),
    ("in_progress", "completed"), ("in_progress", "failed"), ("in_progress", "cancelled"), ("in_progress", "waiting"),
    ("waiting", "in_progress"), ("waiting", "failed"), ("waiting", "cancelled"),
}  # fmt: skip
STATUSES: tuple[TurnStatus, ...] = get_args(TurnStatus)
WHY = TurnError("internal_error", "The execution could not complete.")


def turn(status: TurnStatus = "queued") -> Turn:
    return Turn(id="turn_1", sequence=1, created=1_000, status=status)


@pytest.mark.parametrize(("before", "after"), list(product(STATUSES, STATUSES)))
def test_5_4_every_pair_of_states(before: TurnStatus, after: TurnStatus) -> None:
    if (before, after) in ALLOWED:
        assert moved(turn(before), after, 5).status == after
    else:
        with pytest.raises(BadTransition):
            moved(turn(before), after, 5)


def test_5_4_the_times_of_a_turn_that_waited() -> None:
    began = moved(turn(), "in_progress", 2_500)
    again = moved(moved(began, "waiting", 3_000), "in_progress", 4_000)
    over = ended(again, "completed", 9_999)
    assert (over.started, over.ended) == (2_500, 9_999)
    assert (again.started, again.ended) == (2_500, None)


@pytest.mark.parametrize(("outcome", "error"), [("completed", WHY), ("cancelled", WHY), ("failed", None)])
def test_5_4_only_a_failed_turn_has_an_error_and_always_one(outcome: Outcome, error: TurnError | None) -> None:
    with pytest.raises(ValueError, match="error"):
        ended(turn("in_progress"), outcome, 5, error=error)


def test_5_4_the_wire_of_a_queued_turn() -> None:
    assert Turn(id="turn_1", sequence=1, created=1_999).wire("sess_1", "agent_1") == {
        "id": "turn_1", "object": "agent.session.turn", "session_id": "sess_1", "agent_id": "agent_1",
        "status": "queued", "created_at": 1, "started_at": None, "completed_at": None, "error": None, "usage": None,
        "subagent_id": None,
    }  # fmt: skip


def test_11_1_the_wire_of_a_turn_whose_capture_failed() -> None:
    why = TurnError("artifact_capture_failed", "outputs is not a directory.")
    wire = ended(turn("in_progress"), "failed", 7_000, error=why, usage={"total_tokens": 3}).wire("s", "a")
    assert wire["error"] == {"code": "artifact_capture_failed", "message": "outputs is not a directory."}
    assert (wire["status"], wire["completed_at"], wire["usage"]) == ("failed", 7, {"total_tokens": 3})


def test_a_queued_turn_whose_environment_failed_comes_through_in_progress() -> None:
    over = undone(turn(), WHY, 8_000)
    assert (over.status, over.started, over.ended) == ("failed", 8_000, 8_000)


def test_11_1_every_code_but_one_is_the_sdk_s() -> None:
    sdk = pytest.importorskip("openai.types.beta.session_turn_error")
    known = set(get_args(sdk.SessionTurnError.model_fields["code"].annotation))
    assert set(get_args(ErrorCode)) - known == {"artifact_capture_failed"}


@given(
    st.builds(
        Turn,
        id=st.text(max_size=5),
        sequence=st.integers(0, 2**40),
        created=st.integers(0, 2**45),
        status=st.sampled_from(STATUSES),
        started=st.none() | st.integers(0, 2**45),
        ended=st.none() | st.integers(0, 2**45),
        error=st.none() | st.just(WHY),
        usage=st.none() | st.dictionaries(st.text(max_size=3), st.integers()),
    )
)
def test_a_turn_is_read_as_it_was_written(made: Turn) -> None:
    assert Turn.of(made.attributes()) == made
