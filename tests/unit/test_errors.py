"""The table of errors: complete, unambiguous, and the body of exec.md A8.9."""

from __future__ import annotations

import re

import pytest

from shared.errors import Code, Failure, invalid

STATUSES = {
    "invalid_request": 400, "unauthorized": 401, "forbidden": 403, "not_found": 404, "method_not_allowed": 405,
    "busy": 409, "in_progress": 409, "already_exists": 409, "too_large": 413, "idempotency_conflict": 422,
    "rate_limited": 429, "cancelled": 499, "internal_error": 500, "unsupported_capability": 501,
    "executor_failed": 502, "executor_unavailable": 503, "store_unavailable": 503, "not_configured": 503,
    "executor_timeout": 504,
}  # fmt: skip


def test_the_table_is_exactly_this() -> None:
    assert {code.value.code: code.status for code in Code} == STATUSES


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_name_a_status_and_a_sentence(code: Code) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code.value.code)
    assert 400 <= code.status <= 599
    assert re.fullmatch(r"[A-Z].*\.", code.value.text)


@pytest.mark.parametrize("code", Code)
def test_a_body_is_error_and_message(code: Code) -> None:
    failure = Failure(code)
    body = failure.body()
    assert (body.pop("error"), body.pop("message")) == (code.value.code, code.value.text)
    assert body == ({"retry_after_seconds": 1} if code is Code.RATE_LIMITED else {})
    assert ("Retry-After" in failure.headers()) is (code is Code.RATE_LIMITED)


def test_429_says_when_in_body_and_header() -> None:
    failure = Failure(Code.RATE_LIMITED, retry_after=7)
    assert failure.body()["retry_after_seconds"] == 7
    assert failure.headers() == {"Retry-After": "7"}


def test_409_busy_says_when_in_the_header() -> None:
    failure = Failure(Code.BUSY, retry_after=1)
    assert failure.headers() == {"Retry-After": "1"}
    assert set(failure.body()) == {"error", "message"}


def test_a_refusal_names_the_field() -> None:
    failure = invalid("args[3]", "must not contain NUL")
    assert failure.code is Code.INVALID_REQUEST
    assert failure.message == "`args[3]` must not contain NUL"
    assert failure.field == "args[3]"


def test_what_clients_take_for_permanent_is_only_what_is() -> None:
    # exec.md A3: these codes make a client stop for good.
    permanent = {"unsupported_capability", "capability_mismatch", "execution_profile_mismatch"}
    assert permanent & set(STATUSES) == {"unsupported_capability"}
