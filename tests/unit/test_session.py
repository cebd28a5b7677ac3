"""The lock, the lease and the fence of a session: DESIGN §5, exec.md A8.14."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.session import Fenced, Head, Lock, Owner, acquire, commit, held, live, release, renew

A = Owner("a", "1")
A_AGAIN = Owner("a", "2")
B = Owner("b", "1")
LEASE = 30_000
NOW = 1_000_000
FREE = Head(created=0, used=0, fence=7)


def locked(owner: Owner = A, now: int = NOW) -> Head:
    head = acquire(FREE, owner, now, LEASE)
    assert head is not None
    return head


def test_the_three_actors_of_the_picture() -> None:
    by_a = locked()
    assert (by_a.fence, by_a.lock) == (8, Lock(A, NOW + LEASE))
    assert acquire(by_a, B, NOW + LEASE - 1, LEASE) is None
    by_b = acquire(by_a, B, NOW + LEASE, LEASE)
    assert by_b is not None
    assert by_b.fence == 9
    with pytest.raises(Fenced):
        commit(by_b, 8, NOW, inline="late", pointer="")
    done = commit(by_b, 9, NOW + LEASE, inline="b", pointer="")
    assert (done.lock, done.inline, done.fence) == (None, "b", 9)
    with pytest.raises(Fenced):
        commit(done, 8, NOW, inline="late", pointer="")
    with pytest.raises(Fenced):
        commit(done, 9, NOW, inline="twice", pointer="")


@pytest.mark.parametrize(
    ("who", "at", "stands"),
    [
        (B, NOW, True),
        (B, NOW + LEASE - 1, True),
        (B, NOW + LEASE, False),
        (A, NOW, True),
        (A, NOW + LEASE, False),
        (A_AGAIN, NOW, False),
        (Owner("b", "2"), NOW, True),
    ],
)
def test_whose_lock_stands_for_whom_to_the_millisecond(who: Owner, at: int, stands: bool) -> None:
    assert held(locked(), who, at) is stands
    assert (acquire(locked(), who, at, LEASE) is None) is stands


def test_a_restarted_service_frees_its_own_and_fences_its_past() -> None:
    taken = acquire(locked(), A_AGAIN, NOW + 1, LEASE)
    assert taken is not None
    assert (taken.fence, taken.lock) == (9, Lock(A_AGAIN, NOW + 1 + LEASE))
    with pytest.raises(Fenced):
        renew(taken, 8, NOW + 2, LEASE)


def test_a_renewed_lease_lasts_from_now_and_never_shortens() -> None:
    later = renew(locked(), 8, NOW + 10_000, LEASE)
    assert later.lock == Lock(A, NOW + 10_000 + LEASE)
    assert renew(later, 8, NOW, LEASE).lock == later.lock
    assert later.fence == 8


def test_a_lapsed_lease_that_nobody_took_is_still_ours() -> None:
    head = locked()
    assert commit(head, 8, NOW + 10 * LEASE, inline="x", pointer="").inline == "x"
    assert renew(head, 8, NOW + 10 * LEASE, LEASE).lock == Lock(A, NOW + 11 * LEASE)


def test_release_leaves_everything_but_the_lock() -> None:
    assert release(locked(), 8) == replace(locked(), lock=None)


@pytest.mark.parametrize("fence", [7, 9, 0, -8])
def test_under_another_fence_nothing_is_done(fence: int) -> None:
    steps: list[Callable[[], object]] = [
        lambda: renew(locked(), fence, NOW, LEASE),
        lambda: commit(locked(), fence, NOW, inline="", pointer=""),
        lambda: release(locked(), fence),
    ]
    for step in steps:
        with pytest.raises(Fenced):
            step()


@pytest.mark.parametrize("head", [FREE, replace(locked(), gone=True), replace(locked(), lock=None)])
def test_without_a_lock_of_ours_nothing_is_done(head: Head) -> None:
    steps: list[Callable[[], object]] = [
        lambda: renew(head, head.fence, NOW, LEASE),
        lambda: commit(head, head.fence, NOW, inline="", pointer=""),
        lambda: release(head, head.fence),
    ]
    for step in steps:
        with pytest.raises(Fenced):
            step()


def test_a_session_whose_removal_has_begun_cannot_be_locked() -> None:
    assert acquire(replace(FREE, gone=True), A, NOW, LEASE) is None


@pytest.mark.parametrize(("at", "alive"), [(NOW + 99, True), (NOW + 100, False), (NOW - 5, True)])
def test_A8_14_a_session_ends_at_the_exact_millisecond_of_its_lifetime(at: int, alive: bool) -> None:
    assert live(replace(FREE, used=NOW), at, 100) is alive


def test_A8_14_a_run_keeps_its_session_alive_until_its_lease_ends() -> None:
    head = replace(locked(), used=0)
    assert live(head, NOW + LEASE - 1, 100)
    assert not live(head, NOW + LEASE, 100)
    assert not live(replace(head, gone=True), NOW, 100)


def test_use_extends_the_life_and_a_clock_that_goes_back_does_not_shorten_it() -> None:
    assert locked().used == NOW
    assert commit(locked(), 8, NOW + 5, inline="", pointer="").used == NOW + 5
    assert commit(locked(), 8, NOW - 5, inline="", pointer="").used == NOW
    assert renew(locked(), 8, NOW + 5, LEASE).used == NOW


OWNERS = st.sampled_from([A, A_AGAIN, B])


@given(st.lists(st.tuples(OWNERS, st.sampled_from(["acquire", "renew", "commit", "release"]), st.integers(0, 40_000))))
def test_whatever_happens_the_fence_only_grows_and_only_its_holder_commits(
    steps: list[tuple[Owner, str, int]],
) -> None:
    head, now = FREE, NOW
    mine: dict[Owner, int] = {}
    for owner, verb, passed in steps:
        now += passed
        before = head
        try:
            if verb == "acquire":
                taken = acquire(head, owner, now, LEASE)
                if taken is not None:
                    head = taken
                    mine[owner] = head.fence
            elif owner in mine and verb == "renew":
                head = renew(head, mine[owner], now, LEASE)
            elif owner in mine and verb == "commit":
                head = commit(head, mine[owner], now, inline=owner.name + owner.incarnation, pointer="")
            elif owner in mine:
                head = release(head, mine[owner])
        except Fenced:
            assert before.lock is None or before.fence != mine[owner]
            continue
        assert head.fence >= before.fence
        if head.inline != before.inline or (verb == "commit" and owner in mine):
            assert before.lock is not None
            assert before.lock.owner == owner


@given(
    st.builds(
        Head,
        created=st.integers(0, 2**53),
        used=st.integers(0, 2**53),
        fence=st.integers(0, 2**31),
        lock=st.none() | st.builds(Lock, owner=OWNERS, until=st.integers(0, 2**53)),
        inline=st.text(max_size=5),
        pointer=st.text(max_size=5),
        gone=st.booleans(),
    )
)
def test_a_head_is_read_as_it_was_written(head: Head) -> None:
    assert Head.of(head.attributes()) == head
