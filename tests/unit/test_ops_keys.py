"""Keys and admission: exec.md A8.7, cases.md K14. Only hashes are kept."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest

from shared.errors import Code, Failure
from shared.operations.admission import Credentials, admit
from shared.operations.keys import new_key, put_key
from shared.store.ports import Conflict
from tests.fakes import House

FOREIGN_BEARER = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2ln"


def make(house: House, project: str = "one", **data: Any) -> Any:
    return house.do("keys.create", {"project": project, **data})


def refused(house: House, **sent: str) -> Failure:
    with pytest.raises(Failure) as refusal:
        admit(house.room, Credentials(**sent))
    return refusal.value


def test_a_key_admits_to_its_project_by_each_header(house: House) -> None:
    made = make(house)
    assert re.fullmatch(r"wr_[A-Za-z0-9_-]{42}", made.key)
    for name in ("api_key", "bearer", "basic"):
        caller = admit(house.room, Credentials(**{name: made.key}))
        assert (caller.project, caller.key_id) == ("one", made.id)
    every = Credentials(api_key=made.key, bearer=made.key, basic=made.key)
    assert admit(house.room, every).project == "one"


def test_A8_7_a_bearer_of_another_format_is_ignored_beside_a_valid_key(house: House) -> None:
    made = make(house)
    for other in (FOREIGN_BEARER, "", "wr_short", "é", "\ud800", "x" * 10_000):
        assert admit(house.room, Credentials(api_key=made.key, bearer=other)).project == "one"
        assert admit(house.room, Credentials(basic=made.key, bearer=other)).project == "one"


def test_A8_7_two_valid_keys_of_one_project_are_fine_and_of_two_projects_are_401(house: House) -> None:
    one, again, two = make(house), make(house), make(house, "two")
    assert admit(house.room, Credentials(api_key=one.key, bearer=again.key)).project == "one"
    for first, second in (("api_key", "bearer"), ("api_key", "basic"), ("basic", "bearer")):
        assert refused(house, **{first: one.key, second: two.key}).code is Code.UNAUTHORIZED


def test_A8_7_none_or_wrong_is_401_in_one_and_the_same_words(house: House) -> None:
    made = make(house)
    wrong = "wr_" + "x" * 42
    revoked = make(house)
    house.do("keys.revoke", {"id": revoked.id})
    tries: list[dict[str, str]] = [
        {}, {"api_key": ""}, {"api_key": wrong}, {"bearer": wrong}, {"basic": wrong}, {"api_key": made.key[:-1]},
        {"api_key": made.key + "x"}, {"api_key": made.key.upper()}, {"api_key": " " + made.key},
        {"api_key": revoked.key}, {"bearer": FOREIGN_BEARER}, {"basic": "lc"}, {"api_key": "\ud800"},
        {"api_key": made.id}, {"api_key": hashlib.sha256(made.key.encode()).hexdigest()}, {"api_key": "x" * 100_000},
        {"api_key": wrong, "bearer": made.key}, {"api_key": made.key, "bearer": wrong},
    ]  # fmt: skip
    answers = {(f.code, f.message, str(f.headers())) for f in (refused(house, **sent) for sent in tries)}
    assert answers == {(Code.UNAUTHORIZED, Code.UNAUTHORIZED.value.text, "{}")}


def test_A8_7_no_key_at_all_is_503(house: House) -> None:
    assert refused(house).code is Code.NOT_CONFIGURED
    assert refused(house, api_key="wr_" + "x" * 42).code is Code.NOT_CONFIGURED
    make(house)
    assert refused(house).code is Code.UNAUTHORIZED


def test_a_development_key_admits_only_where_the_setting_says_so(house: House) -> None:
    key = new_key()
    row = {"id": "development", "project": "dev", "name": "", "created": 0, "until": None, "development": True}
    put_key(house.room, key, row)
    assert refused(house, api_key=key).code is Code.NOT_CONFIGURED
    object.__setattr__(house.room, "dev_key", True)
    assert admit(house.room, Credentials(api_key=key)).project == "dev"
    assert refused(house).code is Code.UNAUTHORIZED
    assert house.do("keys.list").keys[0].development is True


@pytest.mark.parametrize(("passed", "good"), [(59_999, True), (60_000, False)])
def test_a_key_ends_at_the_exact_millisecond(house: House, passed: int, good: bool) -> None:
    made = make(house, expires_in_s=60)
    assert made.expires_at == "2027-01-15T08:01:00.000Z"
    house.clock.forward(passed)
    if good:
        assert admit(house.room, Credentials(api_key=made.key)).project == "one"
    else:
        assert refused(house, api_key=made.key).code is Code.UNAUTHORIZED


def test_a_revoked_key_is_refused_at_once_and_its_project_stays(house: House) -> None:
    first, second = make(house, name="a"), make(house, name="b")
    session = house.put("a").session_id
    assert house.do("keys.revoke", {"id": first.id}).id == first.id
    assert refused(house, api_key=first.key).code is Code.UNAUTHORIZED
    assert admit(house.room, Credentials(api_key=second.key)).project == "one"
    assert house.names(session) == ["a"]
    with pytest.raises(Failure) as refusal:
        house.do("keys.revoke", {"id": first.id})
    assert refusal.value.code is Code.NOT_FOUND


def test_the_secret_is_nowhere_in_the_data_folder(house: House) -> None:
    made = make(house, name="for the chat")
    admit(house.room, Credentials(api_key=made.key))
    files = [path for path in house.data.rglob("*") if path.is_file()]
    assert any(b"for the chat" in path.read_bytes() for path in files), "the state file is among them"
    for path in files:
        assert made.key.encode() not in path.read_bytes(), path
        assert made.key[3:].encode() not in path.read_bytes(), path


def test_a_list_shows_no_secret(house: House) -> None:
    made = [make(house, name="a"), make(house, "two", expires_in_s=1)]
    rows = house.do("keys.list")
    assert {row.id for row in rows.keys} == {one.id for one in made}
    assert {row.project for row in rows.keys} == {"one", "two"}
    for one in made:
        assert one.key not in rows.model_dump_json()


def test_many_keys_are_all_listed(house: House) -> None:
    for number in range(501):
        row = {"id": str(number), "project": "one", "name": "", "created": 0, "until": None}
        house.state.inner.transact([put_new(number, row)])
    assert len(house.do("keys.list").keys) == 501
    house.do("keys.revoke", {"id": "500"})
    assert len(house.do("keys.list").keys) == 500


def put_new(number: int, row: dict[str, Any]) -> Any:
    from shared.store.ports import PutNew  # noqa: PLC0415

    return PutNew("keys", hashlib.sha256(str(number).encode()).hexdigest(), row)


def test_two_first_keys_of_one_project_at_once_are_both_made(house: House) -> None:
    others: list[Any] = []
    house.state.before = lambda _: others.append(make(house))
    mine = make(house)
    for made in (mine, others[0]):
        assert admit(house.room, Credentials(api_key=made.key)).project == "one"
    assert [row.sort for row in house.state.query("sys", "project/")] == ["project/one"]


def test_a_key_is_never_made_twice(house: House) -> None:
    key = new_key()
    row = {"id": "a", "project": "one", "name": "", "created": 0, "until": None}
    put_key(house.room, key, row)
    with pytest.raises(Conflict):
        put_key(house.room, key, {**row, "project": "two"})
    assert admit(house.room, Credentials(api_key=key)).project == "one"


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"project": ""}, "project"), ({"project": "A"}, "project"), ({"project": "a/b"}, "project"),
        ({"project": "a" * 41}, "project"), ({"project": "-a"}, "project"), ({}, "project"),
        ({"project": 1}, "project"),
        ({"project": "a", "name": "x" * 1_025}, "name"), ({"project": "a", "name": "\0"}, "name"),
        ({"project": "a", "expires_in_s": 0}, "expires_in_s"), ({"project": "a", "expires_in_s": "1"}, "expires_in_s"),
    ],
)  # fmt: skip
def test_a_bad_request_for_a_key_is_named(house: House, data: dict[str, Any], field: str) -> None:
    with pytest.raises(Failure) as refusal:
        house.do("keys.create", data)
    assert (refusal.value.code, refusal.value.field) == (Code.INVALID_REQUEST, field)
    assert house.state.transactions == []


def test_a_key_that_ends_beyond_all_clocks_is_still_listed(house: House) -> None:
    made = make(house, expires_in_s=2**60)
    assert made.expires_at == "9999-12-31T23:59:59.999Z"
    assert admit(house.room, Credentials(api_key=made.key)).project == "one"
