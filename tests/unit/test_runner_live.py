"""Output that is sent while it comes: few frames, whole characters, no more than the answer holds; waiting in turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_image.runner.live import FRAME, Live
from sandbox_image.runner.output import Stream
from shared.executor.live import PENDING_CHARS, Pending
from shared.executor.wire import ENV_BYTES, RunRequest, WireError
from tests.unit.runner_trees import limits


class Sent:
    """A `Live` with a clock that the test moves."""

    def __init__(self, cap: int) -> None:
        self.now = 100.0
        self.frames: list[tuple[str, str]] = []
        self.live = Live(lambda stream, text: self.frames.append((stream, text)), lambda: self.now)
        self.out = Stream(cap, self.live.stream("stdout", cap))
        self.err = Stream(cap, self.live.stream("stderr", cap))

    def text(self, stream: str) -> str:
        """All that was sent of a stream."""
        return "".join(text for name, text in self.frames if name == stream)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 300))
def test_what_was_sent_is_the_beginning_of_the_answers_text(pieces: list[bytes], cap: int) -> None:
    sent = Sent(cap)
    for piece in pieces:
        sent.out.feed(piece)
        sent.now += 0.03
        sent.live.flush()
    sent.live.end()
    data = b"".join(pieces)
    assert data[:cap].decode("utf-8", "replace").startswith(sent.text("stdout"))
    if len(data) < cap:
        assert sent.text("stdout") == sent.out.text()


@given(st.text(alphabet="aé報🤣", min_size=1, max_size=60))
def test_no_character_is_split_between_frames(text: str) -> None:
    sent = Sent(1_000)
    for byte in text.encode():
        sent.out.feed(bytes([byte]))
        sent.now += 1
    sent.live.end()
    assert sent.text("stdout") == text
    assert all("\ufffd" not in piece for _, piece in sent.frames)


def test_small_pieces_share_a_frame_every_50_ms() -> None:
    sent = Sent(1_000_000)
    for _ in range(100):
        sent.out.feed(b"x")
        sent.now += 0.001
        sent.live.flush()
    assert 2 <= len(sent.frames) <= 3
    sent.out.feed(b"x")
    assert sent.live.due is not None
    assert sent.live.due <= sent.now + 0.05
    sent.now += 0.05
    sent.live.flush()
    assert sent.text("stdout") == "x" * 101
    assert sent.live.due is None


def test_a_frame_holds_16_KiB() -> None:
    sent = Sent(1_000_000)
    sent.out.feed(b"x" * 100_000)
    sent.live.end()
    assert max(len(text) for _, text in sent.frames) == FRAME == 16_384
    assert sent.text("stdout") == "x" * 100_000


def test_streams_are_bounded_apart() -> None:
    sent = Sent(10)
    sent.out.feed(b"o" * 100)
    sent.err.feed(b"e" * 9)
    sent.out.feed(b"o" * 100)
    sent.live.end()
    assert (sent.text("stdout"), sent.text("stderr")) == ("o" * 10, "e" * 9)


def test_a_slow_taker_misses_the_rest_and_holds_nobody_up() -> None:
    pending = Pending(limits(stdout_bytes=10 * PENDING_CHARS))
    frame = {"stream": "stdout", "data": "x" * 16_384}
    for _ in range(100):
        pending.put(frame)
    heard: list[str] = []
    pending.give(lambda stream, text: heard.append(text))
    pending.put(frame)
    pending.give(lambda stream, text: heard.append(text))
    assert sum(map(len, heard)) == PENDING_CHARS


def test_a_taker_that_keeps_up_hears_all() -> None:
    pending = Pending(limits(stdout_bytes=10 * PENDING_CHARS))
    heard: list[str] = []
    for _ in range(100):
        pending.put({"stream": "stdout", "data": "x" * 16_384})
        pending.give(lambda stream, text: heard.append(text))
    assert sum(map(len, heard)) == 100 * 16_384


@pytest.mark.parametrize(
    "env",
    [{"": "x"}, {"1A": "x"}, {"A-B": "x"}, {"A=B": "x"}, {"É": "x"}, {"A\n": "x"}, {"A": "x\0y"}, {"A": "\udcff"},
     {"A": "x" * ENV_BYTES}, {"A": 1}, ["A"], None],
)  # fmt: skip
def test_what_is_no_variable_is_refused_without_being_told(env: object) -> None:
    data = RunRequest(run_id="r", workspace="w", lang="py", code="", args=(), limits=limits()).to_json()
    with pytest.raises(WireError) as refused:
        RunRequest.of(data | {"env": env})
    assert "x\0y" not in str(refused.value)


def test_variables_travel_and_stay_out_of_what_is_printed() -> None:
    env = {"_a": "", "PATH": "π=\n'$(id)'", "B9": "x"}
    request = RunRequest(run_id="r", workspace="w", lang="py", code="", args=(), limits=limits(), env=env, live=True)
    again = RunRequest.of(request.to_json())
    assert again == request
    assert "$(id)" not in repr(again)


def test_a_request_may_be_without_variables_and_live() -> None:
    data = RunRequest(run_id="r", workspace="w", lang="py", code="", args=(), limits=limits()).to_json()
    del data["env"], data["live"]
    assert (RunRequest.of(data).env, RunRequest.of(data).live) == ({}, False)
