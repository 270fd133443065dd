"""Admission on the n-th sight: a plain list of what was offered is the model."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstow.server.core.admission import Admission

Offers = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=6), max_size=20)


def test_the_first_sight_admits_when_the_threshold_is_one_and_nothing_is_kept() -> None:
    admission = Admission(threshold=1, limit=4)
    assert admission.admits([1, 2, 1]) == [True, True, True]
    assert admission.admits([]) == []
    assert len(admission) == 0
    assert admission.admits_all
    assert not Admission(threshold=2, limit=4).admits_all


def test_a_block_is_admitted_on_its_third_sight_and_ever_after() -> None:
    admission = Admission(threshold=3, limit=8)
    assert admission.admits([1, 2]) == [False, False]
    assert admission.admits([1]) == [False]
    assert admission.admits([1, 2]) == [True, False]
    assert admission.admits([3, 1, 2]) == [False, True, True]


def test_what_was_not_offered_for_longest_is_forgotten_and_of_one_offer_the_tail() -> None:
    admission = Admission(threshold=2, limit=3)
    admission.admits([1])
    admission.admits([2, 3, 4])
    assert admission.admits([1]) == [
        False
    ]  # forgotten; and it pushes out 4, the tail of the older offer
    assert admission.admits([2, 3, 4]) == [True, True, False]


def test_an_offer_beyond_the_limit_is_counted_whole_until_the_next_one() -> None:
    admission = Admission(threshold=2, limit=2)
    assert admission.admits([1, 2, 3, 4]) == [False] * 4
    assert len(admission) == 4
    assert admission.admits([1, 2, 3, 4]) == [True] * 4
    assert admission.admits([5]) == [False]
    assert len(admission) == 2
    assert admission.admits([1, 2]) == [True, False]


@settings(deadline=None)
@given(offers=Offers, threshold=st.integers(1, 4), limit=st.integers(1, 12))
def test_any_history_admits_what_a_list_of_sightings_admits(
    offers: list[list[int]], threshold: int, limit: int
) -> None:
    admission = Admission(threshold, limit)
    remembered: list[tuple[int, int]] = []  # (block, sightings), longest ago first
    for offer in offers:
        counts = dict(remembered)
        seen = [(block, counts.get(block, 0) + 1) for block in offer]
        assert admission.admits(offer) == [count >= threshold for _, count in seen]
        older = [pair for pair in remembered if pair[0] not in offer]
        room = max(0, limit - len(seen))
        remembered = older[max(0, len(older) - room) :] + seen[::-1]
        if threshold > 1:
            assert len(admission) == len(remembered)


@pytest.mark.parametrize(("threshold", "limit"), [(0, 1), (-1, 1), (2, 0)])
def test_arguments_below_one_are_refused(threshold: int, limit: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Admission(threshold, limit)
