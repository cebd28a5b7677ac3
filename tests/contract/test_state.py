"""The state port, sentence by sentence (shared/store/ports.py)."""

from __future__ import annotations

import itertools
import random
import string
from typing import Any

import pytest

from shared.store.ports import (
    MAX_ITEM_BYTES,
    MAX_TRANSACT,
    MAX_TRANSACT_BYTES,
    Action,
    Check,
    Conflict,
    DeleteIf,
    Item,
    ItemTooLarge,
    Loss,
    PutIf,
    PutNew,
    State,
)

from .adapters import cases, rounds


def test_an_unknown_item_is_none(state: State) -> None:
    assert state.get("p", "a") is None
    assert state.query("p") == []


def test_the_version_is_one_and_grows_by_one_with_each_put(state: State) -> None:
    assert state.transact([PutNew("p", "a", {"n": 0})]) == [1]
    for version in range(1, 6):
        assert state.transact([PutIf("p", "a", version, {"n": version})]) == [version + 1]
        assert state.get("p", "a") == Item("p", "a", version + 1, {"n": version})


def test_a_put_replaces_all_attributes(state: State) -> None:
    state.transact([PutNew("p", "a", {"old": 1, "both": 1})])
    state.transact([PutIf("p", "a", 1, {"both": 2})])
    assert state.get("p", "a") == Item("p", "a", 2, {"both": 2})


def test_an_item_put_after_its_deletion_is_at_version_one(state: State) -> None:
    state.transact([PutNew("p", "a", {})])
    state.transact([PutIf("p", "a", 1, {})])
    assert state.transact([DeleteIf("p", "a", 2)]) == [0]
    assert state.get("p", "a") is None
    assert state.transact([PutNew("p", "a", {})]) == [1]


def test_a_transaction_returns_the_versions_in_the_order_of_its_actions(state: State) -> None:
    state.transact([PutNew("p", "b", {}), PutNew("p", "c", {}), PutNew("q", "a", {})])
    state.transact([PutIf("p", "b", 1, {})])
    actions: list[Action] = [
        DeleteIf("p", "c", 1),
        PutIf("p", "b", 2, {}),
        Check("q", "a", 1),
        PutNew("p", "a", {}),
        Check("q", "b", None),
    ]
    assert state.transact(actions) == [0, 3, 0, 1, 0]


LOSING: list[tuple[Action, bool]] = [
    (PutNew("p", "there", {"new": 1}), True),
    (PutIf("p", "there", 1, {"new": 1}), True),
    (PutIf("p", "there", 3, {"new": 1}), True),
    (PutIf("p", "there", 0, {"new": 1}), True),
    (PutIf("p", "absent", 1, {"new": 1}), False),
    (PutIf("p", "absent", 0, {"new": 1}), False),
    (DeleteIf("p", "there", 1), True),
    (DeleteIf("p", "there", 3), True),
    (DeleteIf("p", "absent", 1), False),
    (Check("p", "there", None), True),
    (Check("p", "there", 1), True),
    (Check("p", "absent", 1), False),
    (Check("p", "absent", 0), False),
]


@pytest.mark.parametrize(("action", "exists"), LOSING, ids=repr)
def test_a_condition_that_fails_hands_the_present_item_back_and_writes_nothing(
    state: State, action: Action, exists: bool
) -> None:
    state.transact([PutNew("p", "there", {"n": 1})])
    state.transact([PutIf("p", "there", 1, {"n": 2})])
    there = Item("p", "there", 2, {"n": 2})
    for actions, index in (
        ([action], 0),
        ([action, PutNew("p", "other", {})], 0),
        ([PutNew("p", "other", {}), action], 1),
    ):
        with pytest.raises(Conflict) as caught:
            state.transact(actions)
        assert caught.value.losses == (Loss(index, there if exists else None),)
        assert state.query("p") == [there]


