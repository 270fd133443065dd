"""What is remembered of keys: the newest counts, and only so much."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from core.engines import key
from kvstow.server.core.history import BATCH_LIMIT, Batch, Batches, Ended, History, Recollection
from kvstow.server.core.types import Fate

INDEX, OLD_INDEX, FOREIGN_INDEX = 1, 2, 3
ENDED = Ended(7, 50.0, (OLD_INDEX,))
MOVES = [Fate.STORED, Fate.EVICTED, Fate.RECLAIMED, Fate.STORE_FAILED]


def explain(history: History, keys: list[bytes]) -> list[tuple[Fate, float, int]]:
    """What it says of keys none of which is there, in generation 8."""
    parts = (history.moves.all(), history.refusals.all())
    found = Recollection(keys, {}, 8, INDEX, {OLD_INDEX: ENDED}, parts, [], None, now=100.0)
    return [(each.fate, each.age_s, each.generation) for each in found.explain()]


def recalled(batches: Batches) -> list[Batch]:
    """All that are remembered."""
    return [*map(Batch.recalled, batches.all())]


@given(
    batches=st.lists(
        st.tuples(
            st.sampled_from([OLD_INDEX, INDEX, FOREIGN_INDEX]),
            st.sampled_from([*MOVES, Fate.NO_SPACE]),
            st.dictionaries(st.integers(0, 3), st.sampled_from("ASND"), min_size=1),
        ),
        max_size=20,
    )
)
def test_the_newest_counts(batches: list[tuple[int, Fate, dict[int, str]]]) -> None:
    """Whatever came and went and was refused, most of it at the same time."""
    history = History(1000)
    expected: dict[int, tuple[Fate, float, int]] = {}
    for position, (index, fate, offered) in enumerate(batches):
        now = float(position // 8)
        keys, letters = [key(number) for number in offered], list(offered.values())
        if fate is Fate.NO_SPACE:
            history.refuse(index, keys, letters, now)
        else:
            history.add(index, fate, keys, now)
        for number, letter in offered.items():
            found = {"N": Fate.NO_SPACE, "D": Fate.NOT_ADMITTED}.get(letter)
            found = found if fate is Fate.NO_SPACE else fate
            if found is None or index == FOREIGN_INDEX:
                continue
            expected[number] = (found, 100.0 - now, 8 if index == INDEX else 7)
            if found is Fate.STORED:
                reset, there = (Fate.RESET, 50.0, 7), (Fate.READY, 0.0, 8)
                expected[number] = reset if index == OLD_INDEX else there
    unknown = (Fate.UNKNOWN, 0.0, 8)
    assert explain(history, [key(number) for number in range(5)]) == [
        expected.get(number, unknown) for number in range(5)
    ]


@given(
    batches=st.lists(
        st.tuples(st.sampled_from([OLD_INDEX, INDEX]), st.sampled_from(MOVES), st.integers(0, 3)),
        max_size=20,
    ),
    times=st.lists(st.integers(-1, 99), min_size=5, max_size=5),
)
def test_what_came_after_a_time_does_not_count(
    batches: list[tuple[int, Fate, int]], times: list[int]
) -> None:
    """One key comes or goes every five seconds, so that the reset at 50 s lies in between."""
    history = History(1000)
    asked = {key(number): float(time) for number, time in enumerate(times)}
    expected = dict.fromkeys(asked, (Fate.UNKNOWN, 8))
    for position, (index, fate, number) in enumerate(batches):
        history.add(index, fate, [key(number)], 5.0 * position)
        if 5.0 * position <= asked[key(number)]:
            found = Fate.READY if fate is Fate.STORED else fate
            if found is Fate.READY and index == OLD_INDEX and asked[key(number)] >= ENDED.at:
                found = Fate.RESET
            expected[key(number)] = (found, 8 if index == INDEX else 7)
    parts = (history.moves.all(), history.refusals.all())
    known = Recollection([*asked], {}, 8, INDEX, {OLD_INDEX: ENDED}, parts, [], None, now=100.0)
    found_before = known.explain_before(asked)
    assert [(each.fate, each.generation) for each in found_before] == [*expected.values()]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=30), st.integers(1, 20))
def test_only_so_many_keys_are_remembered(sizes: list[int], limit: int) -> None:
    batches = Batches(limit)
    for number, size in enumerate(sizes, start=1):
        batches.add(Batch(number, INDEX, float(number), Fate.STORED, ()).record([b"k"] * size))
    left = recalled(batches)
    assert [batch.number for batch in left] == list(range(1, len(sizes) + 1))[-len(left) :]
    counts = [len(batch.keys) for batch in left]
    assert len(left) == 1 or sum(counts) <= limit
    gone = len(sizes) - len(left)
    assert batches.forgotten_at == (left[0].at - 1 if gone else None)
    assert not gone or sum(counts) + sizes[gone - 1] > limit


def test_what_is_told_late_is_forgotten_with_what_came_after_it() -> None:
    batches = Batches(4)
    for number in (2, 4, 3, 5):
        batches.add(Batch(number, INDEX, float(number), Fate.STORED, ()).record([b"k", b"k"]))
    assert (batches.forgotten, batches.forgotten_at) == (4, 4.0)
    assert [batch.number for batch in recalled(batches)] == [5]


def test_only_so_many_batches_are_remembered() -> None:
    batches = Batches(1 << 30)
    for number in range(BATCH_LIMIT + 3):
        batches.add(Batch(number, INDEX, 0.0, Fate.STORED, ()).record([b"k"]))
    assert len(batches.all()) == BATCH_LIMIT


def test_to_forget_what_was_told_late_makes_nothing_newer_known_again() -> None:
    batches = Batches(1)
    for number in (5, 3, 7):
        batches.add(Batch(number, INDEX, float(number), Fate.STORED, ()).record([b"k"]))
    assert [batch.number for batch in recalled(batches)] == [7]
    assert (batches.forgotten, batches.forgotten_at) == (5, 5.0)


def test_refusals_push_out_no_moves() -> None:
    history = History(4)
    history.add(INDEX, Fate.EVICTED, [key(1)], 0.0)
    for _ in range(9):
        history.refuse(INDEX, [key(2), key(3), key(4)], ["S", "N", "N"], 1.0)
    assert [fate for fate, _, _ in explain(history, [key(1), key(2), key(3)])] == [
        Fate.EVICTED,
        Fate.UNKNOWN,
        Fate.NO_SPACE,
    ]


def test_the_garbage_collector_does_not_walk_what_is_remembered() -> None:
    history = History(10)
    history.add(INDEX, Fate.EVICTED, [key(1), key(2)], 0.0)
    history.refuse(INDEX, [key(1), key(2)], ["N", "S"], 0.0)
    remembered = [history.moves, history.refusals]
    assert [[*batch.keys] for each in remembered for batch in recalled(each)] == [
        [key(1), key(2)]
    ] * 2
    gc.collect()
    assert not any(gc.is_tracked(record) for each in remembered for record in each.all())
