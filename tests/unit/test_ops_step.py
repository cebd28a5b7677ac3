"""A program on a version of a workspace, apart from exec.run; swapping a manifest that was placed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.domain import session as rules
from shared.domain.manifest import Manifest
from shared.errors import Code, Failure
from shared.executor.port import ExecutorFailed
from shared.operations import workspace
from shared.operations.base import Cancel
from shared.operations.budget import Budget
from shared.operations.room import Room
from shared.operations.step import Program, Stepped, beyond, step
from shared.operations.workspace import Opened
from shared.store.ports import Action, Conflict, PutIf, PutNew
from tests.fakes import Desk, House, Script, writes

SESSION = "sess_0123456789abcdef01234567"


def stepped(house: House, script: Script, base: Manifest | None = None, **how: Any) -> Stepped:
    """One step of a session that is not stored."""
    house.executor.scripts["the program"] = script
    opened = workspace.fresh(house.room, "one", SESSION)
    program = Program(lang="py", code="the program", wall_ms=1_234, **how.pop("program", {}))
    cancel, budget = how.pop("cancel", Cancel()), how.pop("budget", Budget(0))
    return step(house.room, opened, base or Manifest(), program, cancel, budget, **how)


def made(house: House) -> Opened:
    """A stored session."""
    opened = workspace.fresh(house.room, "one", SESSION)
    house.state.transact(workspace.creation(opened, opened.head))
    found = workspace.at(house.room, "one", SESSION)
    assert found is not None
    return found


def need(room: Room, project: str, session: str) -> Opened:
    """Whatever is there."""
    found = workspace.at(room, project, session)
    assert found is not None
    return found


def locked(house: House) -> Opened:
    """The same, locked by a rule of its own."""
    made(house)

    return workspace.lock(house.room, "one", SESSION, need=need)


def test_a_step_stores_the_bytes_and_commits_nothing(house: House) -> None:
    one = stepped(house, writes(("a/b.txt", "hello"), ("c", "")))
    entry = one.merged.manifest.entries["a/b.txt"]
    assert b"".join(house.objects.read(entry.blob, entry.offset, entry.size)) == b"hello"
    assert set(one.merged.manifest.entries) == {"a", "a/b.txt", "c"}
    assert [file.path for file in one.merged.written] == ["a/b.txt", "c"]
    assert house.state.transactions == []
    two = stepped(house, lambda desk: desk.remove("a"), one.merged.manifest)
    assert (set(two.merged.manifest.entries), two.merged.deleted) == ({"c"}, ("a/b.txt",))


def test_a_step_asks_for_what_the_program_says(house: House) -> None:
    stepped(house, writes(), program={"args": ("x",), "env": {"A": "1"}, "tenant": "t"})
    (request,) = house.executor.requests
    assert (request.lang, request.code, request.args, request.limits.wall_ms) == ("py", "the program", ("x",), 1_234)
    assert (request.env, request.tenant) == ({"A": "1"}, "t")


def test_a_programs_variables_are_not_printed_with_it() -> None:
    assert "hidden" not in repr(Program(lang="py", code="", wall_ms=1, env={"A": "hidden"}))


def test_a_step_tells_the_output(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.stdout, desk.stderr = "out", "err"

    told: list[tuple[str, str]] = []
    stepped(house, script, output=lambda stream, text: told.append((stream, text)))
    assert told == [("stdout", "out"), ("stderr", "err")]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("unavailable", Code.EXECUTOR_UNAVAILABLE),
        ("throttled", Code.RATE_LIMITED),
        ("broken", Code.EXECUTOR_BROKEN),
        ("timeout", Code.EXECUTOR_TIMEOUT),
    ],
)
def test_an_executor_that_fails_is_a_failure(house: House, kind: Any, code: Code) -> None:
    house.executor.fail = ExecutorFailed(kind, retry_after=7 if kind == "throttled" else None)
    with pytest.raises(Failure) as failed:
        stepped(house, writes())
    assert failed.value.code is code


def test_an_answer_that_breaks_the_contract_is_a_failure_and_stores_nothing(house: House) -> None:
    house.executor.twist = lambda answer: replace(answer, changed=("../x",))
    with pytest.raises(Failure) as failed:
        stepped(house, writes(("a", "x")))
    assert failed.value.code is Code.EXECUTOR_BROKEN
    assert house.objects.list("p/") == []


def test_a_cancelled_step_runs_nothing(house: House) -> None:
    cancel = Cancel()
    cancel()
    with pytest.raises(Failure) as failed:
        stepped(house, writes(), cancel=cancel)
    assert failed.value.code is Code.CANCELLED
    assert house.executor.requests == []


def test_a_version_beyond_a_limit_is_told_and_not_refused(build: Callable[..., House]) -> None:
    house = build()
    merged = stepped(house, writes(*((f"f{number}", "x") for number in range(4)))).merged.manifest
    small = replace(house.room.limits, workspace_entries=3)
    assert beyond(small, Manifest(), merged) == "3 entries"
    assert beyond(house.room.limits, Manifest(), merged) is None
    assert beyond(small, merged, merged) is None
    fewer = stepped(house, lambda desk: desk.remove("f0"), merged).merged.manifest
    assert beyond(small, merged, fewer) is None
    assert beyond(replace(small, workspace_entries=2), merged, fewer) is None  # it is above a limit already and shrinks


def test_another_rule_says_what_may_be_locked(house: House) -> None:
    opened = locked(house)
    assert opened.head.lock is not None
    with pytest.raises(Failure) as missing:
        workspace.lock(house.room, "one", SESSION)
    assert missing.value.code is Code.NOT_FOUND

    def refuse(room: Room, project: str, session: str) -> Opened:
        raise Failure(Code.EXISTS)

    with pytest.raises(Failure) as refused:
        workspace.lock(house.room, "one", SESSION, need=refuse)
    assert refused.value.code is Code.EXISTS


def test_the_plain_read_looks_at_no_id_and_no_lifetime(house: House) -> None:
    assert workspace.at(house.room, "one", SESSION) is None
    made(house)
    house.clock.forward(10 * house.room.limits.session_ms)
    found = workspace.at(house.room, "one", SESSION)
    assert found is not None
    assert (found.project, found.session) == ("one", SESSION)
    assert workspace.find(house.room, "one", SESSION) is None
    assert workspace.at(house.room, "two", SESSION) is None


def test_a_placed_manifest_is_swapped_again_after_a_loss_that_is_named_by_its_place(house: House) -> None:
    opened = locked(house)
    manifest = stepped(house, writes(("a", "x"))).merged.manifest
    where = workspace.place(house.room, opened, manifest)
    house.state.inner.transact([PutNew("p", "taken", {})])
    also: list[Action] = [PutNew("p", "free", {}), PutNew("p", "taken", {}), PutIf("p", "absent", 3, {})]
    with pytest.raises(Conflict) as lost:
        workspace.swap_manifest(house.room, opened, where, also)
    assert sorted(loss.index for loss in lost.value.losses) == [1, 2]
    workspace.swap_manifest(house.room, opened, where, also[:1])
    now = workspace.at(house.room, "one", SESSION)
    assert now is not None
    assert now.head.lock is None
    assert workspace.manifest_of(house.room, now.head) == manifest


def test_a_loss_of_a_new_sessions_own_rows_is_negative(house: House) -> None:
    made(house)
    house.state.inner.transact([PutNew("p", "taken", {})])
    with pytest.raises(Conflict) as lost:
        workspace.commit_run(
            house.room, workspace.fresh(house.room, "one", SESSION), Manifest(), [PutNew("p", "taken", {})]
        )
    assert sorted(loss.index for loss in lost.value.losses) == [-2, -1, 0]


def test_a_swap_after_a_takeover_is_fenced(house: House) -> None:
    opened = locked(house)
    house.clock.forward(house.room.limits.lease_ms + 1)
    workspace.lock(house.room, "one", SESSION, need=need)
    with pytest.raises(rules.Fenced):
        workspace.swap_manifest(house.room, opened, ("", ""))