def test_every_action_that_lost_is_named_and_no_other(state: State) -> None:
    state.transact([PutNew("p", "a", {"n": 1}), PutNew("p", "b", {"n": 2}), PutNew("q", "c", {"n": 3})])
    with pytest.raises(Conflict) as caught:
        state.transact(
            [
                PutNew("p", "a", {}),
                PutIf("p", "b", 1, {"changed": True}),
                Check("q", "c", None),
                PutIf("q", "d", 1, {}),
                Check("q", "e", None),
            ]
        )
    assert caught.value.losses == (
        Loss(0, Item("p", "a", 1, {"n": 1})),
        Loss(2, Item("q", "c", 1, {"n": 3})),
        Loss(3, None),
    )
    assert state.get("p", "b") == Item("p", "b", 1, {"n": 2})


def test_a_check_changes_nothing(state: State) -> None:
    state.transact([PutNew("p", "a", {"n": 1})])
    assert state.transact([Check("p", "a", 1), Check("p", "b", None)]) == [0, 0]
    assert state.query("p") == [Item("p", "a", 1, {"n": 1})]


def test_a_transaction_spans_partitions(state: State) -> None:
    state.transact([PutNew("p", "a", {"n": 1}), PutNew("q", "a", {"n": 2})])
    assert state.get("p", "a") == Item("p", "a", 1, {"n": 1})
    assert state.get("q", "a") == Item("q", "a", 1, {"n": 2})


def test_a_transaction_has_at_least_one_action(state: State) -> None:
    with pytest.raises(ValueError, match="actions"):
        state.transact([])


def test_a_transaction_has_at_most_a_hundred_actions(state: State) -> None:
    assert MAX_TRANSACT == 100
    actions = [PutNew("p", f"{n:03}", {"n": n}) for n in range(MAX_TRANSACT + 1)]
    with pytest.raises(ValueError, match="100"):
        state.transact(actions)
    assert state.query("p") == []
    assert state.transact(actions[:MAX_TRANSACT]) == [1] * MAX_TRANSACT
    assert [item.attributes["n"] for item in state.query("p")] == list(range(MAX_TRANSACT))


@pytest.mark.parametrize("second", [PutIf("p", "a", 1, {}), DeleteIf("p", "a", 1), Check("p", "a", 1)], ids=repr)
def test_two_actions_on_one_item_are_refused(state: State, second: Action) -> None:
    with pytest.raises(ValueError, match="one item"):
        state.transact([PutNew("p", "a", {}), PutNew("p", "b", {}), second])
    assert state.query("p") == []


def test_an_item_of_the_limit_is_kept_and_one_byte_more_is_refused(state: State) -> None:
    text = "x" * (MAX_ITEM_BYTES - len('{"t":""}'))
    state.transact([PutNew("p", "a", {"t": text})])
    assert state.get("p", "a") == Item("p", "a", 1, {"t": text})
    with pytest.raises(ItemTooLarge):
        state.transact([PutNew("p", "b", {}), PutIf("p", "a", 1, {"t": text + "x"})])
    with pytest.raises(ItemTooLarge):
        state.transact([PutNew("p", "c", {"t": text + "x"})])
    assert [(item.sort, item.version) for item in state.query("p")] == [("a", 1)]


def test_a_transaction_of_the_limit_is_kept_and_one_byte_more_is_refused(state: State) -> None:
    each = MAX_TRANSACT_BYTES // 9
    text = "".join(random.Random(3).choices(string.ascii_letters + string.digits, k=each - len('{"t":""}')))
    rest = MAX_TRANSACT_BYTES - 9 * each
    actions: list[Action] = [PutNew("p", str(n), {"t": text}) for n in range(9)]
    last = {"t": "x" * (rest + 20 - len('{"t":""}'))}
    actions[0] = PutNew("p", "0", {"t": text[20:]})
    with pytest.raises(ItemTooLarge):
        state.transact([*actions, PutNew("p", "9", {"t": last["t"] + "x"})])
    assert state.query("p") == []
    assert state.transact([*actions, PutNew("p", "9", last)]) == [1] * 10
    # More than one page of a store that ends its pages by size.
    for descending in (False, True):
        items = state.query("p", descending=descending)
        assert [item.sort for item in items] == sorted("0123456789", reverse=descending)
        assert {len(item.attributes["t"]) for item in items} == {len(text), len(text) - 20, len(last["t"])}
    assert [item.sort for item in state.query("p", after="1", limit=7)] == list("2345678")


