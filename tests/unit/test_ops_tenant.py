"""Who may share an environment of the executor with a run (DESIGN §7)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from shared.executor.wire import RunRequest
from shared.identity import Caller
from shared.operations.base import Call, operations
from shared.operations.room import Isolation
from tests.fakes import House

SHAPE = re.compile(r"^[A-Za-z0-9_-]{43}$")
KEYED, ANNA, BERT = Caller("one", "k"), Caller("one", "jwt", "anna"), Caller("one", "jwt", "bert")
ELSEWHERE = Caller("two", "jwt", "anna")


def tenant(house: House, isolation: Isolation, caller: Caller = KEYED, **data: Any) -> str:
    """The tenant of a run."""
    room = replace(house.room, isolation=isolation)
    operations()["exec.run"].call_with(room, Call(caller), {"lang": "py", "code": "x", **data})
    made = house.executor.requests[-1].tenant
    assert SHAPE.match(made)
    return made


def session(house: House, caller: Caller = KEYED) -> str:
    made: str = operations()["exec.run"].call_with(house.room, Call(caller), {"lang": "py", "code": "x"}).session_id
    return made


def test_the_scope_is_the_session_where_nobody_says_otherwise(house: House) -> None:
    assert house.room.isolation == "session"


def test_each_session_has_an_environment_of_its_own(house: House) -> None:
    one, two = session(house), session(house)
    mine = tenant(house, "session", session_id=one)
    assert mine == tenant(house, "session", session_id=one, user_id="u")
    assert mine == tenant(house, "session", BERT, session_id=one)
    assert mine != tenant(house, "session", session_id=two)
    assert len({mine, *(tenant(house, "session") for _ in range(3))}) == 4


def test_a_project_has_one_environment_and_two_have_two(house: House) -> None:
    assert len({tenant(house, "project", caller, user_id="u") for caller in (KEYED, ANNA, BERT)}) == 1
    assert tenant(house, "project") != tenant(house, "project", ELSEWHERE)


def test_a_user_is_the_subject_of_a_token_whatever_the_label_says(house: House) -> None:
    anna = tenant(house, "user", ANNA)
    assert anna == tenant(house, "user", ANNA, user_id="bert", session_id=session(house))
    assert anna != tenant(house, "user", BERT, user_id="anna")


def test_a_user_is_else_the_label_and_else_the_session(house: House) -> None:
    anna = tenant(house, "user", user_id="anna")
    assert anna == tenant(house, "user", user_id="anna")
    assert anna != tenant(house, "user", user_id="bert")
    assert anna != tenant(house, "user", ANNA), "a label is not a proven subject"
    assert tenant(house, "user") != tenant(house, "user")
    assert tenant(house, "user", user_id="") != tenant(house, "user", user_id="")
    one = session(house)
    assert tenant(house, "user", session_id=one) == tenant(house, "session", session_id=one)


@pytest.mark.parametrize("label", ["u", "../two", "two\n", "é" * 400])
def test_a_user_of_one_project_is_never_one_of_another(house: House, label: str) -> None:
    there = Caller("two", "k")
    assert tenant(house, "user", user_id=label) != tenant(house, "user", there, user_id=label)
    assert tenant(house, "user", ANNA) != tenant(house, "user", ELSEWHERE)


def test_no_two_scopes_meet(house: House) -> None:
    """A label that spells a session's id, or is empty, is no session and no project."""
    one = session(house)
    scopes = {
        tenant(house, "session", session_id=one),
        tenant(house, "user", user_id=one),
        tenant(house, "user", Caller("one", "jwt", one)),
        tenant(house, "project", session_id=one),
    }
    assert len(scopes) == 4


def test_a_caller_cannot_compute_it_without_the_deployments_secret(house: House) -> None:
    mine = tenant(house, "user", ANNA)
    house.room = replace(house.room, secret=bytes(32))
    assert tenant(house, "user", ANNA) != mine


def test_it_is_no_part_of_the_wire(house: House) -> None:
    made = tenant(house, "user", ANNA)
    request = house.executor.requests[-1]
    assert made not in json.dumps(request.to_json())
    assert "tenant" not in request.to_json()
    assert RunRequest.of(json.loads(json.dumps(request.to_json()))) == replace(request, tenant="", share="")
