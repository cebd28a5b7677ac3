"""Uploads, inline and by grant (exec.md A4, A7; cases.md C7, C11, K7)."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.operations.grants import PATH, finish_grant, open_grant
from shared.operations.janitor import sweep
from shared.operations.transfer import Incoming, UploadOutput, check_name, check_session, open_file, upload
from shared.store.ports import DigestMismatch
from tests.fakes import Desk, House, writes

BODY = b"large body"
SHA = hashlib.sha256(BODY).hexdigest()


def incoming(house: House, name: str, data: bytes = b"data") -> Incoming:
    stage = house.room.objects.stage()
    stage.write(data)
    return Incoming(name, stage)


def send(
    house: House, *names: str, session: str | None = None, project: str | None = None, **more: Any
) -> UploadOutput:
    files = [incoming(house, name, name.encode()) for name in names]
    return upload(
        house.room, house.call(project), session_id=session, read_only=more.pop("read_only", False), files=files, **more
    )


def token_of(grant: Any) -> str:
    assert grant.url.startswith(PATH)
    return str(grant.url.removeprefix(PATH))


def put(house: House, token: str, body: bytes = BODY) -> None:
    """The bytes of a grant, as the door takes them."""
    grant = open_grant(house.room, token)
    with house.room.objects.stage() as stage:
        stage.write(body)
        finish_grant(house.room, grant, stage)


def grant(house: House, name: str = "big.bin", **data: Any) -> Any:
    more = {key: data.pop(key) for key in ("project",) if key in data}
    return house.do("uploads.create", {"name": name, "size": len(BODY), "sha256": SHA, **data}, **more)


def code_of(call: Callable[[], object]) -> Code:
    with pytest.raises(Failure) as refusal:
        call()
    return refusal.value.code


def test_the_answer_has_both_generations_members(house: House) -> None:
    answer = json.loads(send(house, "data.csv").model_dump_json())
    ident, session = answer["files"][0]["id"], answer["session_id"]
    assert answer == {
        "message": "success",
        "session_id": session,
        "storage_session_id": session,
        "files": [{"fileId": ident, "filename": "data.csv", "id": ident, "name": "data.csv", "size": 8}],
    }


def test_a_batch_answers_each_file(house: House) -> None:
    answer = json.loads(send(house, "skills/x/SKILL.md", "skills/x/a", batch=True).model_dump_json())
    assert [row["filename"] for row in answer["files"]] == ["skills/x/SKILL.md", "skills/x/a"]
    assert [row["status"] for row in answer["files"]] == ["success", "success"]
    assert (answer["message"], answer["succeeded"], answer["failed"]) == ("success", 2, 0)


def test_a_batch_with_refusals_is_a_partial_success(house: House) -> None:
    answer = json.loads(
        send(house, "a", batch=True, refused=[("../x", "`filename` must be canonical")]).model_dump_json()
    )
    assert (answer["message"], answer["succeeded"], answer["failed"]) == ("partial_success", 1, 1)
    assert answer["files"][1] == {
        "filename": "../x", "name": "../x", "size": 0, "status": "error", "error": "`filename` must be canonical",
    }  # fmt: skip


def test_a_batch_refuses_alone_what_a_folder_is_in_the_way_of(house: House) -> None:
    session = send(house, "d/x").session_id
    answer = send(house, "d", "d/y", "d/x/z", session=session, batch=True)
    assert [(row.filename, row.status) for row in answer.files] == [
        ("d/y", "success"), ("d", "error"), ("d/x/z", "error"),
    ]  # fmt: skip
    assert (answer.message, answer.succeeded, answer.failed) == ("partial_success", 1, 2)
    assert house.names(session) == ["d/x", "d/y"]


def test_a_batch_of_which_nothing_is_left_is_400_and_opens_nothing(house: House) -> None:
    with pytest.raises(Failure) as refusal:
        send(house, batch=True, refused=[("../x", "`filename` must be canonical")])
    assert refusal.value.code is Code.INVALID_REQUEST
    assert "`filename`" in refusal.value.message
    session = send(house, "d/x").session_id
    assert code_of(lambda: send(house, "d", session=session, batch=True)) is Code.INVALID_REQUEST
    assert len(house.state.query("p/one", "session/")) == 1


def test_a_file_that_a_folder_is_in_the_way_of_is_400_naming_the_field(house: House) -> None:
    session = send(house, "d/x").session_id
    for name in ("d", "d/x/y"):
        with pytest.raises(Failure) as refusal:
            send(house, name, session=session)
        assert refusal.value.field == "filename"
        with pytest.raises(Failure) as refusal:
            house.put(name, session_id=session)
        assert refusal.value.field == "name"
    assert house.names(session) == ["d/x"]


def test_a_file_of_the_same_name_is_replaced_and_the_last_of_two_wins(house: House) -> None:
    session = house.put("a", "1").session_id
    house.put("a", "2", session_id=session)
    assert house.text(session, "a") == "2"
    files = [incoming(house, "b", b"first"), incoming(house, "b", b"last")]
    upload(house.room, house.call(), session_id=session, read_only=False, files=files, batch=True)
    assert house.text(session, "b") == "last"
    assert house.names(session) == ["a", "b"]


def test_C11_names_that_differ_in_case_or_form_are_two_files(house: House) -> None:
    session = send(house, "A.txt", "a.txt", "\u00e9", "e\u0301", batch=True).session_id
    assert house.names(session) == ["A.txt", "a.txt", "e\u0301", "\u00e9"]


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a/", "", "a\\b", "a\0b", "\udcff", "n" * 256])
def test_C7_a_name_that_is_not_canonical_is_400(house: House, name: str) -> None:
    with pytest.raises(Failure) as refusal:
        check_name(name, house.room.limits)
    assert (refusal.value.code, refusal.value.field) == (Code.INVALID_REQUEST, "filename")
    with pytest.raises(Failure) as refusal:
        house.put(name)
    assert refusal.value.field == "name"
    with pytest.raises(Failure) as refusal:
        grant(house, name)
    assert refusal.value.field == "name"
    assert house.state.transactions == []


def test_an_unknown_session_is_404_before_any_byte(house: House) -> None:
    foreign = house.put("a", project="two").session_id
    for session in ("u" * 21, foreign, "", "x", "../x"):
        assert code_of(partial(check_session, house.room, house.call(), session)) is Code.NOT_FOUND
        assert code_of(partial(send, house, "a", session=session)) is Code.NOT_FOUND
    assert house.names(foreign, "two") == ["a"]


def test_an_upload_waits_for_a_run_and_neither_is_lost(build: Callable[..., House]) -> None:
    house = build(lock_wait_ms=10_000)
    session = house.put("a").session_id
    import threading  # noqa: PLC0415

    def script(desk: Desk) -> None:
        uploader.start()
        desk.write("made", "1")

    uploader = threading.Thread(target=lambda: house.put("b", session_id=session))
    house.run(script, session_id=session)
    uploader.join(20)
    assert house.names(session) == ["a", "b", "made"]


@pytest.mark.parametrize(("limit", "fits"), [("workspace_bytes", 100), ("workspace_entries", 2), ("names_bytes", 40)])
def test_the_workspaces_limits_at_N_and_N_plus_1(build: Callable[..., House], limit: str, fits: int) -> None:
    house = build(**{limit: fits})
    size, first = {"workspace_bytes": (50, "a"), "workspace_entries": (1, "a"), "names_bytes": (1, "a" * 20)}[limit]
    session = house.put(first, "x" * size).session_id
    second = first.replace("a", "b")
    house.put(second, "x" * size, session_id=session)
    for name, content in ((second + "b", "x"), (first, "x" * (size + 1))):
        if limit != "workspace_bytes" and name == first:
            continue
        with pytest.raises(Failure) as refusal:
            house.put(name, content, session_id=session)
        assert refusal.value.code is Code.INVALID_REQUEST
        assert str(fits) in refusal.value.message
    assert house.names(session) == [first, second]


def test_200_files_into_a_workspace_of_many_cost_little(house: House) -> None:
    session = house.run(writes(*((f"d{n % 50}/{n}", "x") for n in range(5_000)))).session_id
    files = [incoming(house, f"up/{number}") for number in range(200)]
    begun = time.process_time()
    answer = upload(house.room, house.call(), session_id=session, read_only=False, files=files, batch=True)
    assert time.process_time() - begun < 5  # a copy of the manifest for each file takes minutes
    assert answer.succeeded == 200
    assert len(house.names(session)) == 5_200


def test_K7_a_granted_upload_reaches_its_session(house: House) -> None:
    made = grant(house)
    assert (made.method, made.headers["If-None-Match"]) == ("PUT", "*")
    assert made.expires_at == (house.clock.now + house.room.limits.grant_ms) // 1000
    assert house.state.query("p/one", "session/") == []
    put(house, token_of(made))
    assert house.state.query("p/one", "session/") == []
    answer = house.do("uploads.complete", {"upload_id": made.upload_id})
    assert (answer.message, answer.files[0].filename, answer.files[0].size) == ("success", "big.bin", len(BODY))
    assert house.text(answer.session_id, answer.files[0].fileId) == BODY.decode()


def test_a_granted_upload_joins_a_session_and_may_be_read_only(house: House) -> None:
    session = house.put("a").session_id
    made = grant(house, session_id=session, read_only=True)
    put(house, token_of(made))
    assert house.do("uploads.complete", {"upload_id": made.upload_id}).session_id == session
    house.run(lambda desk: desk.write("big.bin", "x"), session_id=session)
    assert house.text(session, "big.bin") == BODY.decode()


def test_an_empty_granted_upload(house: House) -> None:
    made = grant(house, size=0, sha256=hashlib.sha256(b"").hexdigest())
    put(house, token_of(made), b"")
    answer = house.do("uploads.complete", {"upload_id": made.upload_id})
    assert house.text(answer.session_id, "big.bin") == ""


@pytest.mark.parametrize(("before", "good"), [(1, True), (0, False), (-1_000, False)])
def test_K7_a_grant_after_expiry(house: House, before: int, good: bool) -> None:
    made = grant(house)
    house.clock.now = made.expires_at * 1000 - before
    if good:
        put(house, token_of(made))
    else:
        assert code_of(lambda: put(house, token_of(made))) is Code.FORBIDDEN


def test_K7_a_grant_for_another_key(house: House) -> None:
    token = token_of(grant(house))
    payload, _, signature = token.partition(".")
    raw = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    for index, value in ((0, "p/two/s/x/y"), (1, 10**9), (2, "f" * 64), (3, 2**40)):
        forged = [*raw[:index], value, *raw[index + 1 :]]
        text = base64.urlsafe_b64encode(json.dumps(forged, separators=(",", ":")).encode()).decode().rstrip("=")
        assert code_of(partial(open_grant, house.room, f"{text}.{signature}")) is Code.FORBIDDEN


@pytest.mark.parametrize("token", ["", ".", "x", "x.y", "." * 100, "é.é", "\ud800.\ud800", "a" * 10_000, "a.b.c"])
def test_K7_a_forged_grant(house: House, token: str) -> None:
    assert code_of(lambda: open_grant(house.room, token)) is Code.FORBIDDEN


def test_K7_a_grant_of_another_deployment(house: House) -> None:
    from shared.operations.grants import SelfGrants  # noqa: PLC0415

    other = SelfGrants(b"z" * 32).upload("p/one/s/x/y", size=1, sha256=SHA, expires_at=2**40)
    assert code_of(lambda: open_grant(house.room, token_of(other))) is Code.FORBIDDEN


@pytest.mark.parametrize("body", [BODY + b"x", BODY[:-1], b"", b"other body"])
def test_K7_a_body_of_another_size_or_digest(house: House, body: bytes) -> None:
    made = grant(house)
    assert code_of(lambda: put(house, token_of(made), body)) is Code.INVALID_REQUEST
    assert code_of(lambda: house.do("uploads.complete", {"upload_id": made.upload_id})) is Code.INVALID_REQUEST
    put(house, token_of(made))
    house.do("uploads.complete", {"upload_id": made.upload_id})


def test_K7_a_grant_used_twice(house: House) -> None:
    made = grant(house)
    put(house, token_of(made))
    assert code_of(lambda: put(house, token_of(made))) is Code.EXISTS
    house.do("uploads.complete", {"upload_id": made.upload_id})
    assert code_of(lambda: put(house, token_of(made))) is Code.EXISTS


def test_completion_before_the_bytes_is_400_and_opens_nothing(house: House) -> None:
    made = grant(house)
    assert code_of(lambda: house.do("uploads.complete", {"upload_id": made.upload_id})) is Code.INVALID_REQUEST
    assert house.state.query("p/one", "session/") == []


def test_completing_twice_gives_the_same_answer_and_changes_nothing(house: House) -> None:
    made = grant(house)
    put(house, token_of(made))
    first = house.do("uploads.complete", {"upload_id": made.upload_id})
    house.do("files.delete", {"session_id": first.session_id, "file_id": "big.bin"})
    house.clock.forward(20_000_000)
    sweep(house.room)
    assert house.do("uploads.complete", {"upload_id": made.upload_id}) == first
    assert house.names(first.session_id) == []


def test_two_completions_at_once_join_it_once(house: House) -> None:
    made = grant(house)
    put(house, token_of(made))
    answers: list[Any] = []
    house.state.before = lambda _: answers.append(house.do("uploads.complete", {"upload_id": made.upload_id}))
    answers.append(house.do("uploads.complete", {"upload_id": made.upload_id}))
    assert answers[0] == answers[1]
    assert house.names(answers[0].session_id) == ["big.bin"]
    assert len(house.state.query("p/one", "session/")) == 1


def test_two_completions_at_once_in_a_session_that_is_there(house: House) -> None:
    session = house.put("a").session_id
    made = grant(house, session_id=session)
    put(house, token_of(made))

    def other(_: object) -> None:
        house.do("uploads.complete", {"upload_id": made.upload_id})
        house.do("files.delete", {"session_id": session, "file_id": "big.bin"})

    house.state.before = other
    house.do("uploads.complete", {"upload_id": made.upload_id})
    assert house.names(session) == ["a"]


def test_completion_is_one_transaction(house: House) -> None:
    made = grant(house)
    put(house, token_of(made))
    house.state.transactions.clear()
    house.do("uploads.complete", {"upload_id": made.upload_id})
    (actions,) = house.state.transactions
    assert sorted(action.sort.split("/")[0] for action in actions) == ["head", "record", "session"]


def test_completion_into_a_session_that_is_gone_is_404(house: House) -> None:
    session = house.put("a").session_id
    house.clock.forward(house.room.limits.session_ms - 1)
    made = grant(house, session_id=session)
    put(house, token_of(made))
    house.clock.forward(1)
    assert code_of(lambda: house.do("uploads.complete", {"upload_id": made.upload_id})) is Code.NOT_FOUND


@pytest.mark.parametrize(("waited", "good"), [(0, True), (1, False)])
def test_bytes_that_lay_unclaimed_are_not_joined_near_their_end(house: House, waited: int, good: bool) -> None:
    made = grant(house)
    put(house, token_of(made))
    house.objects.see()
    house.clock.forward(house.room.limits.grant_ms + waited)
    if good:
        house.do("uploads.complete", {"upload_id": made.upload_id})
    else:
        assert code_of(lambda: house.do("uploads.complete", {"upload_id": made.upload_id})) is Code.INVALID_REQUEST
        assert house.state.query("p/one", "session/") == []


@pytest.mark.parametrize(("passed", "good"), [(86_399_999, True), (86_400_000, False)])
def test_a_completed_upload_is_known_for_24_hours(house: House, passed: int, good: bool) -> None:
    made = grant(house)
    put(house, token_of(made))
    first = house.do("uploads.complete", {"upload_id": made.upload_id})
    house.clock.forward(passed)
    if good:
        assert house.do("uploads.complete", {"upload_id": made.upload_id}) == first
    else:
        assert code_of(lambda: house.do("uploads.complete", {"upload_id": made.upload_id})) is Code.NOT_FOUND


def test_a_foreign_or_unknown_upload_is_404(house: House) -> None:
    made = grant(house, project="two")
    put(house, token_of(made))
    bodies = []
    for upload_id in (made.upload_id, "u" * 21, "x", "../x", "\ud800"):
        with pytest.raises(Failure) as refusal:
            house.do("uploads.complete", {"upload_id": upload_id})
        bodies.append(refusal.value.body())
    assert all(body == bodies[0] for body in bodies)
    assert bodies[0]["error"] == "not_found"
    assert house.do("uploads.complete", {"upload_id": made.upload_id}, project="two").message == "success"


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"size": 150 * 2**20 + 1}, "size"), ({"size": -1}, "size"), ({"size": "5"}, "size"), ({"size": 1.0}, "size"),
        ({"sha256": ""}, "sha256"), ({"sha256": SHA.upper()}, "sha256"), ({"sha256": SHA[:-1]}, "sha256"),
        ({"session_id": ""}, "session_id"), ({"read_only": "yes"}, "read_only"), ({"other": 1}, "other"),
    ],
)  # fmt: skip
def test_a_bad_request_for_a_grant_is_named(house: House, data: dict[str, Any], field: str) -> None:
    with pytest.raises(Failure) as refusal:
        grant(house, **data)
    assert (refusal.value.code, refusal.value.field) == (Code.INVALID_REQUEST, field)
    assert house.state.transactions == []


def test_a_grant_for_a_session_that_is_not_there_is_404(house: House) -> None:
    assert code_of(lambda: grant(house, session_id="u" * 21)) is Code.NOT_FOUND


def test_a_download_is_the_bytes_and_says_when_they_are_not(house: House) -> None:
    session = house.put("d/a.csv", "0123456789").session_id
    found = open_file(house.room, house.call(), session, "d/a.csv")
    assert (found.name, found.size, found.content_type) == ("d/a.csv", 10, "text/csv")
    assert b"".join(found.pieces(house.room)) == b"0123456789"
    assert b"".join(found.pieces(house.room, 3, 4)) == b"3456"
    assert b"".join(found.pieces(house.room, 10, 0)) == b""
    path = next(
        path for path in (house.data / "objects").rglob("*") if path.is_file() and path.read_bytes() == b"0123456789"
    )
    path.chmod(0o600)
    path.write_bytes(b"012345678X")
    with pytest.raises(DigestMismatch):
        list(found.pieces(house.room))


def test_an_empty_file_downloads_as_nothing(house: House) -> None:
    session = house.put("empty", "").session_id
    assert list(open_file(house.room, house.call(), session, "empty").pieces(house.room)) == []