def test_a_fault_of_the_caller_is_told_before_a_lost_condition(state: State) -> None:
    state.transact([PutNew("p", "a", {})])
    with pytest.raises(ItemTooLarge):
        state.transact([PutNew("p", "a", {}), PutNew("p", "b", {"t": "x" * MAX_ITEM_BYTES})])


VALUES: dict[str, Any] = {
    "empty": {},
    "text": {"a": "", "b": "é漢字😀", "c": "\x00\x1f\x7f\u2028", "d": '"\\/'},
    "surrogates": {"name": "caf\udce9", "\udcff": ["\ud800", "\udfff\ud800"]},
    "numbers": {"zero": 0, "big": 2**200, "low": -(2**63) - 1, "safe": 2**53 + 1},
    "floats": {"a": 0.1, "b": 1e308, "c": 5e-324, "d": -0.0, "e": 1.0, "f": 123456789.123456789},
    "words": {"t": True, "f": False, "n": None, "one": 1, "none": "None"},
    "nested": {"l": [[], {}, [[{"a": [1, "1", None, {"": ""}]}]]], "o": {"o": {"o": {"": [0.5]}}}},
}


@pytest.mark.parametrize("name", VALUES)
def test_attributes_come_back_as_they_were_put(state: State, name: str) -> None:
    state.transact([PutNew("p", "a", VALUES[name])])
    item = state.get("p", "a")
    assert item is not None
    # repr tells 1 from True and 1.0, and 0.0 from -0.0.
    assert repr(sorted(item.attributes.items())) == repr(sorted(VALUES[name].items()))
    assert state.query("p") == [item]
    with pytest.raises(Conflict) as caught:
        state.transact([PutNew("p", "a", {})])
    assert caught.value.losses == (Loss(0, item),)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), b"bytes", {1, 2}, object()], ids=["nan", "infinity", "bytes", "set", "object"]
)
def test_what_is_not_json_is_refused(state: State, value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        state.transact([PutNew("p", "a", {"ok": 1}), PutNew("p", "b", {"v": value})])
    assert state.query("p") == []


def test_attributes_are_the_callers_own(state: State) -> None:
    given: dict[str, Any] = {"list": [1]}
    state.transact([PutNew("p", "a", given)])
    given["list"].append(2)
    first = state.get("p", "a")
    assert first is not None
    first.attributes["list"].append(3)
    assert state.get("p", "a") == Item("p", "a", 1, {"list": [1]})


@pytest.mark.parametrize(
    ("partition", "sort"),
    [("", "a"), ("p", ""), ("p" * 2049, "a"), ("p", "s" * 1025), ("p", "é" * 513), ("\udcff", "a"), ("p", "a\ud800")],
    ids=["no partition", "no sort", "long partition", "long sort", "long in bytes", "surrogate", "surrogate in sort"],
)
def test_a_key_that_no_store_takes_is_refused_and_nothing_has_it(state: State, partition: str, sort: str) -> None:
    with pytest.raises(ValueError, match=r"partition|sort"):
        state.transact([PutNew("p", "ok", {}), PutNew(partition, sort, {})])
    assert state.get(partition, sort) is None
    assert state.query(partition, sort or "x") == []
    assert state.query("p") == []


def test_keys_of_the_greatest_length_are_kept(state: State) -> None:
    state.transact([PutNew("é" * 1024, "😀" * 256, {"n": 1})])
    assert state.get("é" * 1024, "😀" * 256) == Item("é" * 1024, "😀" * 256, 1, {"n": 1})


def test_keys_differ_by_every_character(state: State) -> None:
    keys = [("p", "a"), ("P", "a"), ("p", "A"), ("p", "a "), ("p", "a\x00"), ("p\x00", "a"), ("p\x00a", "a")]
    keys += [("p", "é"), ("p", "e\u0301"), ("p", "%"), ("p", "_"), ("p", "*"), ("p", "'"), ("p", "1"), ("p", "\u0661")]
    for number, (partition, sort) in enumerate(keys):
        assert state.transact([PutNew(partition, sort, {"n": number})]) == [1]
    for number, (partition, sort) in enumerate(keys):
        assert state.get(partition, sort) == Item(partition, sort, 1, {"n": number})


SORTS = [
    "A", "a", "a\x00", "a ", "a-", "a.", "a/", "a/1", "a/10", "a/2", "a/b/c", "a/\uffff", "a/😀", "a0", "a0/x", "a_",
    "aa", "a\x7f", "a\x80", "aé", "aê", "aé!", "a\ud7ff", "a\ue000", "a\uffff", "a\uffffz", "a\U00010000", "a😀",
    "a😀b", "a\U0010ffff", "a\U0010ffff\U0010ffff", "b", "%", "_", "é", "ê", "漢", "漢字", "\U0010ffff", "'", '"', "*",
]  # fmt: skip
"""Around every bound: '.' '/' '0', the ends of UTF-8's lengths, and where UTF-16 sorts otherwise."""

PREFIXES = [
    "",
    "a",
    "a/",
    "a/1",
    "aé",
    "a\uffff",
    "a😀",
    "a\U0010ffff",
    "\U0010ffff",
    "é",
    "漢",
    "%",
    "_",
    "A",
    "z",
    "a\x7f",
]


def _expected(prefix: str, after: str | None, limit: int, descending: bool) -> list[str]:
    found = sorted((sort.encode() for sort in SORTS if sort.startswith(prefix)), reverse=descending)
    if after is not None:
        bound = after.encode()
        found = [sort for sort in found if (sort < bound if descending else sort > bound)]
    return [sort.decode() for sort in found[:limit]]


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_a_query_is_in_bytewise_order_within_prefix_after_and_limit(
    state: State, adapter: str, descending: bool
) -> None:
    others = [PutNew("o", sort, {}) for sort in SORTS[::3]]
    state.transact([*(PutNew("p", sort, {"s": sort}) for sort in SORTS), *others])
    asked = list(itertools.product(PREFIXES, (None, "0", "a/15", "zz", *SORTS), (1, 3, 1000)))
    for prefix, after, limit in cases(adapter, asked, 350):
        items = state.query("p", prefix, after=after, limit=limit, descending=descending)
        assert [item.sort for item in items] == _expected(prefix, after, limit, descending)
        assert all(item == Item("p", item.sort, 1, {"s": item.sort}) for item in items)


def test_a_bound_that_no_key_has_keeps_its_place_among_them(state: State) -> None:
    """A lone surrogate lies between U+D7FF and U+E000; a bound may be empty, or longer than any key."""
    top = "a" + "\U0010ffff" * 255
    sorts = ["a", "a\ud7ff", "a\ue000", "b", "b" * 1024, top]
    state.transact([PutNew("p", sort, {}) for sort in sorts])
    ordered = sorted(sorts, key=str.encode)
    bounds = [
        "",
        "a\ud800",
        "a\udfff",
        "a\udfffz",
        "\ud800",
        "b" * 1025,
        "b" * 1024 + "\udfff",
        "b" * 1023 + "\ud800",
        top + "a",
    ]
    for after in bounds:
        place = after.encode("utf-8", "surrogatepass")
        below = [sort for sort in ordered if sort.encode() < place]
        above = [sort for sort in ordered if sort.encode() > place]
        for prefix in ("", "a", "b"):
            found = [item.sort for item in state.query("p", prefix, after=after)]
            assert found == [sort for sort in above if sort.startswith(prefix)], ascii(after)
            found = [item.sort for item in state.query("p", prefix, after=after, descending=True)]
            assert found == [sort for sort in below[::-1] if sort.startswith(prefix)], ascii(after)


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_pages_that_follow_each_other_give_every_item_once(state: State, descending: bool) -> None:
    state.transact([PutNew("p", sort, {}) for sort in SORTS])
    seen: list[str] = []
    while page := state.query("p", "a", after=seen[-1] if seen else None, limit=7, descending=descending):
        seen += [item.sort for item in page]
        assert len(page) == 7 or len(seen) == len(_expected("a", None, 1000, False))
    assert seen == _expected("a", None, 1000, descending)


def test_a_query_gives_a_hundred_items_unless_told_and_a_thousand_at_most(state: State) -> None:
    for start in range(0, 1001, 91):
        state.transact([PutNew("p", f"{n:04}", {}) for n in range(start, min(start + 91, 1001))])
    assert len(state.query("p")) == 100
    assert [item.sort for item in state.query("p", limit=1000)] == [f"{n:04}" for n in range(1000)]
    for limit in (0, -1, 1001):
        with pytest.raises(ValueError, match="limit"):
            state.query("p", limit=limit)


def test_delete_partition_takes_that_partition_whole_and_no_other(state: State) -> None:
    for start in range(0, 1300, 100):
        state.transact([PutNew("p", f"{n:04}", {}) for n in range(start, start + 100)])
    state.transact([PutNew("p2", "a", {}), PutNew("P", "a", {}), PutNew("p/", "a", {})])
    state.delete_partition("p")
    assert state.query("p") == []
    for partition in ("p2", "P", "p/"):
        assert len(state.query(partition)) == 1
    state.delete_partition("p")
    state.delete_partition("unknown")
    assert state.transact([PutNew("p", "0000", {})]) == [1]


def test_a_sweep_takes_only_what_has_expired_and_counts_it(state: State) -> None:
    expiries = [None, 0, 50, 99, 100, 101, 2**40]
    state.transact([PutNew("p", str(n), {}, expires_at=at) for n, at in enumerate(expiries)])
    count = state.sweep(100)
    left = {item.sort for item in state.query("p")}
    # A store whose TTL cleans up by itself sweeps nothing; none takes an item whose time has not come.
    assert {"0", "4", "5", "6"} <= left
    assert count == len(expiries) - len(left)


def test_a_put_sets_the_expiry_anew(state: State) -> None:
    state.transact([PutNew("p", "kept", {}, expires_at=5), PutNew("p", "longer", {}, expires_at=5)])
    state.transact([PutIf("p", "kept", 1, {}), PutIf("p", "longer", 1, {}, expires_at=2**40)])
    state.sweep(100)
    assert [item.sort for item in state.query("p")] == ["kept", "longer"]


def test_an_expiry_that_is_no_time_is_refused(state: State) -> None:
    for expires_at in (-1, 2**63):
        with pytest.raises(ValueError, match="expires_at"):
            state.transact([PutNew("p", "a", {}, expires_at=expires_at)])
    assert state.get("p", "a") is None


def test_random_transactions_do_what_a_dictionary_does(state: State, adapter: str) -> None:
    draw = random.Random(2)
    model: dict[str, tuple[int, int]] = {}
    for round_number in range(rounds(adapter, 400, 150)):
        actions: list[Action] = []
        for sort in draw.sample("abcd", draw.randint(1, 4)):
            version = model[sort][0] if sort in model and draw.random() < 0.8 else draw.randint(1, 3)
            made: list[Action] = [
                PutNew("p", sort, {"n": round_number}),
                PutIf("p", sort, version, {"n": round_number}),
                PutIf("p", sort, version, {"n": round_number}),
                DeleteIf("p", sort, version),
                Check("p", sort, None if draw.random() < 0.5 else version),
            ]
            actions.append(draw.choice(made))
        present = {action.sort: model[action.sort][0] if action.sort in model else None for action in actions}
        lost = [
            index
            for index, action in enumerate(actions)
            if present[action.sort] != (None if isinstance(action, PutNew) else action.version)
        ]
        if lost:
            with pytest.raises(Conflict) as caught:
                state.transact(actions)
            assert [loss.index for loss in caught.value.losses] == lost
        else:
            versions = state.transact(actions)
            for action, version in zip(actions, versions, strict=True):
                if isinstance(action, PutNew | PutIf):
                    assert version == (present[action.sort] or 0) + 1
                    model[action.sort] = (version, round_number)
                else:
                    assert version == 0
                    if isinstance(action, DeleteIf):
                        del model[action.sort]
        assert {item.sort: (item.version, item.attributes["n"]) for item in state.query("p")} == model
