"""An answer fits what the front door takes, as the door encodes it (DESIGN §6)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.api.answers import output_bytes
from shared.operations.exec_models import OutputFile, RunOutput, RunRecord
from shared.operations.fit import LEAST_BYTES, encoded, fitted, fitted_record
from tests.fakes import Desk, House

CUT = "workroom: output was cut: the answer would be too large; write it to a file\n"
LEFT_OUT = re.compile(r"\[(\d+) bytes of output left out\]\n")
SESSION = "S" * 21


def output(stdout: str = "", stderr: str = "", files: int = 0, deleted: int = 0, **more: Any) -> RunOutput:
    """An answer of a program that ended well."""
    made: dict[str, Any] = {"code": 0, "signal": None, "status": None, "message": None, "wall_time": 5}
    return RunOutput(
        session_id=SESSION,
        stdout=stdout,
        stderr=stderr,
        files=[
            OutputFile(
                id="F" * 21, name=f"f{n:05}", path=f"f{n:05}", storage_session_id=SESSION, session_id=SESSION, size=n,
                inherited=None,
            )
            for n in range(files)
        ],
        deleted_files=[f"d{n:05}" for n in range(deleted)],
        **{**made, **more},
    )  # fmt: skip


def size(model: Any) -> int:
    return len(output_bytes(model))


TEXTS = [
    "a" * 50_000,
    "\x00" * 9_000,
    '"\\' * 12_000,
    "é" * 20_000,
    "\U0001f600" * 9_000,
    "\ud800" * 9_000,
    "\n" * 30_000,
]


@pytest.mark.parametrize("text", TEXTS, ids=["ascii", "nul", "quotes", "latin", "emoji", "surrogate", "lines"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_an_answer_of_just_the_bound_is_whole_and_of_one_byte_more_is_cut(text: str, stream: str) -> None:
    whole = output().model_copy(update={stream: text})
    exact = size(whole)
    assert encoded(whole) == exact
    assert fitted(whole, exact) is whole
    cut = fitted(whole, exact - 1)
    assert size(cut) <= exact - 1
    assert cut.status == "OL"
    assert cut.stderr.endswith(CUT)
    assert LEFT_OUT.search(getattr(cut, stream))


@pytest.mark.parametrize("text", TEXTS, ids=["ascii", "nul", "quotes", "latin", "emoji", "surrogate", "lines"])
@pytest.mark.parametrize("most", [LEAST_BYTES, 5_001, 8_000, 20_000])
def test_it_fits_every_bound_and_wastes_little(text: str, most: int) -> None:
    whole = output(stdout=text, stderr=text)
    cut = fitted(whole, most)
    assert most - 700 <= size(cut) <= most
    assert fitted(whole, most) == cut


def test_no_bound_cuts_nothing() -> None:
    whole = output(stdout="x" * 10_000_000)
    assert fitted(whole, 0) is whole


def test_head_and_tail_are_kept_and_what_lies_between_is_counted() -> None:
    text = "".join(f"{n:06}\n" for n in range(5_000))
    cut = fitted(output(stdout=text), 10_000)
    head, count, tail = LEFT_OUT.split(cut.stdout)
    assert text.startswith(head.removesuffix("\n"))
    assert text.endswith(tail)
    assert abs(len(head) - len(tail)) <= 2
    kept = len(head.encode()) + len(tail.encode())
    assert int(count) in (len(text) - kept, len(text) - kept + 1)
    assert cut.stderr == CUT


def test_what_is_left_out_is_counted_in_bytes_of_the_output() -> None:
    cut = fitted(output(stdout="é" * 20_000), 10_000)
    head, count, tail = LEFT_OUT.split(cut.stdout)
    assert int(count) == 40_000 - len(head.removesuffix("\n").encode()) - len(tail.encode())


def test_an_output_that_needs_little_leaves_the_rest_to_the_other() -> None:
    cut = fitted(output(stdout="x" * 50_000, stderr="short\n"), 10_000)
    assert cut.stderr == "short\n" + CUT
    assert len(cut.stdout) > 8_500
    other = fitted(output(stdout="short", stderr="x" * 50_000), 10_000)
    assert other.stdout == "short"
    assert len(other.stderr) > 8_500
    both = fitted(output(stdout="x" * 50_000, stderr="y" * 50_000), 10_000)
    assert abs(len(both.stdout) - len(both.stderr)) < 300


def test_the_rest_of_the_answer_stays() -> None:
    whole = output(stdout="x" * 50_000, files=3, deleted=2, code=None, signal="SIGKILL", status="TO", message="m")
    cut = fitted(whole, 10_000)
    same = {"stdout": "", "stderr": "", "status": ""}
    assert cut.model_copy(update=same) == whole.model_copy(update=same)
    assert cut.status == "OL"


def test_lists_that_are_too_long_keep_their_beginning_and_stderr_says_where_to_look() -> None:
    whole = output(stdout="out", stderr="err", files=500, deleted=3_000)
    cut = fitted(whole, 20_000)
    assert size(cut) <= 20_000
    assert 0 < len(cut.files) < 500
    assert 0 < len(cut.deleted_files) < 3_000
    assert cut.files == whole.files[: len(cut.files)]
    assert cut.deleted_files == whole.deleted_files[: len(cut.deleted_files)]
    assert cut.stdout == "out"
    assert cut.stderr == (
        f"err\nworkroom: `files` has {len(cut.files)} of 500, `deleted_files` has {len(cut.deleted_files)} of 3000: "
        "list the session to see its files\n"
    )
    assert cut.status is None


def test_one_list_that_is_too_long_leaves_the_other_whole() -> None:
    cut = fitted(output(files=500, deleted=3), 20_000)
    assert (len(cut.files) < 500, len(cut.deleted_files)) == (True, 3)
    assert "deleted_files" not in cut.stderr
    cut = fitted(output(files=3, deleted=5_000), 20_000)
    assert (len(cut.files), len(cut.deleted_files) < 5_000) == (3, True)
    assert "`files`" not in cut.stderr


def test_long_lists_leave_outputs_a_quarter() -> None:
    cut = fitted(output(stdout="x" * 50_000, files=500, deleted=5_000), 20_000)
    assert size(cut) <= 20_000
    assert len(cut.stdout) > 4_000
    assert len(cut.files) > 20
    assert cut.status == "OL"
    assert cut.stderr.count("workroom: ") == 2


@pytest.mark.parametrize("most", [1, 100, LEAST_BYTES - 1])
def test_a_bound_that_is_too_small_is_the_least_one(most: int) -> None:
    assert fitted(output(stdout="x" * 50_000), most) == fitted(output(stdout="x" * 50_000), LEAST_BYTES)


@given(
    st.text(st.characters(codec=None), max_size=4_000),
    st.text(st.sampled_from('\0\n"\\é\U0001f600\udcffa'), max_size=4_000),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(LEAST_BYTES, 12_000),
)
def test_whatever_the_answer_is_it_fits(stdout: str, stderr: str, files: int, deleted: int, most: int) -> None:
    whole = output(stdout, stderr, files, deleted)
    assert encoded(whole) == size(whole)
    cut = fitted(whole, most)
    assert size(cut) <= most
    assert (cut is whole) == (size(whole) <= most)
    again = RunOutput.model_validate(whole.model_dump())
    assert fitted(again, most) == cut


def test_what_stands_around_an_answer_counts_too() -> None:
    whole = output(stdout="x" * 50_000)
    assert size(fitted(whole, 20_000, 9_000)) <= 11_000
    assert fitted(whole, size(whole) + 9_000, 9_000) is whole


def test_a_record_fits_as_a_whole() -> None:
    record = RunRecord(id="r" * 21, status="finished", result=output(stdout="\0" * 9_000))
    exact = size(record)
    assert fitted_record(record, exact) == record
    cut = fitted_record(record, exact - 1)
    assert size(cut) <= exact - 1
    assert cut.result is not None
    assert cut.result.status == "OL"
    for bare in (RunRecord(id="r", status="running"), RunRecord(id="r", status="failed", error={"error": "x"})):
        assert fitted_record(bare, 10) is bare


def script(desk: Desk) -> None:
    desk.stdout = "\x01" * 20_000
    desk.write("a", "1")


def test_a_run_answers_within_the_bound_and_commits_all_the_same(build: Callable[..., House]) -> None:
    house = build(answer_bytes=10_000)
    answer = house.run(script)
    assert size(answer) <= 10_000
    assert answer.status == "OL"
    assert house.names(answer.session_id) == ["a"]
    assert house.run().status is None


def test_a_stored_answer_is_cut_alike_and_is_kept_whole(build: Callable[..., House]) -> None:
    house = build(answer_bytes=10_000)
    first = house.run(script, code="x", idempotency_key="k")
    assert house.run(code="x", idempotency_key="k") == first
    house.room = replace(house.room, limits=replace(house.room.limits, answer_bytes=0))
    whole = house.run(code="x", idempotency_key="k")
    assert whole.stdout == "\x01" * 20_000
    assert len(house.executor.requests) == 1


def test_a_background_result_is_kept_whole_and_cut_where_it_is_read(build: Callable[..., House]) -> None:
    house = build(answer_bytes=10_000)
    house.executor.scripts["x"] = script
    run_id = house.do("exec.start", {"lang": "py", "code": "x"}).id
    house.room.background.shutdown(wait=True)
    record = house.do("runs.get", {"run_id": run_id})
    assert size(record) <= 10_000
    assert record.result.status == "OL"
    assert house.do("runs.get", {"run_id": run_id}) == record
    house.room = replace(house.room, limits=replace(house.room.limits, answer_bytes=0))
    assert house.do("runs.get", {"run_id": run_id}).result.stdout == "\x01" * 20_000
