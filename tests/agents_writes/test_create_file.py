"""`POST /agents/environments/{id}/files`: table 3.3, row by row and each pair of faults in its order."""

from __future__ import annotations

import base64
import itertools
import os
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from shared.domain.agents.head import Environment, EnvironmentStatus, Pending
from shared.domain.agents.turning import queue
from shared.domain.agents.writes import begin
from shared.domain.session import Lock, Owner, acquire
from shared.identity import Caller
from shared.limits import Limits
from shared.operations.agents import environment_files
from shared.operations.base import Call
from shared.operations.lease import Heart
from shared.operations.sources import create_source, find_source
from shared.store.ports import PutIf
from tests.agents_writes.desk import OTHER, Answer, Desk, make_session
from tests.unit.agents.trees import file, folder, link, special, tree

OFFICIAL = "invalid_request_error"
LOCAL = Answer(400, "invalid_request", "Invalid resource identifier or request limits.")
ABSOLUTE = Answer(400, OFFICIAL, "environment.files[0].path must be an absolute POSIX path inside /workspace")
COMPONENTS = Answer(400, OFFICIAL, "environment.files[0].path cannot contain empty, . or .. path components")
INLINE = Answer(400, OFFICIAL, "environment.files[0].data exceeds the 5 MiB decoded limit")
PENDING = Answer(
    400,
    OFFICIAL,
    "the hosted environment is still provisioning; wait until it is connected before accessing files",
)
MISSING = Answer(404, "not_found_error", "Resource not found.")
LARGE = Answer(413, "request_too_large", "File exceeds this operation's content limit.")
UNAVAILABLE = Answer(503, "execution_unavailable", "Execution is not available on this service.", retry="false")
GATE = Answer(409, "turn_conflict", "The Turn cannot accept this input in its current state.", retry="false")
OCCUPIED = Answer(400, OFFICIAL, "environment.files paths must not traverse symlinks or overwrite existing files")
THERE = Answer(400, OFFICIAL, "file path conflicts with an existing environment file")
MIB = 1024 * 1024


def expect_untouched(desk: Desk) -> None:
    """Nothing was recorded, locked or stored."""
    assert (desk.records(), desk.unsettled(), desk.head().write) == ([], 0, None)
    assert desk.workspace().head.lock is None


def expect_free(desk: Desk) -> None:
    """Nothing is left of the last write: the next one is admitted."""
    assert (desk.unsettled(), desk.head().write, desk.workspace().head.lock) == (0, None, None)
    assert desk.create(f"/workspace/next-{len(desk.records())}").status == 201


def test_a_file_is_written_and_can_be_listed(anywhere: Desk) -> None:
    answer = anywhere.create("/workspace/sub/dir/a.txt", b"\x00bytes")
    assert answer.status == 201
    assert answer.body == {
        "environment_id": anywhere.environment,
        "object": "agent.environment.file",
        "path": "/workspace/sub/dir/a.txt",
        "size_bytes": 6,
    }
    assert anywhere.content("sub/dir/a.txt") == b"\x00bytes"
    assert anywhere.names(path="/workspace/sub/dir") == ["/workspace/sub/dir/a.txt"]
    expect_free(anywhere)


def test_a_source_file_is_copied(anywhere: Desk) -> None:
    data = os.urandom(3 * MIB)
    source = anywhere.source(data)
    answer = anywhere.copy(source)
    assert (answer.status, answer.body["size_bytes"]) == (201, len(data))
    assert anywhere.content("a.txt") == data
    entry = anywhere.manifest().entries["a.txt"]
    assert entry.blob.startswith(anywhere.partition + "/"), "a Session's objects are its own"
    expect_free(anywhere)


def test_an_empty_file_needs_no_object(desk: Desk) -> None:
    assert desk.create(data=b"").body["size_bytes"] == 0
    assert desk.copy(desk.source(b""), "/workspace/b").body["size_bytes"] == 0
    assert (desk.content("a.txt"), desk.content("b"), desk.objects()) == (b"", b"", 0)


