"""Ids of the Agents API: opaque, prefixed, ordered, 120 random bits at least (agents.md 11.17, 11.25, 11.26)."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.agents import ids
from shared.domain.ids import is_short_id

SPELLED = {
    "sess": "sess_", "env": "env_", "turn": "turn_", "item": "item_", "art": "art_", "agent": "agent_",
    "evt": "evt_", "call": "call_", "write": "write_", "file": "file-",
}  # fmt: skip
STAMPED = ("sess", "env", "agent", "file")
NUMBERED = ("turn", "item", "art", "evt")


def made(prefix: ids.Prefix) -> str:
    place = ids.stamp(1_800_000_000_000) if prefix in STAMPED else ids.order(7) if prefix in NUMBERED else ""
    return ids.new(prefix, os.urandom, place)


@pytest.mark.parametrize("prefix", ids.PREFIXES)
def test_11_17_an_id_is_prefixed_opaque_and_random_beyond_its_order(prefix: ids.Prefix) -> None:
    text = made(prefix)
    assert text.startswith(SPELLED.get(prefix, f"{prefix}_"))
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    asked: list[int] = []

    def counting(count: int) -> bytes:
        asked.append(count)
        return os.urandom(count)

    ids.new(prefix, counting, ids.stamp(1) if prefix in STAMPED else ids.order(1) if prefix in NUMBERED else "")
    assert sum(asked) * 8 >= 120
    assert made(prefix) != text


def test_every_random_bit_stands_in_the_id() -> None:
    def only(bit: int) -> ids.Random:
        return lambda count: (1 << bit).to_bytes(count, "big")

    found = {ids.new("call", only(bit)) for bit in range(144)}
    assert len(found) == 144


def test_11_25_a_source_file_s_id_begins_with_file_and_is_no_id_of_exec() -> None:
    text = made("file")
    assert text.startswith("file-")
    assert not is_short_id(text)
    assert not is_short_id(made("sess"))


@pytest.mark.parametrize("prefix", ids.PREFIXES)
def test_an_id_is_one_of_its_own_prefix_only(prefix: ids.Prefix) -> None:
    text = made(prefix)
    assert [other for other in ids.PREFIXES if ids.is_id(text, other)] == [prefix]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text + "a",
        lambda text: text[:-1],
        lambda text: text[:-1] + "/",
        lambda text: text[:-1] + "\n",
        lambda text: text + "\n",
        lambda text: text[:-1] + "é",
        lambda text: text.upper(),
        lambda text: " " + text[1:],
        lambda text: text[:5] + "Z" * 8 + text[13:],
        lambda text: "x" * 5_000,
    ],
)
def test_11_17_a_malformed_id_is_a_missing_one(change: object) -> None:
    assert callable(change)
    text = change(made("turn"))
    assert not ids.is_id(text, "turn")
    assert ids.sequence_of(text, "turn") is None


@given(st.lists(st.integers(0, 32**8 - 1), min_size=2))
def test_11_26_the_order_of_ids_is_the_order_of_the_sequence(numbers: list[int]) -> None:
    by_number = [ids.new("item", os.urandom, ids.order(number)) for number in sorted(set(numbers))]
    assert by_number == sorted(by_number)
    assert [ids.sequence_of(text, "item") for text in by_number] == sorted(set(numbers))


@given(st.integers(0, 2**45 - 1), st.integers(0, 2**45 - 1))
def test_stamps_sort_as_times_do(one: int, other: int) -> None:
    assert (ids.stamp(one) < ids.stamp(other)) is (one < other)


@pytest.mark.parametrize("number", [-1, 32**8])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="range"):
        ids.order(number)


@pytest.mark.parametrize(("prefix", "place"), [("turn", ""), ("call", "00000000"), ("turn", "0000000w"), ("sess", "0")])
def test_an_id_without_its_place_is_not_made(prefix: ids.Prefix, place: str) -> None:
    with pytest.raises(ValueError, match="place"):
        ids.new(prefix, os.urandom, place)


def test_a_poor_source_of_random_bytes_is_not_taken() -> None:
    with pytest.raises(ValueError, match="random"):
        ids.new("call", lambda count: b"\0" * (count - 3))


def test_a_session_and_its_environment_name_each_other() -> None:
    session = made("sess")
    environment = ids.environment_of(session)
    assert ids.is_id(environment, "env")
    assert ids.session_of(environment) == session
    assert ids.session_of(session) is None
    assert ids.session_of("env_") is None
