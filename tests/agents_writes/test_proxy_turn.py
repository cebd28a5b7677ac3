"""One message Turn over HTTP, each of whose transactions loses its answers on the way to DynamoDB and S3.

It completes once: one run of its program, one terminal frame, one publication (agents.md 5.3, 5.4, 11.28).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.agents_door.listening import kinds, listening
from tests.agents_writes.remote import Remote, opened, session
from tests.agents_writes.road import spread
from tests.faults.proxy import CUT, DEAF, HALF, LOST, SILENT, Fault, dynamo, s3
from tests.wire.service import expect_eventually

THROTTLED = Fault(delivered=False, answer=dynamo("ThrottlingException"))
SLOW_DOWN = Fault(delivered=False, answer=s3("SlowDown", 503))
FAULTS = {"lost": LOST, "cut": CUT, "half": HALF, "throttled": THROTTLED, "silence": SILENT, "deaf": DEAF}
ADMITTED, CLAIMED, BEGUN, ENDED = "1", "2", "3", "4"
"""The transactions of a Turn of one program, in order."""
TERMINAL = {"turn.completed", "turn.failed", "turn.cancelled"}
SCRIPT: dict[str, Any] = {"stdout": "said", "write": {"outputs/made.txt": "made"}}


@pytest.fixture(scope="module")
def service() -> Iterator[Remote]:
    with opened() as one:
        yield one


@pytest.fixture
def remote(service: Remote) -> Iterator[Remote]:
    with session(service) as one:
        one.road.numbered = True
        yield one


def stored(remote: Remote) -> list[dict[str, Any]]:
    """All frames behind those of the Session's creation."""
    frames = remote.frames()
    return frames[kinds(frames).index("turn.created") :]


def expect_completed_once(remote: Remote, ran: int) -> None:
    """The Session's only Turn has completed, and everything of it is there once."""
    expect_eventually(lambda: remote.idle() and remote.page("/turns")["data"] != [], 30)
    (turn,) = remote.page("/turns")["data"]
    assert (turn["status"], turn["error"]) == ("completed", None)
    assert remote.executor.started == ran + 1
    frames = stored(remote)
    told = kinds(frames)
    assert [kind for kind in told if kind in TERMINAL] == ["turn.completed"]
    assert (told.count("turn.created"), told.count("turn.in_progress"), told.count("idle")) == (1, 1, 1)
    assert len({frame["event_id"] for frame in frames}) == len(frames)
    (artifact,) = remote.page("/artifacts")["data"]
    assert (artifact["path"], artifact["turn_id"]) == ("/workspace/outputs/made.txt", turn["id"])
    items = remote.page("/items?order=asc")["data"]
    assert [item["type"] for item in items] == ["message", "command_execution", "message"]
    assert {item["status"] for item in items} == {"completed"}
    assert remote.content("/workspace/outputs/made.txt") == b"made"
    assert remote.create("/workspace/next").status == 201


def expect_told_once(remote: Remote) -> None:
    """A stream that is open all the while tells the Turn once."""
    ran = remote.executor.started
    with listening(remote.api, remote.session) as stream:
        assert remote.say(**SCRIPT).status == 202
        heard = stream.until("idle")
    assert kinds(heard)[-2:] == ["turn.completed", "idle"]
    assert len({frame["event_id"] for frame in heard}) == len(heard)
    assert len([kind for kind in kinds(heard) if kind in TERMINAL]) == 1
    assert [frame["event_id"] for frame in heard] == [frame["event_id"] for frame in stored(remote)]
    expect_completed_once(remote, ran)


def test_these_are_the_transactions_of_a_turn(remote: Remote) -> None:
    expect_told_once(remote)
    assert [name for name in remote.road.order if name.isdigit()][:4] == [ADMITTED, CLAIMED, BEGUN, ENDED]


@pytest.mark.parametrize(("step", "name"), spread([ADMITTED, CLAIMED, BEGUN, ENDED, "put"], tuple(FAULTS)))
def test_one_fault_is_not_seen(remote: Remote, step: str, name: str) -> None:
    remote.road.plan(step, SLOW_DOWN if (step, name) == ("put", "throttled") else FAULTS[name])
    expect_told_once(remote)
    assert remote.road.left() == 0


@pytest.mark.parametrize(("step", "name"), spread([CLAIMED, BEGUN, ENDED], tuple(FAULTS)))
def test_a_transaction_that_the_adapter_gives_up(remote: Remote, step: str, name: str) -> None:
    remote.road.always(step, FAULTS[name])
    expect_told_once(remote)
    # The Turn's four, the one that was sent anew, and the three of the write behind it: whoever led the Turn is done.
    expect_eventually(lambda: remote.road.seen(step) > 1 and remote.road.distinct("numbered") >= 4 + 1 + 3)


@pytest.mark.parametrize("name", FAULTS)
def test_an_admission_that_the_adapter_gives_up_comes_once_under_its_key(remote: Remote, name: str) -> None:
    ran = remote.executor.started
    remote.road.always(ADMITTED, FAULTS[name])
    first = remote.say("key", **SCRIPT)
    happened = name in ("lost", "half", "silence")
    assert (first.status, first.code) == ((202, None) if happened else (503, "store_unavailable"))
    assert remote.road.seen(ADMITTED) > 1
    assert remote.say("key", **SCRIPT).status == 202
    expect_completed_once(remote, ran)
    assert remote.say("key", **SCRIPT).status == 202
    expect_completed_once_more(remote, ran)


def expect_completed_once_more(remote: Remote, ran: int) -> None:
    """The same admission again has made nothing."""
    assert len(remote.page("/turns")["data"]) == 1
    assert remote.executor.started == ran + 1
