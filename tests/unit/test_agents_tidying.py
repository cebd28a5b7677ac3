"""The janitor and the Sessions of agents: what is due is done, what is deleted goes, what is named stays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from shared.agents_errors import Refusal
from shared.operations import names
from shared.operations.agents import places
from shared.operations.agents.work import work
from shared.operations.janitor import sweep
from shared.operations.keys import put_key
from shared.operations.room import Room
from shared.operations.workspace import grace_ms
from shared.store.ports import ObjectInfo, StoreUnavailable
from tests.fakes import Desk, House

HOSTED = {"type": "openai_hosted"}
LARGE = 40_000
"""Bytes of a text that does not lie in an item."""


@dataclass
class Queue:
    """A queue that keeps what it is sent: a Session's work is done when a test says so."""

    sent: list[dict[str, str]] = field(default_factory=list)

    def send(self, message: Mapping[str, str]) -> None:
        self.sent.append(dict(message))


class Sessions:
    """A house whose Sessions have their work done by the test itself."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.queue = Queue()
        house.room = replace(house.room, queue=self.queue)
        put_key(house.room, "one", {"id": "one", "project": "one", "name": "", "created": 0, "until": None})

    @property
    def room(self) -> Room:
        return self.house.room

    def make(self, *scripts: Callable[[Desk], None], **more: Any) -> str:
        """A Session with a Turn for each script, one after the other."""
        agent = {"agent": {"model": "program:py"}}
        session = str(self.house.do("sessions.create", {"environment": HOSTED, **agent, **more}).id)
        for script in scripts:
            self.turn(session, script)
        return session

    def say(self, session: str, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        message = {"type": "agent.session.input.message", "input": [{"role": "user", "content": content}]}
        self.house.do("events.create", {"session_id": session, "events": [message]})

    def turn(self, session: str, script: Callable[[Desk], None], text: str = "") -> None:
        """A Turn, run to its end."""
        code = f"program {len(self.house.executor.scripts)}{text}"
        self.house.executor.scripts[code] = script
        self.say(session, code)
        work(self.room, "one", session)

    def status(self, session: str) -> str:
        (newest, *_) = self.house.do("turns.list", {"session_id": session}).data
        return str(newest.status)

    def artifacts(self, session: str) -> dict[str, str]:
        """Ids by path."""
        rows = self.house.do("artifacts.list", {"session_id": session}).data
        return {row.path: row.id for row in rows}

    def delete(self, session: str, artifact: str) -> None:
        self.house.do("artifacts.delete", {"session_id": session, "artifact_id": artifact})

    def bytes_of(self, session: str, artifact: str) -> bytes:
        from shared.operations.agents.artifacts import open_artifact  # noqa: PLC0415

        found = open_artifact(self.room, "one", session, artifact)
        return b"".join(self.room.objects.read(found.blob, found.offset, found.size))

    def keys(self, session: str) -> list[str]:
        return [info.key for info in self.room.objects.list(names.session("one", session) + "/")]

    def rows(self, session: str) -> list[Any]:
        return self.room.state.query(names.session("one", session))

    def later(self) -> None:
        """So late that nothing is too young to go."""
        self.house.objects.see()
        self.house.clock.forward(grace_ms(self.room))


@pytest.fixture
def sessions(house: House) -> Sessions:
    return Sessions(house)


def publish(name: str, content: str) -> Callable[[Desk], None]:
    return lambda desk: desk.write(f"outputs/{name}", content)


def test_an_expired_environment_is_told_of_without_a_reader(sessions: Sessions) -> None:
    session = sessions.make(publish("a", "one"))
    sessions.house.clock.forward(sessions.room.limits.environment_ms - 1)
    sweep(sessions.room)
    head = sessions.room.state.get(names.session("one", session), places.HEAD)
    assert head is not None
    assert head.attributes["environment"][1] == "connected"
    sessions.house.clock.forward(1)
    sweep(sessions.room)
    head = sessions.room.state.get(names.session("one", session), places.HEAD)
    assert head is not None
    assert head.attributes["environment"][1] == "expired"


def test_a_queued_turn_is_dispatched_and_only_where_there_are_workers(sessions: Sessions) -> None:
    session = sessions.make()
    sessions.say(session, "program x")
    sessions.queue.sent.clear()
    sweep(sessions.room, workers=False)
    assert sessions.queue.sent == []
    sweep(sessions.room)
    assert sessions.queue.sent == [{"project": "one", "session": session}]


def test_what_a_crash_left_is_ended_by_the_first_sweep_of_the_next_service(sessions: Sessions) -> None:
    class Killed(BaseException):
        pass

    def die(desk: Desk) -> None:
        raise Killed

    session = sessions.make()
    with pytest.raises(Killed):
        sessions.turn(session, die)
    assert sessions.status(session) == "in_progress"
    again = sessions.house.again()
    try:
        sweep(again.room)
    finally:
        again.state.inner.close()  # type: ignore[attr-defined]
    assert sessions.status(session) == "failed"


def test_a_session_that_cannot_be_read_keeps_no_other_from_being_seen(sessions: Sessions) -> None:
    broken = sessions.make(metadata={"a": "b"}, agent={"model": "program:py", "instructions": "x" * LARGE})
    fine = sessions.make()
    sessions.say(broken, "program x")
    config = sessions.room.state.get(names.session("one", broken), places.CONFIG)
    assert config is not None
    sessions.room.objects.delete(config.attributes["pointer"])
    sessions.house.clock.forward(sessions.room.limits.environment_ms)
    sweep(sessions.room)
    head = sessions.room.state.get(names.session("one", fine), places.HEAD)
    assert head is not None
    assert head.attributes["environment"][1] == "expired"


STEPS = ("delete_prefix", "delete_partition", "transact")


class Dies:
    """A port whose every verb works but one, which raises once, before or behind its effect."""

    def __init__(self, inner: Any, verb: str, *, behind: bool) -> None:
        self._inner, self._verb, self._behind = inner, verb, behind

    def __getattr__(self, name: str) -> Any:
        code = getattr(self._inner, name)
        if name != self._verb:
            return code

        def cut(*given: Any, **more: Any) -> Any:
            if self._behind:
                code(*given, **more)
            raise StoreUnavailable("cut")

        return cut


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("verb", STEPS)
def test_a_deleted_session_is_gone_at_once_and_whole_wherever_the_janitor_is_cut(
    sessions: Sessions, verb: str, behind: bool
) -> None:
    session = sessions.make(input="y" * LARGE)
    work(sessions.room, "one", session)
    sessions.turn(session, publish("a", "x" * LARGE))
    other = sessions.make(publish("a", "kept"))
    kept = sessions.keys(other)
    assert sessions.keys(session)
    sessions.house.do("sessions.delete", {"session_id": session})
    room = sessions.room
    cut = (
        replace(room, objects=Dies(room.objects, verb, behind=behind))
        if verb == "delete_prefix"
        else replace(room, state=Dies(room.state, verb, behind=behind))
    )
    with pytest.raises(StoreUnavailable):
        sweep(cut)
    with pytest.raises(Refusal):
        sessions.house.do("sessions.get", {"session_id": session})
    sweep(room)
    assert (sessions.keys(session), sessions.rows(session)) == ([], [])
    tombstone = room.state.get("p/one", places.DELETED + session)
    assert tombstone is not None
    assert tombstone.attributes["swept"] is True
    assert sessions.house.do("sessions.delete", {"session_id": session}).deleted is True
    assert sweep(room).sessions == 0
    assert sessions.keys(other) == kept


def test_a_tombstone_is_kept_for_thirty_days_and_not_longer(sessions: Sessions) -> None:
    session = sessions.make()
    sessions.house.do("sessions.delete", {"session_id": session})
    sweep(sessions.room)
    sessions.house.clock.forward(29 * 86_400_000)
    sweep(sessions.room)
    assert sessions.room.state.get("p/one", places.DELETED + session) is not None
    sessions.house.clock.forward(86_400_000 + 1_000)
    sweep(sessions.room)
    assert sessions.room.state.get("p/one", places.DELETED + session) is None


def test_the_bytes_of_an_artifact_outlive_its_file_its_environment_and_other_artifacts(sessions: Sessions) -> None:
    def replaced(desk: Desk) -> None:
        desk.remove("outputs/a")
        desk.write("outputs/b", "second")

    session = sessions.make(publish("a", "first"), replaced)
    first, second = (sessions.artifacts(session)[f"/workspace/outputs/{name}"] for name in "ab")
    changes: list[Callable[[], None]] = [
        lambda: None,
        lambda: sessions.house.clock.forward(sessions.room.limits.environment_ms),
        lambda: sessions.delete(session, second),
    ]
    for change in changes:
        change()
        sessions.later()
        sweep(sessions.room)
        sessions.later()
        sweep(sessions.room)
        assert sessions.bytes_of(session, first) == b"first"
    sessions.delete(session, first)
    sessions.later()
    sweep(sessions.room)
    assert sessions.keys(session) == []


def test_what_the_workspace_or_a_large_row_names_stays(sessions: Sessions) -> None:
    session = sessions.make(
        lambda desk: desk.write("kept", "bytes"),
        agent={"model": "program:py", "instructions": "x" * LARGE},
    )
    sessions.turn(session, publish("a", "file"), "#" * LARGE)
    sessions.later()
    sweep(sessions.room)
    assert sessions.house.do("sessions.get", {"session_id": session}).agent["instructions"] == "x" * LARGE
    texts = [str(item) for item in sessions.house.do("items.list", {"session_id": session}).data]
    assert any("#" * LARGE in text for text in texts)
    (artifact,) = sessions.artifacts(session).values()
    assert sessions.bytes_of(session, artifact) == b"file"
    sessions.turn(session, lambda desk: desk.write("copy", desk.read("kept")))


def orphan(sessions: Sessions, session: str) -> str:
    key = f"{names.session('one', session)}/{'o' * 21}"
    sessions.room.objects.put_new(key, b"orphan", hashlib.sha256(b"orphan").hexdigest())
    return key


def test_an_orphan_goes_when_it_is_old_and_not_before(sessions: Sessions) -> None:
    session = sessions.make(publish("a", "first"))
    key = orphan(sessions, session)
    sessions.house.objects.see()
    sessions.house.clock.forward(grace_ms(sessions.room) - 1)
    sweep(sessions.room)
    assert key in sessions.keys(session)
    sessions.house.clock.forward(1)
    sweep(sessions.room)
    assert key not in sessions.keys(session)
    assert len(sessions.keys(session)) == 1


def test_nothing_goes_while_a_turn_is_active(sessions: Sessions) -> None:
    session = sessions.make()
    key = orphan(sessions, session)
    sessions.say(session, "program x")
    sessions.later()
    sweep(sessions.room)
    assert key in sessions.keys(session)


def test_nothing_goes_while_an_environment_is_prepared(sessions: Sessions) -> None:
    session = sessions.make(environment={**HOSTED, "setup_commands": [{"command": "true"}]})
    key = orphan(sessions, session)
    sessions.later()
    sweep(sessions.room)
    assert key in sessions.keys(session)


def test_nothing_goes_while_a_write_is_not_settled(sessions: Sessions) -> None:
    session = sessions.make()
    key = orphan(sessions, session)
    item = sessions.room.state.get(names.session("one", session), places.HEAD)
    assert item is not None
    from shared.store.ports import PutIf  # noqa: PLC0415

    unsettled = {**item.attributes, "write": ["write_x", sessions.room.clock(), 1, True]}
    sessions.room.state.transact([PutIf(item.partition, item.sort, item.version, unsettled)])
    sessions.later()
    sweep(sessions.room)
    assert key in sessions.keys(session)


def test_nothing_of_a_session_goes_that_cannot_be_read(sessions: Sessions) -> None:
    session = sessions.make(agent={"model": "program:py", "instructions": "x" * LARGE})
    key = orphan(sessions, session)
    sessions.later()
    room = sessions.room
    partition = names.session("one", session)

    class Blind(Dies):
        def get(self, where: str, sort: str) -> Any:
            return None if (where, sort) == (partition, places.CONFIG) else self._inner.get(where, sort)

    sweep(replace(room, state=Blind(room.state, "", behind=False)))
    assert key in sessions.keys(session)
    sweep(room)
    assert key not in sessions.keys(session)


def test_objects_of_a_session_that_was_never_made_go(sessions: Sessions) -> None:
    session = sessions.make()
    sessions.house.do("sessions.delete", {"session_id": session})
    sweep(sessions.room)
    key = orphan(sessions, session)
    sessions.later()
    sweep(sessions.room)
    assert key not in sessions.keys(session)


def test_what_happens_while_the_names_are_read_keeps_everything(sessions: Sessions) -> None:
    from shared.operations.agents import tidying  # noqa: PLC0415

    session = sessions.make(publish("a", "first"))
    room = sessions.room
    turned = False

    class Busy(Dies):
        def __getattr__(self, name: str) -> Any:
            code = getattr(self._inner, name)

            def query(where: str, prefix: str = "", **more: Any) -> Any:
                nonlocal turned
                if not turned and prefix == places.PUBLICATIONS:
                    turned = True
                    sessions.turn(session, publish("a", "second"))
                return code(where, prefix, **more)

            return query if name == "query" else code

    assert tidying.named(replace(room, state=Busy(room.state, "", behind=False)), "one", session) is None
    assert turned
    assert tidying.named(room, "one", session) is not None


def test_frames_and_keys_go_when_they_have_expired_and_the_session_stays(sessions: Sessions) -> None:
    session = sessions.make(publish("a", "first"))
    partition = names.session("one", session)
    assert sessions.room.state.query(partition, places.EVENTS)
    sessions.house.clock.forward(86_400_000 + 2_000)
    sweep(sessions.room)
    sweep(sessions.room)
    left = sessions.room.state.query(partition, places.EVENTS)
    assert len(left) == 1, "what the expiry of the Environment told"
    assert sessions.house.do("sessions.get", {"session_id": session}).id == session


@pytest.mark.parametrize("step", range(1, 9))
def test_killed_at_any_step_a_creation_leaves_nothing_that_is_seen_and_nothing_behind(
    sessions: Sessions, step: int
) -> None:
    """A creation makes objects, then one transaction; cut before it, only orphans are left."""
    before = [info.key for info in sessions.room.objects.list("p/")]
    room = sessions.room
    left = step

    class Cut(Dies):
        def __getattr__(self, name: str) -> Any:
            code = getattr(self._inner, name)
            if name not in ("put_new", "transact"):
                return code

            def counted(*given: Any, **more: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    raise StoreUnavailable("cut")
                return code(*given, **more)

            return counted

    house = sessions.house
    house.room = replace(room, state=Cut(room.state, "", behind=False), objects=Cut(room.objects, "", behind=False))
    inline = {"type": "inline", "path": "/workspace/a", "data": "b25l"}
    asked = {
        "agent": {"model": "program:py", "instructions": "x" * LARGE},
        "environment": {**HOSTED, "files": [inline]},
        "input": "y" * LARGE,
    }
    try:
        house.do("sessions.create", asked)
    except StoreUnavailable:
        made = False
    else:
        made = True
    house.room = room
    assert made == (step > 4)
    listed = house.do("sessions.list").data
    assert len(listed) == made
    sessions.later()
    sweep(room, workers=False)
    after: list[ObjectInfo] = room.objects.list("p/")
    if not made:
        assert [info.key for info in after] == before
