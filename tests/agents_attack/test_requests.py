"""Requests that make a small body dear, or an answer of what was sent."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.operations.agents.requests.environment import read_environment
from tests.fakes import House


@pytest.mark.parametrize("call", ["c" * 257, "a\x00b", "a\nb", "é" * 129])
def test_a_call_id_that_may_not_be_repeated_is_not(house: House, call: str) -> None:
    refused = answered(house, call)
    assert refused.envelope()["error"]["message"] == "Unknown pending tool call."
    assert refused.envelope()["error"]["code"] == "invalid_request_error"


@pytest.mark.parametrize("call", ["call_x", "c" * 256])
def test_a_call_id_that_may_be_repeated_is(house: House, call: str) -> None:
    assert answered(house, call).envelope()["error"]["message"] == f"Unknown pending tool call: {call}"


def answered(house: House, call: str) -> Refusal:
    body = {"environment": {"type": "openai_hosted"}, "agent": {"model": "program:py"}}
    session = house.do("sessions.create", body).id
    event = {"type": "agent.session.input.tool_result", "turn_id": "turn_x", "call_id": call, "success": True}
    with pytest.raises(Refusal) as caught:
        house.do("events.create", {"session_id": session, "events": [event]})
    return caught.value


def inline(path: str) -> dict[str, Any]:
    return {"type": "inline", "data": "", "path": path}


def test_fifty_files_two_thousand_folders_deep_are_read_at_once() -> None:
    """They took five seconds of the processor: 200 KB, each parent's whole text made anew."""
    deep = "/workspace/" + "a/" * 2_030
    files = [inline(f"{deep}f{index}") for index in range(50)]
    calls = 0

    def count(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        read = read_environment({"type": "openai_hosted", "files": files})
    finally:
        sys.setprofile(None)
    assert len(read.files) == 50
    # One for each of the 101,550 components; each parent's text made anew was 307,000.
    assert calls < 150_000


@pytest.mark.parametrize(("paths", "wrong"), [(("a", "a/b"), 1), (("a/b/c", "a/b"), 0), (("x", "b/c", "b"), 1)])
def test_a_file_inside_another_is_refused(paths: tuple[str, ...], wrong: int) -> None:
    with pytest.raises(Refusal) as caught:
        read_environment({"type": "openai_hosted", "files": [inline(f"/workspace/{path}") for path in paths]})
    assert caught.value.message == f"environment.files[{wrong}].path must not be inside the path of another file"


def test_files_whose_names_begin_alike_stand_side_by_side() -> None:
    files = [inline("/workspace/a"), inline("/workspace/ab"), inline("/workspace/a-/b")]
    assert len(read_environment({"type": "openai_hosted", "files": files}).files) == 3
