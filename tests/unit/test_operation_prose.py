"""Every operation is declared once, with its prose: no door invents any (DESIGN §2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from shared.errors import Code, Failure
from shared.operations.all import operations
from shared.operations.base import Call, Nothing, Operation, operation, read_model
from tests.fakes import House

ALL = operations()


def models(annotation: object) -> Iterator[type[BaseModel]]:
    """Every model that an annotation reaches."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for info in annotation.model_fields.values():
            yield from models(info.annotation)
    for part in getattr(annotation, "__args__", ()):
        yield from models(part)


@pytest.mark.parametrize("declared", ALL.values(), ids=list(ALL))
def test_the_summary_is_a_sentence_and_no_functions_name(declared: Operation[Any, Any]) -> None:
    summary = declared.summary
    assert re.fullmatch(r"[A-Z][^\n]{8,}[^.\s]", summary), summary
    spelled = summary.lower().replace(" ", "_")
    names = {declared.code.__name__, declared.name, declared.name.replace(".", "_"), declared.name.split(".")[1]}
    assert spelled not in {name.lower() for name in names}
    assert len(summary.split()) >= 3


@pytest.mark.parametrize("declared", ALL.values(), ids=list(ALL))
def test_every_published_field_has_a_description(declared: Operation[Any, Any]) -> None:
    for model in {*models(declared.input), *models(declared.output)}:
        assert model.__doc__, model
        if issubclass(model, RootModel):
            continue
        for name, info in model.model_fields.items():
            text = info.description or ""
            assert text, f"{model.__name__}.{name}"
            assert text[0] in "`" or text[0].isupper() or text.split()[0].rstrip(":,") in (
                "running", "ok", "success", "success;",
            ), f"{model.__name__}.{name}: {text}"  # fmt: skip
            assert name.replace("_", " ").lower() != text.rstrip(".").lower()


def test_summaries_are_all_different() -> None:
    assert len({one.summary for one in ALL.values()}) == len(ALL)


def test_prose_is_split_at_the_first_sentence() -> None:
    run = ALL["exec.run"]
    assert run.summary == "Run a program"
    assert run.description.startswith("It runs in a sandbox")
    assert "\n\n" in run.description


def test_the_operations_are_those_that_the_doors_expect() -> None:
    assert set(ALL) == {
        "exec.run", "exec.start", "exec.programmatic", "exec.programmatic_cancel", "runs.get", "files.list",
        "files.stat", "files.delete", "files.read", "files.write", "uploads.create", "uploads.complete", "health.get",
        "keys.create", "keys.list", "keys.revoke", "sources.get", "sources.list", "sources.delete",
        "sources.begin_upload", "sources.complete_upload", "sources.cancel_upload",
        "writes.list", "writes.get", "writes.settle",
        "agents.create", "agents.get", "agents.list", "agents.update", "agents.delete",
        "sessions.create", "sessions.get", "sessions.list", "sessions.update", "sessions.delete", "events.create",
        "turns.get", "turns.list", "turns.items", "items.list", "subagents.list",
        "artifacts.get", "artifacts.list", "artifacts.delete",
        "environments.get", "environments.list_files", "environments.create_file",
    }  # fmt: skip


def test_operators_operations_have_no_route() -> None:
    for one in ALL.values():
        if one.audience == "operator":
            assert one.route is None
    assert {one.name for one in ALL.values() if one.audience == "operator"} == {
        "keys.create", "keys.list", "keys.revoke", "writes.list", "writes.get", "writes.settle",
    }  # fmt: skip


def test_every_address_of_the_alias_set_is_there_under_both_bases() -> None:
    paths = {(o.route.method, path) for o in ALL.values() if o.route is not None for path in o.route.paths}
    for method, path in [
        ("POST", "exec"), ("POST", "exec/programmatic"), ("POST", "exec/programmatic/cancel"),
        ("GET", "files/{session_id}"), ("DELETE", "files/{session_id}/{file_id:path}"),
        ("GET", "sessions/{session_id}/objects/{file_id:path}"),
    ]:  # fmt: skip
        assert (method, f"/v1/{path}") in paths
        assert (method, f"/v1/exec/{path}") in paths


@pytest.mark.parametrize("declared", ALL.values(), ids=list(ALL))
def test_H3_without_an_admitted_caller_nothing_runs(declared: Operation[Any, Any], house: House) -> None:
    house.state.gets = 0
    data = declared.input.model_construct()
    if declared.open:
        assert declared.run(house.room, Call(None), data).model_dump() == {"status": "ok"}
        return
    with pytest.raises(Failure) as refusal:
        declared.run(house.room, Call(None), data)
    assert refusal.value.code is Code.FORBIDDEN
    assert refusal.value.code.status == 403
    assert (house.state.gets, house.state.transactions, house.executor.requests) == (0, [], [])


def test_only_liveness_is_open_to_anyone() -> None:
    assert [one.name for one in ALL.values() if one.open] == ["health.get"]


