"""`exec.run` on the real store: sessions, answers, limits and what is committed (exec.md A3, A7, A8)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.executor.port import ExecutorFailed
from shared.executor.wire import Entry, RunAnswer
from shared.operations.janitor import sweep
from tests.fakes import Desk, House, writes

ID = re.compile(r"^[A-Za-z0-9_-]{21}$")


def write(path: str, text: str | bytes = "text") -> Callable[[Desk], None]:
    """A program that writes one file."""
    return lambda desk: desk.write(path, text)


def refused(house: House, **data: Any) -> Failure:
    with pytest.raises(Failure) as refusal:
        house.run(**data)
    return refusal.value


def sessions(house: House) -> list[str]:
    return [row.sort for row in house.state.query("p/one", "session/")]


def test_the_answer_has_the_members_of_the_contract(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.stdout = "rows: 2\n"
        desk.write("out/plot.png", b"\x89PNG")

    answer = json.loads(house.run(script).model_dump_json())
    file = answer["files"][0]
    assert ID.match(answer["session_id"])
    assert ID.match(file["id"])
    assert answer == {
        "session_id": answer["session_id"],
        "stdout": "rows: 2\n",
        "stderr": "",
        "files": [
            {
                "id": file["id"],
                "name": "out/plot.png",
                "path": "out/plot.png",
                "storage_session_id": answer["session_id"],
                "session_id": answer["session_id"],
                "size": 4,
            }
        ],
        "deleted_files": [],
        "code": 0,
        "signal": None,
        "status": None,
        "message": None,
        "wall_time": 5,
    }


def test_a_run_on_a_new_session_is_one_transaction_and_on_an_existing_one_two(house: House) -> None:
    answer = house.run()
    assert len(house.state.transactions) == 1
    house.state.transactions.clear()
    house.run(session_id=answer.session_id)
    assert len(house.state.transactions) == 2
    house.state.transactions.clear()
    house.run(write("a"))
    assert len(house.state.transactions) == 1


def test_D3_a_session_keeps_its_files_and_its_id(house: House) -> None:
    first = house.run(write("a", "1"))
    seen: list[bytes] = []
    second = house.run(lambda desk: seen.append(desk.read("a")), session_id=first.session_id)
    assert second.session_id == first.session_id
    assert seen == [b"1"]
    assert second.files == []


def test_D1_uploads_are_there_in_every_run(house: House) -> None:
    home = house.put("a").session_id
    for name in ("b", "c/d"):
        house.put(name, session_id=home)
    seen: list[list[str]] = []
    for _ in range(2):
        house.run(lambda desk: seen.append(sorted(desk.entries)), session_id=home)
    assert seen == [["a", "b", "c", "c/d"]] * 2


def test_G11_two_calls_without_a_session_have_one_each(house: House) -> None:
    assert len({house.run().session_id for _ in range(5)}) == 5


@pytest.mark.parametrize("session", ["x" * 21, "short", "../head", "file-0123456789abcdef", "x" * 1024, "é", "a b"])
def test_A8_3_an_unknown_session_is_404_and_creates_nothing(house: House, session: str) -> None:
    assert refused(house, session_id=session).code is Code.NOT_FOUND
    assert (house.state.transactions, house.executor.requests, sessions(house)) == ([], [], [])


def test_A8_3_a_foreign_session_is_as_an_unknown_one(house: House) -> None:
    foreign = house.run(write("secret"), project="two").session_id
    house.state.transactions.clear()
    first, second = refused(house, session_id=foreign), refused(house, session_id="u" * 21)
    assert (first.body(), first.headers()) == (second.body(), second.headers())
    assert house.state.transactions == []
    assert sessions(house) == []
    assert house.names(foreign, project="two") == ["secret"]


def test_D4_reply_and_listing_agree(house: House) -> None:
    def script(desk: Desk) -> None:
        for path in ("x/y/z.txt", ".env", "é.txt", "a b", "-rf"):
            desk.write(path, path)
        desk.write("\udcff", "no text")
        desk.make("link", "link", target="/etc/passwd")
        desk.make("pipe", "fifo")
        desk.make("empty", "dir")
        desk.make("sock", "other")

    answer = house.run(script)
    assert [file.name for file in answer.files] == ["-rf", ".env", "a b", "x/y/z.txt", "é.txt"]
    assert house.names(answer.session_id) == [file.name for file in answer.files]


def test_E1_a_link_is_neither_listed_nor_followed(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.make("out.txt", "link", target="/proc/self/environ")
        desk.make("outd", "link", target="/etc")

    answer = house.run(script)
    assert answer.files == []
    assert house.names(answer.session_id) == []
    for name in ("out.txt", "outd/passwd", "outd"):
        with pytest.raises(Failure) as refusal:
            house.text(answer.session_id, name)
        assert refusal.value.code is Code.NOT_FOUND


def test_D14_links_modes_folders_and_pipes_come_back_and_sockets_do_not(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.make("abs", "link", target="/mnt/data/a")
        desk.make("p", "fifo")
        desk.make("d", "dir")
        desk.make("s", "other")
        desk.write("run.sh", "#!", mode=0o755)

    session = house.run(script).session_id
    found: dict[str, Entry] = {}
    house.run(lambda desk: found.update(desk.before), session_id=session)
    assert {path: entry.kind for path, entry in found.items()} == {
        "abs": "link", "p": "fifo", "d": "dir", "run.sh": "file",
    }  # fmt: skip
    assert found["abs"].target == "/mnt/data/a"
    assert found["run.sh"].mode == 0o755


def test_D14_a_folder_that_held_a_socket_can_go(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.make("d", "dir")
        desk.make("d/s", "other")

    session = house.run(script).session_id
    house.run(lambda desk: desk.remove("d"), session_id=session)
    left: list[str] = []
    house.run(lambda desk: left.extend(desk.before), session_id=session)
    assert left == []


def test_a_touched_or_chmodded_file_keeps_its_bytes_and_is_told(house: House) -> None:
    session = house.run(write("a", "content")).session_id
    for act in (lambda desk: desk.touch("a"), lambda desk: desk.chmod("a", 0o755)):
        answer = house.run(act, session_id=session)
        assert [file.name for file in answer.files] == ["a"]
    assert house.text(session, "a") == "content"
    modes: list[int] = []
    house.run(lambda desk: modes.append(desk.before["a"].mode), session_id=session)
    assert modes == [0o755]


def test_removed_files_are_named(house: House) -> None:
    session = house.run(writes(("d/b", "x"), ("a", "x"), ("c", "x"))).session_id

    def script(desk: Desk) -> None:
        desk.remove("d")
        desk.remove("a")

    answer = house.run(script, session_id=session)
    assert answer.deleted_files == ["a", "d/b"]
    assert house.names(session) == ["c"]


def test_A8_13_D20_a_read_only_upload_cannot_be_changed(house: House) -> None:
    session = house.put("d/f", "original", read_only=True).session_id
    original = house.do("files.stat", {"session_id": session, "file_id": "d/f"})

    def script(desk: Desk) -> None:
        assert desk.before["d/f"].mode == 0o444
        assert desk.before["d/f"].read_only
        desk.chmod("d/f", 0o644)
        desk.write("d/f", "changed")

    house.clock.forward(1_000)
    answer = house.run(script, session_id=session)
    assert [(file.name, file.inherited) for file in answer.files] == [("d/f", True)]
    assert '"d/f" is read-only' in answer.stderr
    assert house.text(session, "d/f") == "original"
    assert house.do("files.stat", {"session_id": session, "file_id": "d/f"}) == original
    assert house.do("files.stat", {"session_id": session, "file_id": answer.files[0].id}) == original


@pytest.mark.parametrize("act", ["remove", "folder", "parent"])
def test_A8_13_nor_removed_nor_replaced(house: House, act: str) -> None:
    session = house.put("d/f", "original", read_only=True).session_id

    def script(desk: Desk) -> None:
        if act == "remove":
            desk.remove("d")
        elif act == "folder":
            desk.remove("d/f")
            desk.write("d/f/x", "1")
        else:
            desk.remove("d")
            desk.write("d", "1")

    answer = house.run(script, session_id=session)
    assert [(file.name, file.inherited) for file in answer.files] == [("d/f", True)]
    assert answer.deleted_files == []
    assert house.names(session) == ["d/f"]
    assert house.text(session, "d/f") == "original"


def test_an_ordinary_file_is_never_marked_inherited(house: House) -> None:
    answer = house.run(write("a"))
    assert "inherited" not in answer.files[0].model_dump()


@pytest.mark.parametrize(
    ("end", "code", "signal", "status", "message"),
    [
        ({}, 0, None, None, None),
        ({"code": 3}, 3, None, None, None),
        ({"code": None, "signal": 11}, None, "SIGSEGV", "SG", "SIGSEGV"),
        ({"code": None, "signal": 40}, None, "SIG40", "SG", "SIG40"),
        ({"reason": "time"}, None, "SIGKILL", "TO", "time"),
        ({"reason": "memory"}, None, "SIGKILL", "SG", "memory"),
        ({"reason": "output"}, 0, None, "OL", "output"),
        ({"stdout_cut": True}, 0, None, "OL", None),
        ({"stdout_cut": True, "reason": "time"}, None, "SIGKILL", "OL", "time"),
        ({"reason": "workspace_bytes"}, None, "SIGKILL", "SG", "workspace"),
        ({"reason": "workspace_entries"}, None, "SIGKILL", "SG", "entries"),
        ({"reason": "processes"}, None, "SIGKILL", "SG", "processes"),
        ({"reason": "file_bytes"}, None, "SIGKILL", "SG", "file"),
        ({"reason": "cpu"}, None, "SIGKILL", "SG", "processor"),
    ],
)
def test_A8_5_a_program_that_fails_is_a_successful_call(
    house: House, end: dict[str, Any], code: int | None, signal: str | None, status: str | None, message: str | None
) -> None:
    def script(desk: Desk) -> None:
        desk.stdout, desk.stderr = "partial", "why\n"
        desk.write("made", "before the end")
        for name, value in end.items():
            setattr(desk, name, value)

    answer = house.run(script)
    assert (answer.code, answer.signal, answer.status) == (code, signal, status)
    cut = "stdout was cut: it is longer than 1048576 bytes\n" if end == {"stdout_cut": True} else ""
    assert (answer.stdout, answer.stderr) == ("partial", "why\n" + cut)
    assert (message is None) == (answer.message is None)
    assert message is None or message.lower() in (answer.message or "").lower()
    assert house.names(answer.session_id) == ["made"]


@pytest.mark.parametrize(("code", "said"), [(0, ""), (3, "exited with code 3\n")])
def test_A3_a_program_that_fails_in_silence_has_a_line_on_stderr(house: House, code: int, said: str) -> None:
    def script(desk: Desk) -> None:
        desk.code = code

    assert house.run(script).stderr == said


def test_what_was_not_kept_is_named_on_lines_of_its_own(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.stderr = "no newline"
        desk.lost = [("big.bin", "the file has 9 bytes, more than the limit of 8 bytes"), ('a"\n\udcff', "it is odd")]

    lines = house.run(script).stderr.split("\n")
    assert lines[0] == "no newline"
    assert lines[1] == 'workroom: "big.bin" was not kept: the file has 9 bytes, more than the limit of 8 bytes'
    assert lines[2] == 'workroom: "a\\"\\n\\udcff" was not kept: it is odd'
    assert lines[3:] == [""]


def test_many_lost_files_do_not_drown_the_programs_own_words(house: House) -> None:
    def script(desk: Desk) -> None:
        desk.lost = [(f"f{number}", "it is too large") for number in range(100)]

    lines = house.run(script).stderr.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "workroom: and 80 more"


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("unavailable", 503, "executor_unavailable"),
        ("broken", 502, "executor_failed"),
        ("timeout", 504, "executor_timeout"),
        ("throttled", 429, "rate_limited"),
    ],
)
@pytest.mark.parametrize("where", ["new", "session", "hint"])
def test_A12_an_executor_that_fails_commits_nothing(
    house: House, kind: Any, status: int, error: str, where: str
) -> None:
    home = house.put("a", "1").session_id
    version = house.state.get(f"p/one/s/{home}", "head")
    assert version is not None
    house.executor.fail = ExecutorFailed(kind, "secret /path")
    data = {"new": {}, "session": {"session_id": home}, "hint": {"runtime_session_hint": "h"}}[where]
    failure = refused(house, **data)
    assert (failure.code.status, failure.body()["error"]) == (status, error)
    assert "/path" not in failure.message
    assert sessions(house) == [f"session/{home}"]
    assert house.state.query("p/one", "hint/") == []
    head = house.state.get(f"p/one/s/{home}", "head")
    assert head is not None
    assert (head.attributes["inline"], head.attributes["lock"]) == (version.attributes["inline"], None)
    house.executor.fail = None
    assert house.run(write("b"), **data).code == 0


@pytest.mark.parametrize(("told", "after"), [(7, 7), (None, 1)])
def test_a_throttled_executor_says_when_to_come_again(house: House, told: int | None, after: int) -> None:
    house.executor.fail = ExecutorFailed("throttled", "", told)
    failure = refused(house)
    assert failure.headers() == {"Retry-After": str(after)}
    assert failure.body()["retry_after_seconds"] == after
    assert house.state.transactions == []


def test_an_answer_that_breaks_the_contract_commits_nothing(house: House) -> None:
    home = house.put("a", "1").session_id
    lies: list[Callable[[RunAnswer], RunAnswer]] = [
        lambda answer: replace(answer, run_id="x"),
        lambda answer: replace(answer, changes=(Entry("../x", "dir", 0o755),)),
        lambda answer: replace(answer, changes=(Entry("x", "file", 0o644, 5, 0, "f" * 64, blob="p/two/s/y/z"),)),
        lambda answer: replace(answer, stdout="\ud800"),
        lambda answer: replace(answer, deleted=("nothing",)),
        lambda answer: replace(answer, code=None),
        lambda answer: replace(answer, reason="stopped", code=None),
    ]
    for lie in lies:
        house.executor.twist = lie
        assert refused(house, session_id=home).code is Code.EXECUTOR_BROKEN
    house.executor.twist = lambda answer: answer
    seen: list[str] = []
    house.run(lambda desk: seen.extend(desk.before), session_id=home)
    assert seen == ["a"]


def test_K20_why_a_run_was_refused_is_logged_without_a_word_of_the_program(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.executor.fail = ExecutorFailed("broken", 'x\n{"level": "ERROR"}')
    refused(house)
    house.executor.fail = None
    house.executor.twist = lambda answer: replace(answer, changes=(Entry("../secret\nname", "dir", 0o755),))
    refused(house)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.endswith(": the executor failed: broken")
    assert second.endswith(": its answer was refused: a path must not have an empty, `.` or `..` segment")


def test_an_unexpected_error_frees_the_session(house: House) -> None:
    home = house.put("a").session_id

    def crash(desk: Desk) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        house.run(crash, session_id=home)
    assert house.run(session_id=home).code == 0


def test_the_request_to_the_executor_carries_limits_and_grants_and_no_secret(house: House) -> None:
    house.run(write("a"), args=["-x", "a b"], timeout=1_234, code="print(1)\n")
    request = house.executor.requests[-1]
    assert (request.lang, request.code, request.args) == ("py", "print(1)\n", ("-x", "a b"))
    assert request.limits.wall_ms == 1_234
    assert request.limits.workspace_bytes == house.room.limits.workspace_bytes
    assert len(request.writes) == house.room.limits.write_grants
    assert len({key for key, _ in request.writes}) == len(request.writes)
    assert house.room.secret.hex() not in json.dumps(request.to_json())
    house.run()
    assert house.executor.requests[-1].limits.wall_ms == 30_000
    assert len({one.run_id for one in house.executor.requests}) == 2


def test_a_workspace_is_held_under_one_opaque_name_for_each_session_and_project(house: House) -> None:
    home = house.run().session_id
    house.run(session_id=home)
    house.run()
    house.run(project="two")
    names = [request.workspace for request in house.executor.requests]
    assert names[0] == names[1]
    assert len(set(names)) == 3
    assert all(home not in name and "/" not in name for name in names)


def test_a_run_that_waited_too_long_for_an_executor_commits_nothing(house: House) -> None:
    session = house.run().session_id

    def script(desk: Desk) -> None:
        desk.write("a", "1")
        house.clock.forward(10**8)

    failure = refused(house, script=script, session_id=session)
    assert failure.code is Code.EXECUTOR_TIMEOUT


def test_a_full_house_is_429_and_a_place_comes_back(build: Callable[..., House]) -> None:
    house = build(run_queue=1)

    def inside(desk: Desk) -> None:
        failure = refused(house)
        assert failure.code is Code.RATE_LIMITED
        assert failure.headers() == {"Retry-After": "2"}
        with pytest.raises(Failure) as refusal:
            house.do("exec.start", {"lang": "py", "code": "x"})
        assert refusal.value.code is Code.RATE_LIMITED

    house.run(inside)
    for _ in range(3):
        house.run()
        refused(house, session_id="u" * 21)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"code": ""}, "code"), ({"code": "a\0b"}, "code"), ({"code": "a\ud800"}, "code"),
        ({"code": "x" * 1_048_577}, "code"), ({"code": "é" * 524_289}, "code"),
        ({"args": ["a\0"]}, "args[0]"), ({"args": ["a", "\udcff"]}, "args[1]"), ({"args": ["x" * 65_537]}, "args[0]"),
        ({"args": [""] * 65_537}, "args"), ({"args": ["x" * 40_000] * 2}, "args"), ({"timeout": 300_001}, "timeout"),
        ({"session_id": ""}, "session_id"), ({"session_id": "x" * 1_025}, "session_id"),
        ({"runtime_session_hint": ""}, "runtime_session_hint"),
        ({"runtime_session_hint": "a\0"}, "runtime_session_hint"),
        ({"user_id": "x" * 1_025}, "user_id"), ({"entity_id": "\ud800"}, "entity_id"),
        ({"files": [{"id": "a"}] * 1_001}, "files"), ({"files": [{"id": ""}]}, "files[0].id"),
        ({"files": [{"id": "a", "name": "../../x"}]}, "files[0].name"),
        ({"files": [{"id": "a"}, {"id": "a", "name": "/etc/passwd"}]}, "files[1].name"),
        ({"files": [{"id": "a", "name": ""}]}, "files[0].name"),
        ({"files": [{"id": "a", "name": "n" * 256}]}, "files[0].name"),
        ({"files": [{"id": "a", "storage_session_id": "x" * 1_025}]}, "files[0].storage_session_id"),
        ({"files": [{"id": "a", "session_id": "\0"}]}, "files[0].session_id"),
    ],
)  # fmt: skip
def test_bad_input_is_named_and_creates_nothing(house: House, data: dict[str, Any], field: str) -> None:
    failure = refused(house, **{"code": "1", **data})
    assert failure.code is Code.INVALID_REQUEST
    assert failure.field == field
    assert (house.state.transactions, house.executor.requests) == ([], [])


def test_what_is_just_within_the_limits_runs(house: House) -> None:
    house.run(code="x" * 1_048_576)
    house.run(args=["x" * 65_535])
    house.run(args=["", "\u00e9", "-rf", "--help", "$(id)"])
    house.run(timeout=300_000)
    house.run(timeout=1)
    house.run(user_id="", entity_id="")
    assert house.executor.requests[2].args == ("", "\u00e9", "-rf", "--help", "$(id)")


def test_A8_6_A8_10_a_key_in_the_body_is_ignored_and_kept_nowhere(house: House) -> None:
    key = "wr_" + "s" * 42
    house.run(write("a"), LIBRECHAT_CODE_API_KEY=key, apiKey=key, intent="x")
    sweep(house.room)
    for path in house.data.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes()
