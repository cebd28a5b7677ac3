"""Session heads in the states that the tests begin with."""

from __future__ import annotations

from dataclasses import replace

from shared.domain.agents.head import Call, Environment, EnvironmentStatus, Pending, Session
from shared.domain.agents.lifecycle import created
from shared.domain.agents.turning import claim, queue, start, take, wait
from shared.domain.session import Owner

NOW = 1_000_000
LEASE = 30_000
US = Owner("us", "1")
US_AGAIN = Owner("us", "2")
OTHER = Owner("other", "1")
ONE = Pending("batch_1", 1)
CALLS = (Call("call_a", "turn_1", "item_a"), Call("call_b", "turn_1", "item_b"))


def idle(status: EnvironmentStatus = "connected") -> Session:
    return replace(created("openai_hosted", NOW), environment=Environment("openai_hosted", status))


def queued(pending: Pending = ONE) -> Session:
    return queue(idle(), "turn_1", pending, NOW)


def claimed(owner: Owner = US, pending: Pending = ONE) -> Session:
    head = claim(queued(pending), "turn_1", owner, NOW, LEASE)
    assert head is not None
    return head


def running(owner: Owner = US) -> Session:
    """A Turn in progress under fence 1, its input materialised."""
    return start(take(claimed(owner), "turn_1", 1, 1), "turn_1", 1, NOW)


def steered(owner: Owner = US) -> Session:
    return replace(running(owner), pending=Pending("batch_2", 2))


def waiting() -> Session:
    return wait(running(), "turn_1", 1, CALLS, NOW)