def test_A8_16_null_is_as_absent_at_every_depth() -> None:
    run = ALL["exec.run"]
    given = {
        "lang": "py", "code": "1", "args": None, "session_id": None, "timeout": None,
        "files": [{"id": "a", "name": None, "session_id": None}],
    }  # fmt: skip
    assert run.parse(given) == run.parse({"lang": "py", "code": "1", "files": [{"id": "a"}]})
    with pytest.raises(Failure, match="invalid_request") as refusal:
        run.parse({"lang": None, "code": "1"})
    assert refusal.value.field == "lang"


def test_unknown_members_are_ignored_by_one_door_and_refused_by_another() -> None:
    run = ALL["exec.run"]
    known = {"lang": "py", "code": "1"}
    assert run.parse({**known, "apiKey": "secret", "intent": [1]}, closed=False) == run.parse(known)
    for given, field in (
        ({**known, "apiKey": "secret"}, "apiKey"),
        ({**known, "files": [{"id": "a", "kind": "user"}]}, "files[0].kind"),
        ({**known, "\ud800": 1}, "\\ud800"),
    ):
        with pytest.raises(Failure) as refusal:
            run.parse(given)
        assert refusal.value.field == field
        refusal.value.message.encode("utf-8")
        assert "secret" not in refusal.value.message


@pytest.mark.parametrize("member", ["unknown", "files", "args"])
def test_a_deeply_nested_body_is_refused_or_ignored_never_an_accident(member: str) -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    run = ALL["exec.run"]
    if member == "unknown":
        assert run.parse({"lang": "py", "code": "1", "unknown": deep}, closed=False).code == "1"
        return
    with pytest.raises(Failure) as refusal:
        run.parse({"lang": "py", "code": "1", member: deep})
    assert refusal.value.code is Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"code": "1"}, "lang"), ({"lang": "py"}, "code"), ({"lang": "python", "code": "1"}, "lang"),
        ({"lang": 1, "code": "1"}, "lang"),
        ({"lang": "py", "code": 1}, "code"), ({"lang": "py", "code": ["1"]}, "code"),
        ({"lang": "py", "code": "1", "args": "a b"}, "args"), ({"lang": "py", "code": "1", "args": [1]}, "args[0]"),
        ({"lang": "py", "code": "1", "args": [None]}, "args[0]"),
        ({"lang": "py", "code": "1", "timeout": "5"}, "timeout"),
        ({"lang": "py", "code": "1", "timeout": 0}, "timeout"),
        ({"lang": "py", "code": "1", "timeout": -1}, "timeout"),
        ({"lang": "py", "code": "1", "timeout": 1.5}, "timeout"),
        ({"lang": "py", "code": "1", "timeout": True}, "timeout"),
        ({"lang": "py", "code": "1", "files": {}}, "files"), ({"lang": "py", "code": "1", "files": [1]}, "files[0]"),
        ({"lang": "py", "code": "1", "files": [{}]}, "files[0].id"),
        ({"lang": "py", "code": "1", "files": [{"id": "a"}, {"id": 5}]}, "files[1].id"),
        ({"lang": "py", "code": "1", "session_id": 7}, "session_id"),
    ],
)  # fmt: skip
def test_each_wrong_member_is_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Failure) as refusal:
        ALL["exec.run"].parse(given)
    assert refusal.value.code is Code.INVALID_REQUEST
    assert refusal.value.field == field
    assert f"`{field}`" in refusal.value.message


def test_an_unknown_language_is_answered_with_the_set() -> None:
    with pytest.raises(Failure) as refusal:
        ALL["exec.run"].parse({"lang": "cobol", "code": "1"})
    for lang in ("py", "js", "ts", "c", "cpp", "java", "php", "rs", "go", "d", "f90", "r", "bash"):
        assert f"'{lang}'" in refusal.value.message


@pytest.mark.parametrize("data", [[], "x", 1, None, True])
def test_an_input_is_an_object(data: object) -> None:
    with pytest.raises(Failure) as refusal:
        ALL["health.get"].parse(data)
    assert refusal.value.code is Code.INVALID_REQUEST


def test_an_operation_is_declared_once() -> None:
    def again(room: Any, call: Call, data: Nothing) -> Nothing:
        """Do it again."""
        return data

    with pytest.raises(ValueError, match="twice"):
        operation("health.get")(again)


def test_a_value_is_never_repeated_in_a_refusal() -> None:
    with pytest.raises(Failure) as refusal:
        read_model(ALL["exec.run"].input, {"lang": "secret-value", "code": "1"})
    assert "secret-value" not in refusal.value.message


def test_programmatic_calling_is_501_for_an_admitted_caller(house: House) -> None:
    with pytest.raises(Failure) as refusal:
        house.do("exec.programmatic")
    assert refusal.value.code.status == 501
    assert refusal.value.body()["error"] == "unsupported_capability"
    assert "continuation token" in refusal.value.message
    assert house.do("exec.programmatic_cancel").model_dump() == {"status": "accepted"}
    assert ALL["exec.programmatic_cancel"].status == 202