def test_row_18_modes(desk: Desk) -> None:
    desk.fill(*tree(folder("there")))
    assert desk.create("/workspace/there/x/y/z").status == 201
    found = {entry.path: (entry.kind, entry.mode) for entry in desk.manifest()}
    assert found == {
        "there": ("dir", 0o755),
        "there/x": ("dir", 0o700),
        "there/x/y": ("dir", 0o700),
        "there/x/y/z": ("file", 0o600),
    }


def test_the_record_tells_of_the_whole_write(desk: Desk) -> None:
    desk.create("/workspace/a/b", b"")
    (record,) = desk.records()
    assert (record.path, record.size, record.receipt, record.outcome, record.by) == (
        "a/b",
        0,
        "committed",
        "committed",
        "attempt",
    )
    assert record.sha256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert record.since == record.settled == desk.clock()
    assert desk.state.steps[-3:] == ["intent", "publish", "settle"]


BODIES: list[tuple[str, dict[str, Any], Answer]] = [
    ("4", {"b": 1, "a": 1, "path": 7}, Answer(400, OFFICIAL, "Unknown parameter: 'b'.", "b")),
    ("4 long", {"x" * 257: 1}, Answer(400, OFFICIAL, "Unknown parameter.")),
    ("5 nothing", {}, LOCAL),
    ("5 no path", {"type": "inline", "data": ""}, LOCAL),
    ("5 null path", {"type": "inline", "data": "", "path": None}, LOCAL),
    ("5 path", {"type": "inline", "data": "", "path": 7}, LOCAL),
    ("5 no data", {"type": "inline", "path": "/workspace/a"}, LOCAL),
    ("5 data", {"type": "inline", "path": "/workspace/a", "data": ["x"]}, LOCAL),
    ("5 type", {"type": "url", "path": "/workspace/a", "data": ""}, LOCAL),
    ("5 other form", {"type": "inline", "path": "/workspace/a", "data": "", "file_id": "file-x"}, LOCAL),
    ("5 other form's null", {"type": "file_id", "path": "/workspace/a", "file_id": "file-x", "data": None}, LOCAL),
    ("5 empty id", {"type": "file_id", "path": "/workspace/a", "file_id": ""}, LOCAL),
    ("6a", {"type": "inline", "path": "a", "data": "!"}, ABSOLUTE),
    ("6b", {"type": "inline", "path": "/workspace/a/", "data": "!"}, COMPONENTS),
    ("6b outside", {"type": "inline", "path": "/tmp//x", "data": "!"}, COMPONENTS),
    ("6c", {"type": "inline", "path": "/workspace", "data": "!"}, ABSOLUTE),
    ("6c long", {"type": "inline", "path": "/workspace/" + "a" * 4_086, "data": "!"}, ABSOLUTE),
    ("7", {"type": "inline", "path": "/workspace/a", "data": "YQ"}, LOCAL),
    ("7 url", {"type": "inline", "path": "/workspace/a", "data": "_-__"}, LOCAL),
    ("7 line", {"type": "inline", "path": "/workspace/a", "data": "YWFh\n"}, LOCAL),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_rows_4_to_7(desk: Desk, body: dict[str, Any], expected: Answer) -> None:
    assert desk.body(body) == expected
    expect_untouched(desk)


def test_row_8_five_mebibytes_inline(desk: Desk) -> None:
    assert desk.create(data=bytes(5 * MIB)).status == 201
    assert desk.create("/workspace/b", bytes(5 * MIB + 1)) == INLINE


def test_row_9_pending_comes_before_the_source_file(desk: Desk) -> None:
    desk.session = make_session(desk.room, install=True)
    assert desk.copy("file-unknown") == PENDING
    expect_untouched(desk)


def test_row_10_a_source_file_that_is_not_there(desk: Desk) -> None:
    foreign = desk.source(b"x", project=OTHER)
    for ident in ("x", "file-", "file-" + "0" * 32, foreign, desk.session):
        assert desk.copy(ident) == MISSING
    expect_untouched(desk)


def _resize(desk: Desk, source: str, size: int) -> None:
    item = find_source(desk.room, "one", source)
    row = {**item.attributes, "size": size}
    desk.state.inner.transact([PutIf(item.partition, item.sort, item.version, row)])


def test_row_11_fifty_mebibytes(desk: Desk) -> None:
    assert environment_files.FILE_BYTES == 52_428_800
    source = desk.source(b"x")
    _resize(desk, source, environment_files.FILE_BYTES + 1)
    assert desk.copy(source) == LARGE
    expect_untouched(desk)


def test_fifty_mebibytes_are_copied_in_little_memory(desk: Desk) -> None:
    with desk.room.objects.stage() as stage:
        for _ in range(50):
            stage.write(bytes(MIB))
        source = create_source(desk.room, Call(Caller("one", "key")), "large", stage).id
    tracemalloc.start()
    answer = desk.copy(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (answer.status, answer.body["size_bytes"]) == (201, 50 * MIB)
    assert peak < 8 * MIB


@pytest.mark.parametrize("kind", ["none", "self_hosted"])
def test_row_12_environments_without_a_runtime(desk: Desk, kind: Any) -> None:
    desk.session = make_session(desk.room, kind)
    assert desk.copy("file-unknown") == UNAVAILABLE
    assert (desk.records(), desk.unsettled()) == ([], 0)


@pytest.mark.parametrize("status", ["expired", "failed", "disconnected"])
def test_11_5_another_state_records_no_intent(desk: Desk, status: EnvironmentStatus) -> None:
    desk.set_head(replace(desk.head(), environment=Environment("openai_hosted", status)))
    assert desk.copy("file-unknown") == UNAVAILABLE
    expect_untouched(desk)


def _busy(desk: Desk) -> None:
    desk.set_head(queue(desk.head(), "turn_1", Pending("batch_1", 1), desk.clock()))


def test_row_13_a_turn_or_pending_input_refuses(desk: Desk) -> None:
    _busy(desk)
    assert desk.create() == GATE, "11.19: a Turn is not waited for"
    desk.fill(file("a.txt"))
    assert desk.create() == GATE, "11.15: before what stands at the path"
    expect_untouched(desk)


def _written(desk: Desk, owner: Owner) -> None:
    """Another attempt's intent."""
    locked = acquire(desk.workspace().head, owner, desk.clock(), 30_000)
    assert locked is not None
    desk.set_workspace(locked)
    desk.set_head(begin(desk.head(), "write_other", locked.fence, desk.clock()))


def test_11_19_a_write_in_flight_is_worth_another_attempt_and_a_dead_one_is_not(desk: Desk) -> None:
    _written(desk, Owner("another function", "1"))
    assert desk.create() == replace(GATE, retry="true")
    desk.clock.forward(30_000)
    assert desk.create() == GATE, "the lease is over: the gate is not (11.23)"


def test_11_19_a_restarted_service_knows_that_its_own_attempt_is_dead(desk: Desk) -> None:
    _written(desk, desk.room.owner)
    assert desk.create() == replace(GATE, retry="true")
    assert desk.restarted().create() == GATE


DESTINATIONS = [
    ("14 file", "f", OCCUPIED), ("14 link", "l", OCCUPIED), ("14 dangling", "dangling", OCCUPIED),
    ("14 fifo", "pipe", OCCUPIED), ("14 through a link", "to_d/in", OCCUPIED), ("15", "d", THERE),
    ("15 linked", "to_d/e", THERE),
    ("16 file", "f/x", LOCAL), ("16 out", "out/x", LOCAL), ("16 absolute", "etc/x", LOCAL),
    ("16 loop", "loop/x", LOCAL),
    ("16 dangling", "dangling/x", LOCAL), ("16 fifo", "pipe/x", LOCAL), ("long name", "a" * 256, LOCAL),
]  # fmt: skip


@pytest.mark.parametrize(("path", "expected"), [row[1:] for row in DESTINATIONS], ids=[row[0] for row in DESTINATIONS])
def test_rows_14_to_16_reject_and_let_the_session_go_at_once(desk: Desk, path: str, expected: Answer) -> None:
    desk.fill(
        *tree(
            file("f"), folder("d"), file("d/in"), folder("d/e"), link("l", "f"), link("dangling", "no"),
            special("pipe"), link("to_d", "d"), link("out", ".."), link("etc", "/etc"), link("loop", "loop"),
        )
    )  # fmt: skip
    before = desk.manifest()
    assert desk.create(f"/workspace/{path}") == expected
    assert list(desk.manifest()) == list(before)
    (record,) = desk.records()
    assert (record.receipt, record.outcome, record.by) == ("rejected", "rejected", "attempt")
    expect_free(desk)


def test_row_17_a_link_inside_is_followed_and_the_asked_path_is_answered(desk: Desk) -> None:
    desk.fill(*tree(folder("d"), link("to_d", "d"), link("abs", "/workspace/d"), link("mnt", "/mnt/data/d")))
    for name in ("to_d", "abs", "mnt"):
        assert desk.create(f"/workspace/{name}/sub/{name}").body["path"] == f"/workspace/{name}/sub/{name}"
    assert desk.names(path="/workspace/d/sub") == [f"/workspace/d/sub/{name}" for name in ("abs", "mnt", "to_d")]


def test_a_workspace_that_is_full_rejects(desk: Desk) -> None:
    most = desk.room.limits.workspace_bytes
    desk.fill(file("big", size=most - 4))
    assert desk.create(data=b"12345") == LARGE
    assert desk.create(data=b"1234").status == 201


def test_a_workspace_of_too_many_entries_rejects(desk: Desk) -> None:
    room = replace(desk.room, limits=replace(Limits(), workspace_entries=3))
    tight = replace(desk, room=room)
    assert tight.create("/workspace/a/b/c/d") == LARGE
    assert tight.create("/workspace/a/b/c").status == 201
    assert tight.create("/workspace/e") == LARGE


def test_a_large_manifest_is_an_object(desk: Desk) -> None:
    room = replace(desk.room, limits=replace(Limits(), inline_item_bytes=300))
    small = replace(desk, room=room)
    for number in range(30):
        assert small.create(f"/workspace/{os.urandom(20).hex()}").status == 201, number
    assert small.workspace().head.pointer
    assert len(small.names(limit=100)) == 30


def test_rejection_of_a_source_whose_bytes_are_gone_or_wrong(desk: Desk) -> None:
    for change, expected in (
        ({"key": "p/one/source/none/bytes"}, MISSING),
        ({"sha256": "0" * 64}, replace(UNAVAILABLE, retry="true")),
        ({"size": 4}, replace(UNAVAILABLE, retry="true")),
        ({"size": 6}, replace(UNAVAILABLE, retry="true")),
    ):
        source = desk.source(b"bytes")
        item = find_source(desk.room, "one", source)
        row = {**item.attributes, **change}
        desk.state.inner.transact([PutIf(item.partition, item.sort, item.version, row)])
        before = list(desk.manifest())
        assert desk.copy(source, "/workspace/copy") == expected
        assert list(desk.manifest()) == before
        expect_free(desk)


def test_a_workspace_that_is_locked_behind_an_open_gate_is_waited_for(desk: Desk) -> None:
    held = replace(desk.workspace().head, lock=Lock(Owner("other", "1"), desk.clock() + 60_000))
    desk.set_workspace(held)
    assert desk.create() == replace(GATE, retry="true")
    assert desk.records() == []


@pytest.mark.parametrize("racing", ["workspace", "session", "both", "write", "turn", "expired"])
def test_an_intent_that_loses_is_judged_again(desk: Desk, racing: str) -> None:
    def race() -> None:
        if racing in ("workspace", "both"):
            head = desk.workspace().head
            desk.set_workspace(replace(head, used=head.used + 1))
        if racing in ("session", "both"):
            desk.set_head(replace(desk.head(), used=desk.head().used + 1))
        if racing == "write":
            _written(desk, Owner("another function", "1"))
        if racing == "turn":
            _busy(desk)
        if racing == "expired":
            desk.set_head(replace(desk.head(), environment=Environment("openai_hosted", "expired")))

    desk.state.hooks["intent"] = race
    answers = {"write": replace(GATE, retry="true"), "turn": GATE, "expired": UNAVAILABLE}
    answer = desk.create()
    assert answer == answers.get(racing, answer)
    assert (answer.status == 201) is (racing not in answers)
    assert len(desk.records()) == (racing not in answers)


def test_a_destination_that_appears_meanwhile_is_not_replaced(desk: Desk) -> None:
    """The publication is on the version that it was decided on: whoever else commits needs the lock."""
    first = desk.create(data=b"first")
    assert (first.status, desk.create(data=b"second")) == (201, OCCUPIED)
    assert desk.content("a.txt") == b"first"


def test_the_lease_is_kept_while_bytes_are_copied(desk: Desk) -> None:
    room = replace(desk.room, heart=Heart(0.01))
    beating = replace(desk, room=room)
    source = beating.source(b"bytes")
    key = find_source(room, "one", source).attributes["key"]
    read = room.objects.read

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(room.objects, name)

        def read(self, asked: str, *more: Any) -> Any:
            if asked == key:
                before = until()
                beating.clock.forward(20_000)
                deadline = time.monotonic() + 10
                while until() == before and time.monotonic() < deadline:
                    time.sleep(0.01)
                assert until() == before + 20_000
            return read(asked, *more)

    def until() -> int:
        lock = desk.workspace().head.lock
        assert lock is not None
        return lock.until

    slow: Any = Slow()
    assert replace(beating, room=replace(room, objects=slow)).copy(source).status == 201


FAULTS: list[tuple[int, str, Answer]] = [
    (3, "foreign", MISSING),
    (4, "unknown", Answer(400, OFFICIAL, "Unknown parameter: 'x'.", "x")),
    (5, "type", LOCAL),
    (6, "path", ABSOLUTE),
    (7, "data", LOCAL),
    (9, "pending", PENDING),
    (10, "source", MISSING),
    (13, "gate", GATE),
    (14, "occupied", OCCUPIED),
]
EXCLUSIVE = {("data", "source"), ("pending", "gate"), ("type", "data"), ("type", "source")}


@pytest.mark.parametrize(
    ("first", "second"),
    [pair for pair in itertools.combinations(FAULTS, 2) if (pair[0][1], pair[1][1]) not in EXCLUSIVE],
    ids=lambda one: str(one[1]) if isinstance(one, tuple) else "",
)
def test_of_two_faults_the_earlier_row_is_told(desk: Desk, first: Any, second: Any) -> None:
    faults = {first[1], second[1]}
    desk.fill(*tree(file("a.txt")) if "occupied" in faults else ())
    body: dict[str, Any] = {"type": "inline", "path": "/workspace/a.txt", "data": base64.b64encode(b"x").decode()}
    if "source" in faults:
        body = {"type": "file_id", "path": "/workspace/a.txt", "file_id": "file-unknown"}
    if "unknown" in faults:
        body["x"] = 1
    if "type" in faults:
        body["type"] = 7
    if "path" in faults:
        body["path"] = "relative"
    if "data" in faults:
        body["data"] = "?"
    if "pending" in faults:
        desk.set_head(replace(desk.head(), environment=Environment("openai_hosted", "pending")))
    if "gate" in faults:
        _busy(desk)
    project = OTHER if "foreign" in faults else "one"
    assert desk.body(body, project=project) == first[2]
