"""The limits of issue 2, and what must hold between them (cases.md D22)."""

from __future__ import annotations

from dataclasses import fields

import pytest

from shared.limits import GIB, KIB, MIB, Limits
from shared.store.ports import MAX_ITEM_BYTES

LIMITS = Limits()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("code_bytes", MIB), ("args_bytes", 64 * KIB), ("stdout_bytes", MIB), ("stderr_bytes", MIB),
        ("run_ms", 30_000), ("run_ms_max", 300_000), ("memory_bytes", GIB), ("processes", 512),
        ("workspace_bytes", GIB), ("workspace_entries", 20_000), ("file_bytes", 256 * MIB),
        ("upload_bytes", 150 * MIB), ("batch_files", 200), ("path_bytes", 5_000), ("path_depth", 80),
        ("session_ms", 86_400_000), ("record_ms", 86_400_000), ("inline_item_bytes", 32 * KIB), ("lease_ms", 30_000),
        ("flood_bytes", 64 * MIB), ("small_file_bytes", MIB),
    ],
)  # fmt: skip
def test_the_limits_are_those_of_the_issue_and_the_design(name: str, value: int) -> None:
    assert getattr(LIMITS, name) == value


def test_D22_upload_file_and_workspace_hold_one_another() -> None:
    assert LIMITS.upload_bytes <= LIMITS.file_bytes <= LIMITS.workspace_bytes


def test_a_batch_fits_a_workspace_in_number() -> None:
    assert LIMITS.batch_files < LIMITS.workspace_entries


def test_what_is_inline_fits_where_it_goes() -> None:
    assert LIMITS.small_file_bytes <= LIMITS.inline_bytes
    assert LIMITS.typed_file_bytes <= LIMITS.upload_bytes
    assert LIMITS.typed_file_bytes * 4 / 3 <= LIMITS.body_bytes
    assert LIMITS.code_bytes + LIMITS.args_bytes <= LIMITS.body_bytes
    assert LIMITS.inline_item_bytes * 4 / 3 + 4 * KIB <= MAX_ITEM_BYTES
    # An asynchronous Lambda answer of 6 MB holds the inline pack in Base64 beside both streams.
    assert LIMITS.inline_bytes * 4 / 3 + LIMITS.stdout_bytes + LIMITS.stderr_bytes <= 6 * 10**6 + 2 * MIB


def test_K19_no_project_can_take_more_than_half_of_the_places() -> None:
    assert LIMITS.project_runs <= LIMITS.run_queue / 2


def test_a_stream_is_cut_before_it_is_a_flood() -> None:
    assert max(LIMITS.stdout_bytes, LIMITS.stderr_bytes) < LIMITS.flood_bytes


def test_times_hold_one_another() -> None:
    assert LIMITS.run_ms <= LIMITS.run_ms_max
    assert LIMITS.lease_ms < LIMITS.run_ms_max < LIMITS.lock_wait_ms
    assert LIMITS.grant_ms < LIMITS.record_ms
    assert LIMITS.queue_ms + LIMITS.run_ms_max + LIMITS.lock_wait_ms < LIMITS.record_ms
    assert LIMITS.run_ms_max + LIMITS.lock_wait_ms < LIMITS.session_ms


def test_the_artifact_limits_lie_below() -> None:
    # cases.md E8: 4,096 bytes of path and 64 segments are artifacts' limits.
    assert LIMITS.path_bytes > 4_097
    assert LIMITS.path_depth > 65
    assert LIMITS.path_bytes >= LIMITS.name_bytes
    assert LIMITS.names_bytes >= LIMITS.path_bytes + 4_096


def test_tmp_is_memory() -> None:
    assert LIMITS.tmp_bytes <= LIMITS.memory_bytes


def test_every_limit_is_positive_and_documented() -> None:
    for entry in fields(Limits):
        assert getattr(LIMITS, entry.name) > 0 or entry.name in ("answer_ms", "answer_bytes"), "where 0 is no bound"
        assert entry.metadata["unit"], entry.name
        assert entry.metadata["doc"], entry.name
