"""What a run leaves in the store: packs, large objects, manifests, limits of a workspace (DESIGN §4)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fakes import Desk, House, writes


def write(path: str, text: str | bytes = "text") -> Callable[[Desk], None]:
    """A program that writes one file."""
    return lambda desk: desk.write(path, text)


def sessions(house: House) -> list[str]:
    return [row.sort for row in house.state.query("p/one", "session/")]


def test_small_outputs_share_an_object_and_large_ones_have_their_own(build: Callable[..., House]) -> None:
    house = build(small_file_bytes=10, inline_bytes=100)

    def script(desk: Desk) -> None:
        for name in ("a", "b", "c"):
            desk.write(name, name * 10)
        desk.write("large", "L" * 11)
        desk.write("empty", "")

    session = house.run(script).session_id
    keys = [info.key for info in house.room.objects.list(f"p/one/s/{session}/")]
    assert len(keys) == 2
    for name, text in (("a", "a" * 10), ("c", "c" * 10), ("large", "L" * 11), ("empty", "")):
        assert house.text(session, name) == text


def test_no_path_ever_stands_in_a_key(house: House) -> None:
    session = house.run(write("plans/secret-name.txt")).session_id
    for info in house.room.objects.list("p/"):
        assert "secret" not in info.key
        assert len(info.key.rsplit("/", 1)[1]) == 21
        assert info.key.startswith(f"p/one/s/{session}/")


def test_compaction_after_N_packs_keeps_every_byte(build: Callable[..., House]) -> None:
    house = build(packs=3)
    session = house.put("ro", "read only", read_only=True).session_id
    expected = {"ro": "read only"}
    repacked = 0
    for number in range(10):
        name, text = f"f{number}", f"content {number}"
        answer = house.run(write(name, text), session_id=session)
        assert [file.name for file in answer.files] == [name]
        expected[name] = text
        repacked += house.executor.requests[-1].repack
        assert {path: house.text(session, path) for path in house.names(session)} == expected
    assert repacked >= 2
    house.run(session_id=session)
    assert len(house.executor.requests[-1].reads) <= house.room.limits.packs + 1
    stored = {entry.path: entry for entry in house.executor.requests[-1].manifest}
    assert stored["ro"].read_only


def test_compaction_does_not_make_files_look_new(build: Callable[..., House]) -> None:
    house = build(packs=1)
    session = house.run(write("a", "1")).session_id
    house.run(write("b"), session_id=session)
    before = house.do("files.stat", {"session_id": session, "file_id": "a"})
    house.clock.forward(5_000)
    answer = house.run(session_id=session)
    assert house.executor.requests[-1].repack
    assert answer.files == []
    assert house.do("files.stat", {"session_id": session, "file_id": "a"}) == before


def test_a_large_manifest_is_an_object_and_a_small_one_is_not(build: Callable[..., House]) -> None:
    house = build(inline_item_bytes=2_000)
    session = house.run(write("a")).session_id
    head = house.state.get(f"p/one/s/{session}", "head")
    assert head is not None
    assert head.attributes["inline"]
    assert not head.attributes["pointer"]
    files = [(hashlib.sha256(bytes([n])).hexdigest(), bytes([n])) for n in range(99)]
    house.run(writes(*files), session_id=session)
    head = house.state.get(f"p/one/s/{session}", "head")
    assert head is not None
    assert not head.attributes["inline"]
    assert house.room.objects.head(head.attributes["pointer"]) is not None
    again = house.again()
    assert len(again.names(session)) == 100


def test_a_run_that_changes_nothing_writes_no_manifest_and_no_object(house: House) -> None:
    session = house.run(write("a")).session_id
    before = house.room.objects.list("p/")
    house.run(session_id=session)
    assert house.room.objects.list("p/") == before


def test_a_manifest_is_decoded_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    session = house.run(write("a")).session_id
    house = house.again()
    from shared.domain.manifest import Manifest  # noqa: PLC0415

    decoded: list[int] = []
    original = Manifest.decode

    def counted(data: bytes) -> Manifest:
        decoded.append(1)
        return original(data)

    monkeypatch.setattr(Manifest, "decode", counted)
    for _ in range(3):
        house.run(session_id=session)
        house.names(session)
    assert len(decoded) == 1


def test_names_above_their_limit_are_not_kept_and_the_session_lives(build: Callable[..., House]) -> None:
    house = build(names_bytes=200)
    session = house.run(write("a", "1")).session_id

    def script(desk: Desk) -> None:
        desk.stdout = "ok"
        for number in range(10):
            desk.write(f"{number}" * 50, "x")

    answer = house.run(script, session_id=session)
    assert (answer.stdout, answer.files, answer.deleted_files) == ("ok", [], [])
    assert answer.stderr == "workroom: no change was kept: the workspace would hold more than 200 bytes of names\n"
    assert house.names(session) == ["a"]
    assert house.run(write("b"), session_id=session).files[0].name == "b"


def test_read_only_files_that_were_put_back_cannot_fill_a_session_above_its_limits(build: Callable[..., House]) -> None:
    house = build(workspace_bytes=1_000, inline_bytes=1_000)
    session = house.put("ro", "r" * 600, read_only=True).session_id

    def script(desk: Desk) -> None:
        desk.remove("ro")
        desk.write("big", "b" * 900)

    answer = house.run(script, session_id=session)
    assert "no change was kept" in answer.stderr
    assert house.names(session) == ["ro"]
    assert house.run(write("small"), session_id=session).files[0].name == "small"


def test_a_session_above_a_limit_that_was_lowered_can_still_be_emptied(build: Callable[..., House]) -> None:
    house = build()
    session = house.run(writes(*((name, "x" * 50) for name in "abcd"))).session_id
    lower = house.again()
    object.__setattr__(lower.room, "limits", replace(lower.room.limits, workspace_bytes=100, workspace_entries=2))
    assert lower.run(session_id=session).code == 0
    assert lower.run(lambda desk: desk.remove("a"), session_id=session).deleted_files == ["a"]
    assert lower.names(session) == ["b", "c", "d"]
