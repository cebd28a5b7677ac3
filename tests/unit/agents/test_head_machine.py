"""The Session's head under whatever happens to it in any order: its invariants hold, and the fence decides."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shared.domain.agents import turning, writes
from shared.domain.agents.admission import Cancel, Event, Message, Result, admit
from shared.domain.agents.head import Call, Pending, Session, allot, seized, status
from shared.domain.agents.lifecycle import (
    Lifetimes,
    connected,
    created,
    deleted,
    due,
    expired,
    failed,
    provisioning,
)
from shared.domain.agents.publication import removed
from shared.domain.agents.refusals import Refused
from shared.domain.agents.turns import Outcome
from shared.domain.session import Fenced, Head, Owner, acquire, commit

OWNERS = (Owner("a", "1"), Owner("a", "2"), Owner("b", "1"))
LEASE = 1_000
LIFETIMES = Lifetimes(environment=50_000, waiting=8_000)
SHAPES = ["", "m", "m", "mm", "c", "cm", "mc", "r", "rm"]
VERBS = ["start", "next", "renew", "wait", "completed", "failed", "cancelled"]


class Heads(RuleBasedStateMachine):
    """One Session with its workspace; runners that hold what they once claimed; writers with their intents."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10_000
        self.head = created("openai_hosted", self.now)
        self.workspace = Head(created=0, used=0)
        self.claims: set[tuple[str, int]] = set()
        """What runners believe that they hold: (turn, fence)."""
        self.intents: dict[str, int] = {}
        self.over: set[str] = set()
        self.count = 0
        self.seen = self.head

    @initialize(prepared=st.integers(0, 3), said=st.booleans())
    def begin(self, prepared: int, said: bool) -> None:
        pending = Pending("batch", 1) if said else None
        self.head = created("openai_hosted", self.now, install=not prepared, turn="turn_0", pending=pending)
        self.seen = self.head

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def put(self, head: Session) -> None:
        before = self.head.active
        self.head = head
        if before is not None and (head.active is None or head.active.turn != before.turn):
            assert before.turn not in self.over, "a Turn ends once"
            self.over.add(before.turn)

    @rule(passed=st.sampled_from([-50, 0, 1, 10, 400, LEASE, 9_000, 60_000]))
    def time(self, passed: int) -> None:
        self.now += passed

    @rule(owner=st.sampled_from(OWNERS), shape=st.sampled_from(SHAPES), digest=st.sampled_from("xy"))
    def send(self, owner: Owner, shape: str, digest: str) -> None:
        call = self.head.calls[0] if self.head.calls else Call("none", "turn", "item")
        made: dict[str, Event] = {"m": Message(2), "c": Cancel(), "r": Result(call.turn, call.call, digest)}
        before = self.head
        events = [made[letter] for letter in shape]
        batch, turn = self.name("batch"), self.name("turn")
        try:
            done = admit(before, events, batch=batch, turn=turn, owner=owner, now=self.now)
        except Refused:
            return
        if "m" in shape:
            assert (before.write, before.pending) == (None, None)
        active = before.active
        if done.ended:
            assert active is not None
            assert active.turn == done.ended
            self.workspace = seized(self.workspace)
        if done.stop:
            assert active is not None
            assert active.lock is not None
            assert active.lock.owner == owner
        self.put(done.head)

    @rule(owner=st.sampled_from(OWNERS))
    def claim(self, owner: Owner) -> None:
        before = self.head.active
        if before is None:
            return
        taken = turning.claim(self.head, before.turn, owner, self.now, LEASE)
        if taken is None:
            return
        assert before.status != "in_progress", "a Turn is never run twice"
        self.workspace = acquire(self.workspace, owner, self.now, LEASE) or self.workspace
        self.put(taken)
        self.claims.add((before.turn, taken.fence))

    @rule(owner=st.sampled_from(OWNERS), verb=st.sampled_from(VERBS))
    def run(self, owner: Owner, verb: str) -> None:
        """A runner that gets as far as to do something with its Turn."""
        self.claim(owner)
        active = self.head.active
        if active is not None and (active.turn, active.fence) in self.claims:
            self.worked_by(active.turn, active.fence, "start")
            self.worked_by(active.turn, active.fence, verb)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), verb=st.sampled_from(VERBS))
    def late(self, data: st.DataObject, verb: str) -> None:
        """A runner that goes on, whatever happened meanwhile."""
        self.worked_by(*data.draw(st.sampled_from(sorted(self.claims))), verb)

    def worked_by(self, turn: str, fence: int, verb: str) -> None:
        active = self.head.active
        mine = active is not None and (active.turn, active.fence) == (turn, fence) and active.lock is not None
        try:
            head = self.worked(verb, turn, fence)
        except Fenced:
            assert not mine or self.head.gone, "a holder is fenced only after it lost its Turn"
            self.claims.discard((turn, fence))
            return
        except (turning.NotFinal, ValueError):
            assert mine, "only a holder is told more than that it is fenced"
            return
        assert mine
        self.put(head)

    def worked(self, verb: str, turn: str, fence: int) -> Session:
        head = self.head
        if verb in ("start", "next"):
            if head.pending is not None:
                head = turning.take(head, turn, fence, head.pending.count - head.pending.taken)
            return turning.start(head, turn, fence, self.now)
        if verb == "renew":
            return turning.renew(head, turn, fence, self.now, LEASE)
        if verb == "wait":
            calls = [Call(self.name("call"), turn, "item"), Call(self.name("call"), turn, "item")]
            return turning.wait(head, turn, fence, calls, self.now)
        if verb == "completed":
            done = turning.finish(head, turn, fence, "completed", self.now, revision=head.revision)
            assert head.pending is None
            assert head.active is not None
            assert not head.active.cancel
            return done
        outcome: Outcome = "failed" if verb == "failed" else "cancelled"
        return turning.finish(head, turn, fence, outcome, self.now, successor=self.name("turn"))

    @rule(owner=st.sampled_from(OWNERS))
    def see(self, owner: Owner) -> None:
        found = due(self.head, self.workspace, owner, self.now, LIFETIMES)
        active = self.head.active
        if found in ("lapsed", "waited_out"):
            assert active is not None
            self.put(turning.overtaken(self.head, active.turn, self.now, successor=self.name("turn")))
            self.workspace = seized(self.workspace)
        elif found == "expired":
            assert (active, self.head.pending, self.head.write) == (None, None, None)
            self.put(expired(self.head))
        elif found == "provision":
            self.put(provisioning(self.head))
        elif found == "provision_failed":
            self.put(failed(self.head, self.now))

    @precondition(lambda self: self.head.environment.status == "pending" and not self.head.gone)
    @rule(bad=st.integers(0, 4))
    def provisioned(self, bad: int) -> None:
        self.put(failed(self.head, self.now) if bad == 0 else connected(self.head, self.now))

    @rule(owner=st.sampled_from(OWNERS))
    def write(self, owner: Owner) -> None:
        try:
            writes.usable(self.head)
            writes.gate(self.head, writing=False)
        except Refused:
            return
        workspace = acquire(self.workspace, owner, self.now, LEASE)
        if workspace is None:
            return
        name = self.name("write")
        self.put(writes.begin(self.head, name, workspace.fence, self.now))
        self.workspace = workspace
        self.intents[name] = workspace.fence

    @precondition(lambda self: self.intents)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.intents)))
        try:
            self.workspace = commit(self.workspace, self.intents[name], self.now, inline=name, pointer="")
        except Fenced:
            return
        assert self.head.write is not None, "only an unsettled write is ever published"
        assert self.head.write.write == name

    @precondition(lambda self: self.intents)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """The attempt behind its receipt, or an operator, who fences first where there is none."""
        name = data.draw(st.sampled_from(sorted(self.intents)))
        after = writes.settle(self.head, name, self.now)
        if after is None:
            return
        if self.workspace.inline != name:
            self.workspace = seized(self.workspace)
        self.put(after)

    @rule(count=st.integers(0, 5))
    def number(self, count: int) -> None:
        got = allot(self.head, self.now, count)
        assert got.first == self.head.sequence + 1
        self.put(got.head)

    @rule()
    def delete_artifact(self) -> None:
        if not self.head.gone:
            self.put(removed(self.head))

    @rule(spared=st.integers(0, 15))
    def delete(self, spared: int) -> None:
        if spared:
            return
        try:
            gone = deleted(self.head)
        except Refused:
            return
        assert (self.head.active, self.head.pending) == (None, None)
        self.put(gone)
        self.workspace = replace(seized(self.workspace), gone=True)

    @invariant()
    def the_head_is_sound(self) -> None:
        head, active = self.head, self.head.active
        if head.write is not None:
            assert (active, head.pending) == (None, None)
        if head.pending is not None:
            assert active is not None
            assert head.pending.taken < head.pending.count
        if active is not None:
            assert active.turn not in self.over
            assert active.status != "in_progress" or active.lock is not None
            assert active.status != "queued" or head.pending is not None or active.lock is not None
            assert head.environment.status not in ("failed", "expired")
        if head.calls:
            assert active is not None
            assert active.status == "waiting"
        assert not (head.gone and (active or head.pending or head.write))
        assert Session.of(head.attributes()) == head
        if active is None and head.environment.status != "failed":
            assert status(head) == "idle"

    @invariant()
    def nothing_goes_back(self) -> None:
        before, head = self.seen, self.head
        assert head.sequence >= before.sequence
        assert head.clock >= before.clock
        assert head.fence >= before.fence
        assert head.revision >= before.revision
        assert head.used >= before.used
        assert head.gone or not before.gone
        order = {"pending": 0, "connected": 1, "failed": 2, "expired": 2, "disconnected": 0}
        assert order[head.environment.status] >= order[before.environment.status]
        self.seen = head


TestHeads = Heads.TestCase
TestHeads.settings = settings(max_examples=120, stateful_step_count=60, deadline=None, database=None)
